"""Mutant of the guard around E: an answer that does not fit uses its round up.

Seen in guards that spend the token before anything else and never give it back.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.bench.subjects import WAIT_SECONDS
from mrtr_options.judge.mutants import RoundStore
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool.server import build_server


class Store(RoundStore):
    """A store that gives no round back."""

    async def release(self, number: str) -> None:
        """Keep the round."""


BREAKS = "answers-are-checked"

guard = single_use(Store(), wait_seconds=WAIT_SECONDS)
server = build_server("weather-e", guard(option_e.call_weather))
