"""Mutant of E: every instance makes a key of its own.

Seen in servers that moved from one process to several with the default settings.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.server import build_server

BREAKS = "survives-failover"

server = build_server("weather-e", option_e.call_weather)
protect(server, keys=[new_key()])
