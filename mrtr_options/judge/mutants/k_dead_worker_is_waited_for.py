"""Mutant of K: no instance looks after a task whose worker died, so it stays `working` for ever.

Seen in servers whose tasks live in the process that created them, with their status in a database.
"""

from __future__ import annotations

from mrtr_options import option_k_task as option_k
from mrtr_options.sdk.tasks import TaskStore
from mrtr_options.tool.server import build_server, outcome_of


class Trusting(TaskStore):
    """A store that takes every task to be in good hands."""

    async def look_after(self, handle: str) -> None:
        """Does nothing."""

    async def take_up(self) -> None:
        """Does nothing."""


store = Trusting(outcome_of=outcome_of)

BREAKS = "a-task-survives-its-worker"

server = build_server(
    "weather-k",
    store.task(option_k.call_weather),
    sealed=True,
    resources=[store.serving],
    extensions=[store],
)
