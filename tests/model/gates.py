"""Gates: the places where a round of a real server waits until the model takes its next step."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import anyio

from mrtr_options.sdk.single_use import SqliteStore
from mrtr_options.sdk.single_use.reservations import Claim
from mrtr_options.tool.weather import Effect, MemoryLedger

EFFECTS = ("audit", "bill")


class EffectFails(Exception):
    """The failure of an effect's destination."""


class Died(asyncio.CancelledError):
    """The end of a process. No `except Exception` catches it, and a task ends with it quietly."""


@dataclass
class Gate:
    """The place where an instance's round waits until the model takes its next step.

    Attributes:
        at: The name of the step that the round waits for; "" while it runs or there is none.
        reply: The response, once the round has one.
        is_dead: Whether the process has ended.
        fails: Whether the effect fails at which the round waits.
    """

    at: str = ""
    reply: Any = None
    is_dead: bool = False
    fails: bool = False
    moved: anyio.Event = field(default_factory=anyio.Event)
    go: anyio.Event = field(default_factory=anyio.Event)

    async def stop(self, step: str) -> None:
        """Wait until the model takes this step.

        Raises:
            Died: The process ends first.
        """
        if self.is_dead:
            raise Died
        self.at = step
        self.moved.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:  # the process has ended
            self.at = ""
            raise
        if self.is_dead:
            raise Died

    def end(self, reply: Any) -> None:
        """Note the round's response."""
        self.reply = reply
        self.moved.set()

    async def until_moved(self) -> None:
        """Wait until the round has reached its next gate or its end."""
        await self.moved.wait()
        self.moved = anyio.Event()

    async def open(self) -> None:
        """Let the round take its step, and wait until it has reached the next one."""
        self.at = ""
        self.moved = anyio.Event()
        opened = self.go
        self.go = anyio.Event()
        opened.set()
        await self.until_moved()

    async def fail(self) -> None:
        """Let the effect fail at which the round waits, as often as it is tried; end the round."""
        while self.at:
            self.fails = self.at in EFFECTS
            await self.open()
        self.fails = False

    def die(self) -> None:
        """End the process."""
        self.is_dead = True
        self.go.set()


@dataclass
class GatedLedger:
    """The ledger as one instance has it: its round waits before each effect."""

    ledger: MemoryLedger
    gate: Gate

    async def record(self, effect: Effect) -> None:
        """Record an effect when the model does.

        Raises:
            EffectFails: It fails in the model.
        """
        await self.gate.stop(effect.kind)
        if self.gate.fails:
            raise EffectFails
        await self.ledger.record(effect)

    async def effects(self) -> tuple[Effect, ...]:
        """Return the effects of all instances."""
        return await self.ledger.effects()


@dataclass
class GatedStore:
    """The guard's store as one instance has it: its round waits before it is recorded."""

    store: SqliteStore
    gate: Gate

    async def reserve(self, claim: Claim) -> str | None:
        """See `Store`; mutants break it."""
        return await self.store.reserve(claim)

    async def record(self, claim: Claim, outcome: str) -> bool:
        """Record an outcome when the model does."""
        await self.gate.stop("record")
        return await self.store.record(claim, outcome)

    def __getattr__(self, name: str) -> Any:
        """Return what the store does by itself."""
        return getattr(self.store, name)
