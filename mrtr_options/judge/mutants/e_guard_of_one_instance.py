"""Mutant of the guard around E: every instance remembers its own rounds.

Seen in guards that keep their set in memory and are deployed behind a load balancer.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.bench.subjects import WAIT_SECONDS
from mrtr_options.judge.mutants import RoundStore
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool.server import build_server

BREAKS = "bill-once-duplicate-final"

guard = single_use(RoundStore(rounds={}), wait_seconds=WAIT_SECONDS)
server = build_server("weather-e", guard(option_e.call_weather))
