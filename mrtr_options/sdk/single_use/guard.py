"""The single-use guard: a wrapper that runs every round with answers at most once.

A client that lost a response re-issues the request, and a stateless option cannot tell the duplicate
from the first. The guard can: it puts a number that is good for one round into every state, and
reserves that number in a store that all instances share before a round with answers runs.

- A duplicate (same state, same answers; at once or later, on any instance) gets the recorded response,
  and the handler does not run.
- The same state with other answers is refused.
- A round that was reserved and never recorded (its process died) is *indeterminate*, in one clear
  error. Its effects may have happened, so it does not run a second time.
- A state that is handed out again is good for no longer than it was at first, however fresh its token:
  its round is forgotten some time after that.

What it costs: a store; and a round that has begun is finished and recorded even when its client is gone
(it is shielded from cancellation for up to `round_seconds`). What it cannot do: the first request of a
call carries no state, so two first requests are two calls. An answer that does not fit its question is
not recorded and may be corrected.

Knows MCP's types and `store`; works around any handler that returns its questions.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext
from pydantic import BaseModel, TypeAdapter

from mrtr_options.sdk.single_use.store import Full, Pending, Spent, Store

Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[ServerRequestContext[Any, Any], types.CallToolRequestParams], Awaitable[Result]]

MAX_RESPONSE_BYTES = 256 * 1024
"""The longest recorded response; a longer one is given once and cannot be repeated."""


class _State(BaseModel):
    """The state that travels: the guard's number for the next round, when that number was first handed
    out (in seconds since 1970), and the handler's own state."""

    number: str
    begins: float
    state: str | None


class _Refusal(BaseModel):
    """A recorded JSON-RPC error."""

    kind: Literal["error"] = "error"
    code: int
    message: str
    data: Any = None


_OUTCOME: TypeAdapter[_Refusal | types.InputRequiredResult | types.CallToolResult] = TypeAdapter(
    _Refusal | types.InputRequiredResult | types.CallToolResult
)


def single_use(
    store: Store,
    *,
    wait_seconds: float = 10.0,
    round_seconds: float = 60.0,
    state_seconds: float = 600.0,
    clock: Callable[[], float] = lambda: time.time(),
) -> Callable[[Handler], Handler]:
    """A wrapper that runs every round with answers at most once.

    Args:
        store: Shared by all instances that may take a round.
        wait_seconds: How long a second delivery waits for the first before it is told that the
            outcome is indeterminate.
        round_seconds: How long a round may take. Beyond it the round is recorded as indeterminate.
        state_seconds: How long a state is good for, from the round that first handed it out. Less
            than the store remembers a round.
        clock: Tells the time by which states age, in seconds since 1970.
    """

    def wrap(handler: Handler) -> Handler:
        async def guarded(
            ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
        ) -> Result:
            if params.request_state is None:
                return _new_round(await handler(ctx, params), clock())
            state = _load(params.request_state, clock() - state_seconds)
            params = params.model_copy(update={"request_state": state.state})
            if not params.input_responses:
                # Without answers nothing is reserved: the user may still answer this round.
                return _in_round(await handler(ctx, params), state.number, state.begins)
            recorded = await _reserve(store, state.number, _digest(params), wait_seconds)
            if recorded is not None:
                return _repeat(recorded)
            result: Result | None = None
            with anyio.CancelScope(shield=True):
                handle = partial(handler, ctx, params)
                result = await _run(store, state.number, handle, round_seconds, clock)
            assert result is not None
            return result

        return guarded

    return wrap


async def _reserve(store: Store, number: str, answers: str, wait_seconds: float) -> str | None:
    """Take a round, or wait for its recorded outcome.

    Raises:
        MCPError: Spent (-32602), or full or indeterminate (-32603).
    """
    pause = 0.005
    give_up = anyio.current_time() + wait_seconds
    while True:
        try:
            return await store.reserve(number, answers)
        except Spent:
            raise MCPError(
                types.INVALID_PARAMS,
                "This round has been answered differently before.",
                {"reason": "round_spent"},
            ) from None
        except Full:
            raise MCPError(
                types.INTERNAL_ERROR,
                "This server remembers as many rounds as it may. Try again later.",
                {"reason": "too_many_rounds"},
            ) from None
        except Pending:
            if anyio.current_time() >= give_up:
                raise _indeterminate() from None
        await anyio.sleep(pause)
        pause = min(pause * 2, 0.1)


async def _run(
    store: Store,
    number: str,
    handle: Callable[[], Awaitable[Result]],
    round_seconds: float,
    clock: Callable[[], float],
) -> Result:
    try:
        with anyio.fail_after(round_seconds):
            result = _new_round(await handle(), clock())
    except TimeoutError:
        error = _indeterminate()
        await _record(store, number, _refusal(error))
        raise error from None
    except MCPError as error:
        if _may_be_corrected(error):
            await store.release(number)
        else:
            await _record(store, number, _refusal(error))
        raise
    except Exception:
        # The handler failed half-way: which of its effects happened is not known.
        await _record(store, number, _refusal(_indeterminate()))
        raise
    await _record(store, number, result)
    return result


async def _record(store: Store, number: str, outcome: BaseModel) -> None:
    text = outcome.model_dump_json(by_alias=True, exclude_none=True)
    if len(text.encode()) > MAX_RESPONSE_BYTES:
        text = _refusal(_indeterminate()).model_dump_json(exclude_none=True)
    await store.record(number, text)


def _repeat(recorded: str) -> Result:
    outcome = _OUTCOME.validate_json(recorded)
    if isinstance(outcome, _Refusal):
        raise MCPError(outcome.code, outcome.message, outcome.data)
    return outcome


def _new_round(result: Result, begins: float) -> Result:
    return _in_round(result, secrets.token_urlsafe(16), begins)


def _in_round(result: Result, number: str, begins: float) -> Result:
    if not isinstance(result, types.InputRequiredResult):
        return result
    state = _State(number=number, begins=begins, state=result.request_state).model_dump_json()
    return result.model_copy(update={"request_state": state})


def _load(text: str, oldest: float) -> _State:
    try:
        state = _State.model_validate_json(text)
    except ValueError:
        state = None
    if state is None or state.begins <= oldest:
        raise MCPError(
            types.INVALID_PARAMS,
            "Invalid or expired requestState",
            {"reason": "invalid_request_state"},
        )
    return state


def _digest(params: types.CallToolRequestParams) -> str:
    answers = {
        key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, response in (params.input_responses or {}).items()
    }
    return hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()


def _may_be_corrected(error: MCPError) -> bool:
    match error.data:
        case {"reason": "invalid_answer"}:
            return True
        case _:
            return False


def _refusal(error: MCPError) -> _Refusal:
    return _Refusal(code=error.code, message=error.message, data=error.data)


def _indeterminate() -> MCPError:
    return MCPError(
        types.INTERNAL_ERROR,
        "This round was begun and its outcome is not known: its effects may have happened. It is not "
        "run again.",
        {"reason": "indeterminate"},
    )
