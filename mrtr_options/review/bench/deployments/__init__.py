"""Deployments: where scenarios run, and the instances of a server that one of them starts.

Each is a module of this folder: instances in memory, server processes of an option (`processes`)
and of a stranger's file (`children`, `child`), and a server behind a URL (`remote`). The
deployments that any option can run on are offered by name: `offered` finds each module that has
`OFFERED`.
"""

from __future__ import annotations

import logging
import os
import pkgutil
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from mcp.client.session import ElicitationFnT

from mrtr_options.review.bench.history import Effect, Recording
from mrtr_options.sdk.protection import KEYS_VARIABLE, new_key
from mrtr_options.tool import weather
from mrtr_options.tool.settings import LEDGER_VARIABLE

if TYPE_CHECKING:
    from mrtr_options.review.bench.messages import Reply, Request
    from mrtr_options.review.bench.scenario import Scenario
    from mrtr_options.review.bench.steps import Change, Keys
    from mrtr_options.review.bench.subjects import Subject

HANG_SECONDS = 30.0
"""The longest time for one request before it is called hung.

Generous, so that a slow machine is not reported as a hang; an answered request does not wait.
"""


LEDGER = "ledger.sqlite"
CALLS = "calls.sqlite"
"""The files of a set of instances: its effects, and the calls of an engine."""


class Deployment(Protocol):
    """A place where scenarios run."""

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why a scenario cannot run here, as in "12 scenarios " + why; None if it can."""
        ...

    def started(
        self, subject: Subject, scenario: Scenario
    ) -> AbstractAsyncContextManager[Instances]:
        """Start fresh instances of a subject for one run; they end with the block.

        Raises:
            CannotLoad: The subject is not an option that can be run.
        """
        ...


class Instances:
    """One or more instances of a server, and the world around them.

    A deployment overrides what it can do; what it cannot, its `cannot` leaves out.

    Attributes:
        instances: The number of instances.
        hang_seconds: The longest time for one request before it is called hung.
        name: The deployment's name in the matrix.
        recording: The events at the instances, and those that the player records of the client.
        can_strike: Whether faults at effects can be injected here.
    """

    def __init__(self, instances: int, hang_seconds: float) -> None:
        self.instances = instances
        self.hang_seconds = hang_seconds
        self.name = "one" if instances == 1 else "two"
        self.recording = Recording()
        self.can_strike = True

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        """Send one request to an instance.

        Args:
            instance: Counted from 0.
            request: The request.
            user: Answers what a legacy server pushes.
            gone: When it is set the client leaves.
        """
        raise NotImplementedError

    async def restart(self, keys: Keys) -> None:
        """Replace every instance."""
        raise NotImplementedError

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        """Replace every instance, or only one, by one with another version of the file."""
        raise NotImplementedError

    async def arm(self, name: str | None, only: int | None = None) -> None:
        """Let something go wrong at an effect of the next request, or only on one instance.

        Args:
            name: What, as in "crash@bill"; a kind of fault in `faults.KINDS`. None for nothing.
            only: The instance; None for any.
        """
        raise NotImplementedError

    async def crash(self, instance: int) -> None:
        """End an instance, whatever it is at work on; another takes its place."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        """Let time pass. Does nothing if the instances have a clock of their own."""

    async def collect(self) -> None:
        """Record the effects that could not be recorded as they happened."""

    async def _record_new(self, ledger: weather.Ledger) -> bool:
        """Record the effects of a ledger that no event has. Return whether there are any."""
        effects = await ledger.effects()
        events = [event for event in self.recording.events if isinstance(event, Effect)]
        known = Counter(event.effect for event in events if not event.absorbed)
        new: list[weather.Effect] = []
        for effect in effects:
            if known[effect]:
                known[effect] -= 1
            else:
                new.append(effect)
        for effect in new:
            self.recording.append(Effect(None, None, effect))
        return bool(new)


@dataclass(frozen=True)
class Offered:
    """A deployment of any option, by name.

    Attributes:
        name: Its name.
        says: The description for the title of a table.
        where: The deployment.
        instances: The most instances.
    """

    name: str
    says: str
    where: Deployment
    instances: int = 2


@cache
def offered() -> dict[str, Offered]:
    """Return every deployment that is offered, by its name."""
    modules = [import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    rows: list[Offered] = [row for module in modules for row in getattr(module, "OFFERED", ())]
    return {row.name: row for row in rows}


def next_ring(keys: list[bytes], change: Keys) -> list[bytes]:
    """Return the ring of keys after a restart."""
    if change == "same":
        return keys
    return [new_key(), *keys] if change == "rotated" else [new_key()]


@contextmanager
def environment(ledger: Path, keys: list[bytes]) -> Generator[None]:
    """Set the variables that docs/CONTRACT.md names, while a stranger's file is loaded."""
    before = dict(os.environ)
    ring = ",".join(key.decode() for key in keys)
    os.environ.update({LEDGER_VARIABLE: str(ledger), KEYS_VARIABLE: ring})
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before.items() - os.environ.items())


@contextmanager
def quiet_servers() -> Generator[None]:
    """Keep the logs of refusals and failures out of the output, since a review looks for them.

    Inside another such block nothing changes, and loggers keep their settings.
    """
    before = logging.root.manager.disable
    if before >= logging.CRITICAL:
        yield
        return
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


_IN_MEMORY = Path("/dev/shm")


@contextmanager
def scratch() -> Generator[Path]:
    """Make a folder that is deleted at the end of the block, in memory if the system allows it.

    A database waits for the disk at every commit, and under review is the death of processes, not
    that of the machine.
    """
    where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mrtr-", dir=where) as folder:
        yield Path(folder)
