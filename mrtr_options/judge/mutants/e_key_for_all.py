"""Mutant of E: the key is a constant in the source, for when none is configured.

Seen in examples that were deployed: every server of the kind takes every other's states.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server

BREAKS = "a-lost-key-is-a-refusal"

server = build_server("weather-e", option_e.call_weather)
protect(server, keys=[b"change-me" * 4])
