"""Mutant of the guard around E: a round is known by its state alone.

Seen in guards that take the token for an idempotency key: a no after a yes is told the yes's result.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.bench.subjects import WAIT_SECONDS
from mrtr_options.judge.mutants import RoundStore
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool.server import build_server


class Store(RoundStore):
    """A store to which all answers are the same."""

    async def reserve(self, number: str, answers: str) -> str | None:
        """Take a round, with whatever answers."""
        return await super().reserve(number, "")


BREAKS = "another-answer-is-not-the-first"

guard = single_use(Store(), wait_seconds=WAIT_SECONDS)
server = build_server("weather-e", guard(option_e.call_weather))
