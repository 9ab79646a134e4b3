"""Mutant of J: an effect's idempotency key is new in every round.

Seen wherever the key is made where the effect is sent, with a random number: it names the attempt, and
the ledger, which honours keys here, cannot know.
"""

from __future__ import annotations

import secrets

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.judge.mutants import at_honouring_desk
from mrtr_options.sdk.replay import Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server


class Forgetful(Round[weather.Desk]):
    """A round that makes its keys up."""

    def idempotency_key(self, kind: str, key: str) -> str:
        """A key for this attempt."""
        return secrets.token_hex()


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Forgetful(at_honouring_desk(ctx), params).run(option_j.call_weather, params)


BREAKS = "bill-once-lost-final"

server = build_server("weather-j", run, sealed=True)
