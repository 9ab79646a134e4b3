"""Mutant of H: promises that a call survives a restart, and keeps its frame in memory.

Seen in frameworks whose `await` "resumes on whichever node gets the answer", as long as it is the
same one.
"""

from __future__ import annotations

from mrtr_options import option_h_continuation_store as option_h
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.tool.server import build_server

store = ContinuationStore()

BREAKS = "survives-restart"

server = build_server("weather-h", store.linear(option_h.call_weather), resources=[store])
