"""Mutant of the guard around E: a round is looked up before it runs and recorded afterwards.

Seen in every guard that was tested one request at a time: two at once both find nothing.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.bench.subjects import WAIT_SECONDS
from mrtr_options.judge.mutants import RoundStore
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool.server import build_server


class Store(RoundStore):
    """A store that cannot reserve."""

    async def reserve(self, number: str, answers: str) -> str | None:
        """Look a round up."""
        _, outcome = self.rounds.get(number, (answers, None))
        return outcome

    async def record(self, number: str, outcome: str) -> None:
        """Record a round."""
        self.rounds[number] = ("", outcome)

    async def release(self, number: str) -> None:
        """There is nothing to give back."""


BREAKS = "bill-once-concurrent-final"

guard = single_use(Store(), wait_seconds=WAIT_SECONDS)
server = build_server("weather-e", guard(option_e.call_weather))
