"""Options that are broken on purpose, one guarantee each. The review must catch every one of them.

A mutant is a proposal like any other: a file with a `server`. Its name begins with the letter of the
option it is made from, and it has the same guarantees. Its docstring's first line says what is
broken, the rest where such a fault was seen, and `BREAKS` names the guarantee. A new file is a new
mutant, with no list to edit.

Here is what several of them need: another state boundary, a client that is taken to be more than it
said, and a store of rounds to break.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateCodec, RequestStateSecurity
from mcp.server.session import ServerSession

from mrtr_options.bench.client import principal_of
from mrtr_options.sdk.single_use import Pending, Spent
from mrtr_options.tool import weather
from mrtr_options.tool.protection import keys_from_environment, make_codec, new_key
from mrtr_options.tool.server import Context
from mrtr_options.tool.settings import STATE_TTL_SECONDS


def protect(
    server: Server[weather.Desk],
    *,
    keys: Sequence[bytes] | None = None,
    codec: RequestStateCodec | None = None,
    ttl: float = STATE_TTL_SECONDS,
    bind_principal: Callable[[ServerRequestContext[Any, Any]], str | None] | None = principal_of,
    boundary: type[RequestStateBoundary] = RequestStateBoundary,
) -> None:
    """Put another state boundary in the place of a server's own.

    Args:
        server: The server.
        keys: The ring; None for the one that the review gives every instance.
        codec: What seals and unseals; None for the signed one.
        ttl: How long a state is good for, in seconds.
        bind_principal: Who is calling.
        boundary: The class.
    """
    ring = keys or keys_from_environment() or [new_key()]
    codec = codec or make_codec(ring, sealed=False)
    security = RequestStateSecurity(codec=codec, ttl=ttl, bind_principal=bind_principal)
    server.middleware[-1] = boundary(security, default_audience=server.name)


class WillingSession(ServerSession):
    """A session whose client can be asked, whatever it declared."""

    def __init__(self, session: ServerSession) -> None:
        self.__dict__.update(vars(session))

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        return types.ClientCapabilities(elicitation=types.ElicitationCapability())


CLAIMED: set[str] = set()
"""Keys in a table that every instance sees."""

_ROUNDS: dict[str, tuple[str, str | None]] = {}


class RoundStore:
    """A store for the guard of single use, in memory.

    Args:
        rounds: (answers, outcome) by the round's number; None for those that every instance sees.
    """

    def __init__(self, rounds: dict[str, tuple[str, str | None]] | None = None) -> None:
        self.rounds = _ROUNDS if rounds is None else rounds

    async def reserve(self, number: str, answers: str) -> str | None:
        if number not in self.rounds:
            self.rounds[number] = (answers, None)
            return None
        taken, outcome = self.rounds[number]
        if taken != answers:
            raise Spent
        if outcome is None:
            raise Pending
        return outcome

    async def record(self, number: str, outcome: str) -> None:
        self.rounds[number] = (self.rounds[number][0], outcome)

    async def release(self, number: str) -> None:
        del self.rounds[number]


class HonouringLedger:
    """The ledger behind it, at which a key that has been seen is absorbed."""

    def __init__(self, ledger: weather.Ledger) -> None:
        self._ledger = ledger

    async def record(self, effect: weather.Effect) -> None:
        done = [(earlier.kind, earlier.key) for earlier in await self._ledger.effects()]
        if effect.key is None or (effect.kind, effect.key) not in done:
            await self._ledger.record(effect)

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


def at_honouring_desk(ctx: Context) -> Context:
    """The same request, at a desk whose ledger honours keys."""
    return replace(ctx, lifespan_context=weather.Desk(HonouringLedger(ctx.lifespan_context.ledger)))
