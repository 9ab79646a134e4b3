"""Mutant of E: a state is good for as long as a request may take.

Seen in servers that give the state the gateway's timeout, as if no one had to read the question.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server

BREAKS = "slow-users-are-served"

server = build_server("weather-e", option_e.call_weather)
protect(server, ttl=60.0)
