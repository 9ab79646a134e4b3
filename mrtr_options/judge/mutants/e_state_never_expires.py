"""Mutant of E: a state is good for a year.

Seen wherever the time to live was set to what no user could complain about.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server

BREAKS = "state-expires"

server = build_server("weather-e", option_e.call_weather)
protect(server, ttl=365 * 24 * 3600.0)
