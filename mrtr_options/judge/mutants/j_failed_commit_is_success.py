"""Mutant of J: an effect that fails after success is not reported.

Seen in frameworks whose deferred effects run when the response is gone, with no one left to tell.
"""

from __future__ import annotations

import contextlib

from mcp_types import Result as AnyResult

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.sdk.replay import CommitFailed, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server


class Silent(Round[weather.Desk]):
    """A round that keeps its failures to itself."""

    async def commit(self, result: AnyResult) -> None:
        """Do what was to be done after success, or some of it."""
        with contextlib.suppress(CommitFailed):
            await super().commit(result)


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Silent(ctx, params).run(option_j.call_weather, params)


BREAKS = "failed-effects-are-not-done"

server = build_server("weather-j", run, sealed=True)
