"""Mutant of the guard around E: a round that has run is refused, and its response is not kept.

Seen in guards made of a set of used tokens: safe, and the client that lost the response never gets
it.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.bench.subjects import WAIT_SECONDS
from mrtr_options.judge.mutants import RoundStore
from mrtr_options.sdk.single_use import Spent, single_use
from mrtr_options.tool.server import build_server


class Store(RoundStore):
    """A store that knows that a round ran, and not what came of it."""

    async def reserve(self, number: str, answers: str) -> str | None:
        """Take a round, once."""
        if number in self.rounds:
            raise Spent
        return await super().reserve(number, answers)


BREAKS = "bill-once-lost-final"

guard = single_use(Store(), wait_seconds=WAIT_SECONDS)
server = build_server("weather-e", guard(option_e.call_weather))
