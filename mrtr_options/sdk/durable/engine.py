"""The interface of an engine that runs durable calls: DBOS (`embedded`) or Temporal (`fleet`).

Knows `context`, `events` and `record`; nothing of any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Protocol

from mrtr_options.errors import UsageError, refuse
from mrtr_options.sdk.durable.context import Running
from mrtr_options.sdk.durable.events import Answers, Begun, Output, Reply
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.settings import DATABASE_VARIABLE

NO_DATABASE = (
    f"warning: {DATABASE_VARIABLE} is not set, so waiting calls are kept in a file that is deleted"
    " when this process ends: a restart ends them"
)


class WrongDatabase(UsageError, RuntimeError):
    """A database that the engine cannot use. The text is one line that says why.

    It never has a password in it.
    """


class Engine(Protocol):
    """An engine that runs and keeps calls, for all processes that share it.

    Its methods wait for as long as the engine is away. All raise an MCPError if a call is unknown,
    or if no process of its version is running.
    """

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        """Begin a call of a registered handler, unless it has begun. Return its first output."""
        ...

    async def visit(self, handle: str, number: int, answers: Answers) -> Reply | Record:
        """Bring answers to a call, and wait for its next output; for a task, until they are stored.

        Args:
            handle: The call.
            number: The number of the output that the round goes on from.
            answers: The answers of the round.

        Returns:
            The call's next output, or its refusal; for a task, the question that it asked. The
                whole record if the call is over.
        """
        ...

    async def look(self, handle: str) -> Record:
        """Return the record of a call."""
        ...

    async def stop(self, handle: str) -> None:
        """End a call for good, unless it has ended; wait until it has."""
        ...


class Work(Protocol):
    """The part of a store that an engine uses."""

    keep_seconds: float
    clock: Callable[[], float]

    @property
    def handlers(self) -> Mapping[str, object]:
        """The handlers, by the name of their calls."""
        ...

    async def perform(self, name: str, running: Running) -> Output:
        """Run the handler of this name to its end."""
        ...

    def begins_as_task(self, name: str, begun: Begun) -> bool:
        """Return whether a call of the handler of this name is a task from its first line."""
        ...


def need(module: str, *, extra: str) -> None:
    """End the process with one line if a module of an optional extra is missing."""
    if find_spec(module) is None:
        refuse(f"this needs the extra {extra!r}: pip install '.[{extra}]' in a checkout")
