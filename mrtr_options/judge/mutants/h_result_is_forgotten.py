"""Mutant of H: a finished call is forgotten at once, and its last round cannot be sent again.

Seen in stores that hold calls and not responses: the user is billed and never sees what for.
"""

from __future__ import annotations

from mrtr_options import option_h_continuation_store as option_h
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.tool.server import build_server

store = ContinuationStore(max_finished=0)

BREAKS = "duplicates-get-one-response"

server = build_server("weather-h", store.linear(option_h.call_weather), resources=[store])
