"""Option A: a wrapper that plays the modern client for a legacy one.

The handler is written for the modern era only. For a legacy client the shim calls it in a loop
inside one request: whatever the handler asks, the shim pushes to the client, and calls the handler
again with the answers and the state. The handler cannot tell the difference, so it works around
*any* handler: E's, F's, G's or H's.

- A round makes progress if it asks something that this call has not asked before, or whether to go
  on waiting. Rounds without progress are bounded; the number of questions is not, as far as a user
  answers them.
- A response with a state alone puts the result off. The handler is called again after a pause that
  grows, for a bounded time.
- After a decline or a cancel the other questions of the round are not shown.

The loop sits behind the state boundary, so the state it passes round never leaves the server and is
not sealed. It needs a back-channel, that is a connection held open for the whole call; without one
(stateless HTTP) the handler sees the legacy client as it is. That depends on the deployment; the
tool's code does not show it.

Knows `handler`, `push` and the key of `waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import wraps

import anyio
import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.sdk.handler import Context, Handler, Params, Result, check_handler
from mrtr_options.sdk.push import can_push, push_request
from mrtr_options.sdk.waiting import GO_ON

MAX_IDLE_ROUNDS = 10
"""The most rounds of one request that ask nothing new."""
MAX_ROUNDS = 1_000
"""The most rounds of one request that ask."""
FIRST_PAUSE_SECONDS = 0.05
"""The first pause where a result is put off; each next one is twice as long."""
LONGEST_PAUSE_SECONDS = 2.0
MAX_WAIT_SECONDS = 600.0
"""The longest time in a row that a result may be put off."""


def legacy_shim(handler: Handler) -> Handler:
    """Give legacy clients the whole conversation of a handler written for modern ones.

    Raises (at call time):
        MCPError: -32603, the handler asks the same again and again, or puts its result off for too
            long.
    """
    check_handler(handler, "legacy_shim")

    @wraps(handler)
    async def shimmed(ctx: Context, params: Params) -> Result:
        if not can_push(ctx):
            return await handler(ctx, params)
        as_modern = replace(ctx, protocol_version=LATEST_MODERN_VERSION)
        asking = _Asking()
        waiting = _Waiting()
        while True:
            result = await handler(as_modern, params)
            if isinstance(result, types.CallToolResult):
                return result
            requests = result.input_requests or {}
            if requests:
                waiting = _Waiting()
                asking.count(requests)
            else:
                await waiting.pause()
            answers = await _answers(ctx, requests)
            params = params.model_copy(
                update={"input_responses": answers, "request_state": result.request_state}
            )

    return shimmed


async def _answers(ctx: Context, requests: types.InputRequests) -> types.InputResponses:
    """Push questions, one after the other, until the user answers one with a no."""
    answers: types.InputResponses = {}
    for key, request in requests.items():
        answer = answers[key] = await push_request(ctx, key, request)
        if isinstance(answer, types.ElicitResult) and answer.action != "accept":
            break
    return answers


@dataclass
class _Asking:
    """The questions that one request has asked so far."""

    asked: set[str] = field(default_factory=set[str])
    rounds: int = 0
    idle: int = 0

    def count(self, requests: types.InputRequests) -> None:
        """Count a round that asks.

        Raises:
            MCPError: -32603, too many have asked nothing new, or too many have asked.
        """
        shown = {f"{key}\n{each.model_dump_json()}" for key, each in requests.items()}
        # Whoever waits on purpose asks the same again; its store bounds how often.
        asks_to_wait = requests.keys() == {GO_ON}
        if shown <= self.asked and not asks_to_wait:
            self.idle += 1
        self.asked |= shown
        self.rounds += 1
        if self.idle >= MAX_IDLE_ROUNDS:
            raise _given_up("asks again and again what it has asked before")
        if self.rounds > MAX_ROUNDS:
            raise _given_up(f"still asks after {MAX_ROUNDS} rounds")


@dataclass
class _Waiting:
    """The time for which a result has been put off in a row."""

    begun: float = field(default_factory=lambda: anyio.current_time())
    seconds: float = FIRST_PAUSE_SECONDS

    async def pause(self) -> None:
        """Wait before the handler is called again.

        Raises:
            MCPError: -32603, it has put its result off for too long.
        """
        waited = anyio.current_time() - self.begun
        if waited > MAX_WAIT_SECONDS:
            raise _given_up(
                f"has put its result off for {MAX_WAIT_SECONDS:g} s, and may still be at work"
            )
        await anyio.sleep(self.seconds)
        self.seconds = min(self.seconds * 2, LONGEST_PAUSE_SECONDS)


def _given_up(why: str) -> MCPError:
    return MCPError(
        types.INTERNAL_ERROR,
        f"This call is given up: the tool {why}. Its effects may have happened.",
    )
