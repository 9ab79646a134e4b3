"""What several mutants need: another state boundary, a shim that loses something, a broken guard.

Only the diffs in `mutants.toml` import this.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateCodec, RequestStateSecurity
from mcp.server.session import ServerSession

from mrtr_options.review.bench.client import principal_of
from mrtr_options.review.bench.subjects import WAIT_SECONDS
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.protection import (
    ProtectedRounds,
    keys_from_environment,
    make_codec,
    new_key,
)
from mrtr_options.sdk.push import can_push
from mrtr_options.sdk.replay import Round
from mrtr_options.sdk.single_use import single_use
from mrtr_options.sdk.single_use.store import Abandoned, Claim, Forgotten, Pending, Spent, Stamp
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Handler, Params, Result
from mrtr_options.tool.settings import STATE_TTL_SECONDS

BEGUN: set[str] = set()
"""Calls that have begun to run, on any instance."""

SHARED: dict[str, Any] = {}
"""What all instances see, as in a database of theirs."""


def protect(
    server: Server[weather.Desk],
    *,
    keys: Sequence[bytes] | None = None,
    codec: RequestStateCodec | None = None,
    ttl: float = STATE_TTL_SECONDS,
    bind_principal: Callable[[ServerRequestContext[Any, Any]], str | None] | None = principal_of,
    boundary: type[ProtectedRounds] = ProtectedRounds,
) -> None:
    """Replace a server's state boundary: by default with the ring that the review gives every
    instance, signed states, and `ttl` seconds for each of them.
    """
    codec = codec or make_codec(keys or keys_from_environment() or [new_key()], sealed=False)
    security = RequestStateSecurity(codec=codec, ttl=ttl, bind_principal=bind_principal)
    server.middleware[-1] = boundary(security, server=server.name)


class _WillingSession(ServerSession):
    """A session that takes its client to have declared elicitation."""

    def __init__(self, session: ServerSession) -> None:
        self.__dict__.update(vars(session))

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        return types.ClientCapabilities(elicitation=types.ElicitationCapability())


def willing(ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
    """The same request, of a client that declared elicitation."""
    return replace(ctx, session=_WillingSession(ctx.session))


def with_answers(
    params: Params, change: Callable[[str, types.ElicitResult], types.ElicitResult | None]
) -> Params:
    """The same request with what `change` makes of each key and answer to a form; None is no
    answer.
    """
    changed = {
        key: change(key, answer) if isinstance(answer, types.ElicitResult) else answer
        for key, answer in (params.input_responses or {}).items()
    }
    answers = {key: answer for key, answer in changed.items() if answer is not None}
    return params.model_copy(update={"input_responses": answers})


def shim_that(changes: Callable[[Params], Params], handler: Handler) -> Handler:
    """The legacy shim, which changes each request that it hands to the handler for an old
    client.
    """

    async def changed(ctx: Context, params: Params) -> Result:
        return await handler(ctx, changes(params))

    async def run(ctx: Context, params: Params) -> Result:
        return await legacy_shim(changed if can_push(ctx) else handler)(ctx, params)

    return run


def replay_on(round_type: type[Round[weather.Desk]], handler: Any) -> Handler:
    """`keyed_replay`, with another class of round."""

    async def run(ctx: Context, params: Params) -> Result:
        return await round_type(ctx, params).run(handler, params)

    return run


Rounds = dict[str, tuple[str, str | None]]

_ROUNDS: Rounds = {}
_ENDS: dict[str, float] = {}  # when the lease of a round ends, by its number


class RoundStore:
    """A store for the single-use guard, in memory: by default in one table that every instance
    sees.

    Attributes:
        rounds: (answers, outcome) by the round's number.
    """

    def __init__(self, rounds: Rounds | None = None) -> None:
        self.rounds = _ROUNDS if rounds is None else rounds

    async def stamp(self) -> Stamp:
        return Stamp(time.time(), "")

    async def reserve(self, claim: Claim) -> str | None:
        if time.time() - claim.begins >= STATE_TTL_SECONDS:
            raise Forgotten
        if claim.number not in self.rounds:
            self.rounds[claim.number] = (claim.answers, None)
            _ENDS[claim.number] = time.time() + claim.lease_seconds
            return None
        taken, outcome = self.rounds[claim.number]
        if outcome is None:
            raise Pending if _ENDS[claim.number] > time.time() else Abandoned
        if taken != claim.answers:
            raise Spent
        return outcome

    async def outcome(self, call: str) -> str | None:
        return self.rounds[call][1] if call in self.rounds else None

    async def take_over(self, claim: Claim) -> bool:
        return False

    async def record(self, claim: Claim, outcome: str) -> bool:
        self.rounds[claim.number] = (self.rounds[claim.number][0], outcome)
        return True

    async def release(self, claim: Claim) -> None:
        del self.rounds[claim.number]


def guarded(handler: Handler, store: RoundStore) -> Handler:
    """A handler behind the single-use guard."""
    return single_use(store, wait_seconds=WAIT_SECONDS)(handler)
