"""Parts that several mutants share: another state boundary, a lossy shim, a broken guard.

Only the diffs in `mutants.toml` import this module.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateCodec, RequestStateSecurity
from mcp.server.session import ServerSession

from mrtr_options.review.bench.client import principal_of
from mrtr_options.review.bench.world.wrappers import WAIT_SECONDS
from mrtr_options.sdk.handler import seals
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
from mrtr_options.sdk.single_use.reservations import (
    Abandoned,
    Claim,
    Forgotten,
    Pending,
    Spent,
    Stamp,
    Store,
)
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Handler, Params, Result
from mrtr_options.tool.settings import STATE_TTL_SECONDS

BEGUN: set[str] = set()
"""The calls that have begun to run, on any instance."""

SHARED: dict[str, Any] = {}
"""Values that all instances share, as in a database."""


def signed(*keys: bytes) -> RequestStateCodec:
    """Return a codec that signs states with these keys."""
    return make_codec(keys, sealed=False)


def protect(
    server: Server[weather.Desk],
    *,
    codec: RequestStateCodec | None = None,
    ttl: float = STATE_TTL_SECONDS,
    bind_principal: Callable[[ServerRequestContext[Any, Any]], str | None] | None = principal_of,
    boundary: type[ProtectedRounds] = ProtectedRounds,
) -> None:
    """Replace a server's state boundary.

    By default, states are signed with the keys that the review gives every instance.
    """
    codec = codec or signed(*(keys_from_environment() or [new_key()]))
    security = RequestStateSecurity(codec=codec, ttl=ttl, bind_principal=bind_principal)
    server.middleware[-1] = boundary(security, server=server.name)


class _WillingSession(ServerSession):
    """A session whose client seems to have declared elicitation."""

    def __init__(self, session: ServerSession) -> None:
        self.__dict__.update(vars(session))

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        return types.ClientCapabilities(elicitation=types.ElicitationCapability())


def willing(ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
    """Return the same request of a client that declared elicitation."""
    return replace(ctx, session=_WillingSession(ctx.session))


def with_answers(
    params: Params, change: Callable[[str, types.ElicitResult], types.ElicitResult | None]
) -> Params:
    """Return the same request with changed answers to forms; leave out those changed to None."""
    changed = {
        key: change(key, answer) if isinstance(answer, types.ElicitResult) else answer
        for key, answer in (params.input_responses or {}).items()
    }
    answers = {key: answer for key, answer in changed.items() if answer is not None}
    return params.model_copy(update={"input_responses": answers})


def shim_that(changes: Callable[[Params], Params], handler: Handler) -> Handler:
    """Wrap a handler in a legacy shim that changes the requests of old clients."""

    async def changed(ctx: Context, params: Params) -> Result:
        return await handler(ctx, changes(params))

    async def run(ctx: Context, params: Params) -> Result:
        return await legacy_shim(changed if can_push(ctx) else handler)(ctx, params)

    return run


def replay_on(round_type: type[Round], handler: Any) -> Handler:
    """Wrap a handler in `keyed_replay` with another class of round."""

    async def run(ctx: Context, params: Params) -> Result:
        return await round_type(ctx, params).run(handler, params)

    return seals(run)


Rounds = dict[str, tuple[str, str | None]]

_ROUNDS: Rounds = {}
_ENDS: dict[str, float] = {}  # the end of a round's lease, by its number


class RoundStore(Store):
    """A store for the single-use guard, in memory; by default all instances share one table.

    It has no names, takes nothing over and records no effects: what it leaves out returns None.

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

    async def record(self, claim: Claim, outcome: str) -> bool:
        self.rounds[claim.number] = (self.rounds[claim.number][0], outcome)
        return True

    async def release(self, claim: Claim) -> None:
        del self.rounds[claim.number]

    async def begin_effect(self, claim: Claim) -> bool:
        return True

    async def suspend(self, claim: Claim) -> None:
        _ENDS[claim.number] = 0.0


def guarded(handler: Handler, store: RoundStore) -> Handler:
    """Wrap a handler in the single-use guard."""
    return single_use(store, wait_seconds=WAIT_SECONDS)(handler)
