"""One schedule on one option, step by step: every delivery, response and effect in its order.

The matrix says what it came to; this says how. In memory, for modern clients.
Knows the runner and the in-memory deployment, whose every step it notes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mrtr_options.bench.deployments import FaultyLedger, MemoryDeployment, Request
from mrtr_options.bench.observations import Observation, Reply
from mrtr_options.bench.runner import play
from mrtr_options.bench.schedules import Change, Schedule, Send, Step
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.judge.matrix import quiet_servers
from mrtr_options.tool import weather


@dataclass(frozen=True)
class Delivered:
    """A request has reached an instance; instances count from 0."""

    instance: int
    request: Request


@dataclass(frozen=True)
class Responded:
    """A response, or that there is none; `lost` where it breaks off on its way."""

    instance: int
    reply: Reply
    lost: bool


@dataclass(frozen=True)
class Died:
    """An instance is gone in the middle of a round; another will take its place."""

    instance: int


@dataclass(frozen=True)
class Happened:
    """An effect reached its destination, which may have absorbed it: it had seen its key."""

    effect: weather.Effect
    absorbed: bool


@dataclass(frozen=True)
class Passed:
    """Something that is no message: a restart, a redeploy, time."""

    what: str


Event = Delivered | Responded | Died | Happened | Passed


@dataclass
class Trace:
    """What happened.

    Attributes:
        column: What was under review.
        schedule: What was done to it.
        instances: How many there were.
        events: In order.
        seen: What it came to.
    """

    column: Column
    schedule: Schedule
    instances: int
    seen: Observation
    events: list[Event] = field(default_factory=list[Event])


async def trace(column: Column, schedule: Schedule, *, instances: int = 1) -> Trace:
    """Play one schedule and note every step of it.

    Args:
        column: What is put under review.
        schedule: Without steps of tasks; for a modern client.
        instances: How many there are: one or two.
    """
    events: list[Event] = []
    with quiet_servers(), scratch() as folder:
        deployment = _NotedDeployment(column, instances, folder, events.append)
        ledger = _NotedLedger(weather.MemoryLedger(honours_keys=schedule.honours_keys), events.append)
        deployment.ledger = _NotedFaults(ledger, deployment.died)
        async with deployment.running():
            seen = await play(schedule, "modern", deployment, column, on_step=deployment.begin)
    return Trace(column, schedule, instances, seen, events)


class _NotedLedger:
    def __init__(self, ledger: weather.Ledger, note: Callable[[Event], None]) -> None:
        self._ledger = ledger
        self._note = note

    async def record(self, effect: weather.Effect) -> None:
        before = len(await self._ledger.effects())
        await self._ledger.record(effect)
        self._note(Happened(effect, absorbed=len(await self._ledger.effects()) == before))

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


class _NotedFaults(FaultyLedger):
    def __init__(self, ledger: weather.Ledger, died: Callable[[], None]) -> None:
        super().__init__(ledger)
        self._died = died

    async def record(self, effect: weather.Effect) -> None:
        was_up = self.death is None
        try:
            await super().record(effect)
        finally:
            if was_up and self.death is not None:
                self._died()


class _NotedDeployment(MemoryDeployment):
    def __init__(
        self, column: Column, instances: int, folder: Path, note: Callable[[Event], None]
    ) -> None:
        super().__init__(column, instances, folder)
        self._note = note
        self._step: Step | None = None
        self._instance = 0

    def died(self) -> None:
        self._note(Died(self._instance))

    def begin(self, step: Step) -> None:
        self._step = step

    async def send(self, instance: int, request: Request) -> Reply:
        self._instance = instance
        self._note(Delivered(instance, request))
        reply = await super().send(instance, request)
        step = self._step
        if not isinstance(step, Send) or step.fault is None or step.fault.what != "crash":
            lost = isinstance(step, Send) and step.lost
            self._note(Responded(instance, reply, lost))
        return reply

    async def restart(self, keys: Literal["same", "rotated", "new"]) -> None:
        self._note(Passed("every instance is replaced"))
        await super().restart(keys)

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        where = "every instance" if only is None else f"instance {only + 1}"
        self._note(Passed(f"{where}: {'rolled back' if change is None else change}"))
        await super().redeploy(change, only)

    def wait(self, seconds: float) -> None:
        self._note(Passed(f"{seconds / 60:g} minutes later"))
        super().wait(seconds)
