"""Mutant of K: tasks are kept for ever, and so are their questions.

Seen where a time to live is announced and not enforced.
"""

from __future__ import annotations

from mrtr_options import option_k_task as option_k
from mrtr_options.sdk.tasks import TaskStore
from mrtr_options.tool.server import build_server, outcome_of

store = TaskStore(outcome_of=outcome_of, ttl_seconds=None)

BREAKS = "a-task-expires"

server = build_server(
    "weather-k",
    store.task(option_k.call_weather),
    sealed=True,
    resources=[store.serving],
    extensions=[store],
)
