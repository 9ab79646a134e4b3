"""Mutant of J: a decline is not recorded, so the question is asked again, for ever.

Seen in replays whose record holds the content of answers, and a no has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.sdk.replay import Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server


class Insistent(Round[weather.Desk]):
    """A round that does not take no for an answer."""

    def answers(self, questions: Sequence[Any]) -> tuple[Any, ...]:
        """The answers that are a yes."""
        for asked in self.record.asked.values():
            if asked.response is not None and asked.response.get("action") != "accept":
                asked.response = None
        return super().answers(questions)


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Insistent(ctx, params).run(option_j.call_weather, params)


BREAKS = "decline-ends-the-call"

server = build_server("weather-j", run, sealed=True)
