"""What a deployment is: where scenarios run, and the instances of a server that it starts for one.

Each is a module of this folder: instances in memory, server processes of an option (`processes`)
and of a stranger's file (`children`, `child`), and a server behind a URL (`remote`). Those that any
option can be run on are offered by name: a module that has `OFFERED` is found by itself.
"""

from __future__ import annotations

import logging
import os
import pkgutil
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

import anyio
from mcp.client.session import ElicitationFnT

from mrtr_options.review.bench.history import Effect, Recording, Reply, Request
from mrtr_options.review.bench.scenario import Change, Keys, Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.sdk.protection import KEYS_VARIABLE, new_key
from mrtr_options.tool import weather
from mrtr_options.tool.settings import LEDGER_VARIABLE

HANG_SECONDS = 30.0
"""How long one request may take before it is called hung. Generous, so that a slow machine is not
reported as a hang; a request that is answered does not wait for it.
"""


class Deployment(Protocol):
    """Where scenarios run."""

    def cannot(self, scenario: Scenario) -> str | None:
        """Why a scenario cannot run here, as in "12 scenarios " + why; None if it can."""
        ...

    def started(
        self, subject: Subject, scenario: Scenario
    ) -> AbstractAsyncContextManager[Instances]:
        """Fresh instances of a subject for one run; they end with the block.

        Raises:
            CannotLoad: The subject is not an option that can be run.
        """
        ...


class Instances:
    """One or more instances of a server, and the world around them.

    A deployment overrides what it can do; what it cannot, its `cannot` leaves out.

    Attributes:
        instances: How many there are.
        hang_seconds: How long one request may take before it is called hung.
        name: What the matrix calls the deployment.
        recording: What happens at the instances, and what the player records of the client.
        strikes: Whether what is to go wrong at an effect does.
    """

    def __init__(self, instances: int, hang_seconds: float) -> None:
        self.instances = instances
        self.hang_seconds = hang_seconds
        self.name = "one" if instances == 1 else "two"
        self.recording = Recording()
        self.strikes = True
        self._effects_seen = 0

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

    async def crash(self, place: int) -> None:
        """End an instance, whatever it is at work on; another takes its place."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        """Let time pass; nothing where the instances keep their own."""

    async def collect(self) -> None:
        """Record the effects that could not be recorded as they happened."""

    async def _record_new(self, ledger: weather.Ledger) -> None:
        """Record the effects that a ledger has more than before."""
        effects = await ledger.effects()
        for effect in effects[self._effects_seen :]:
            self.recording.append(Effect(None, None, effect))
        self._effects_seen = max(self._effects_seen, len(effects))  # two may look at once

    async def effects(self) -> dict[weather.EffectKind, int]:
        """How often each kind of effect has taken place."""
        await self.collect()
        events = [event for event in self.recording.events if isinstance(event, Effect)]
        return weather.count(tuple(event.effect for event in events if not event.absorbed))


@dataclass(frozen=True)
class Offered:
    """A deployment of any option, by name.

    Attributes:
        name: Its name.
        says: What it is, for the title of a table.
        where: The deployment.
        instances: How many there are at most.
    """

    name: str
    says: str
    where: Deployment
    instances: int = 2


@cache
def offered() -> dict[str, Offered]:
    """Every deployment that is offered, by its name."""
    modules = [import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    rows: list[Offered] = [row for module in modules for row in getattr(module, "OFFERED", ())]
    return {row.name: row for row in rows}


def next_ring(keys: list[bytes], change: Keys) -> list[bytes]:
    """The ring of keys after a restart."""
    if change == "same":
        return keys
    return [new_key(), *keys] if change == "rotated" else [new_key()]


@contextmanager
def environment(ledger: Path, keys: list[bytes]) -> Generator[None]:
    """While a stranger's file is loaded: the ledger and the keys, where docs/CONTRACT.md says."""
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
    """Keep what the SDK and the engine log about refusals and failures out of the output: under
    review they are looked for. Inside another such block nothing changes, and loggers keep what
    they know.
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
