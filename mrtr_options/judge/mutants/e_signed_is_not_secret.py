"""Mutant of E: the state is promised to be unreadable, and is only signed.

Seen in servers that keep prices and internal ids in a state because "it is protected".
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import build_server

BREAKS = "state-sealed"

server = build_server("weather-e", option_e.call_weather)
