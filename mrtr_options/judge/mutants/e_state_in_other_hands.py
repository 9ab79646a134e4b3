"""Mutant of E: a state is good for whoever sends it.

Seen in servers that authenticate every request and never ask whether two of them are of one caller.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server

BREAKS = "state-is-bound-to-its-principal"

server = build_server("weather-e", option_e.call_weather)
protect(server, bind_principal=None)
