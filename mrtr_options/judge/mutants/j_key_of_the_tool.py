"""Mutant of J: an effect's idempotency key is its name, the same in every call.

Seen wherever the key is a digest of the request: two calls that are meant to be two are billed as one by
a ledger that honours keys, as it does here.
"""

from __future__ import annotations

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.judge.mutants import at_honouring_desk
from mrtr_options.sdk.replay import Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server


class Nameless(Round[weather.Desk]):
    """A round that does not know which call it belongs to."""

    def idempotency_key(self, kind: str, key: str) -> str:
        """A key for this effect of this tool."""
        return f"{kind} {key}"


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Nameless(at_honouring_desk(ctx), params).run(option_j.call_weather, params)


BREAKS = "parallel-calls-stay-two"

server = build_server("weather-j", run, sealed=True)
