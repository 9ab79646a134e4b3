"""Mutant of J: the state is signed and not sealed, so the client reads what `memo` keeps.

Seen wherever a helper that remembers the server's own values came after the state's protection.
"""

from __future__ import annotations

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.sdk.replay import keyed_replay
from mrtr_options.tool.server import build_server

BREAKS = "state-sealed"

server = build_server("weather-j", keyed_replay(option_j.call_weather), sealed=False)
