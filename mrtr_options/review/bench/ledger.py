"""A ledger of ours with faults: it wraps a destination, and a fault may strike at an effect.

How an instance ends is up to its deployment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import anyio.lowlevel

from mrtr_options.review.bench.fault_kinds import Kind
from mrtr_options.review.bench.strikes import DESTINATION_IS_DOWN
from mrtr_options.tool import weather


class FaultyLedger:
    """A ledger at which the armed faults happen. A deployment says what they do to its instance.

    Args:
        ledger: The destination of effects.
        turns: The number of turns of the event loop that an effect takes first, so that two
            deliveries at once interleave.
    """

    def __init__(self, ledger: weather.Ledger, turns: int) -> None:
        self._ledger = ledger
        self._turns = turns

    def take_fault(self, effect: weather.Effect) -> Kind | None:
        """Return the fault that was armed for this effect, if any, and disarm it."""
        raise NotImplementedError

    def note_effect(self, effect: weather.Effect) -> None:
        """Record an effect that reached the destination."""

    def note_failure(self, effect: weather.Effect) -> None:
        """Record an effect that failed."""

    async def end_instance(self) -> None:
        """End the instance; never returns."""
        raise NotImplementedError

    async def let_client_leave(self) -> None:
        """Make the client leave, and wait until it has."""
        raise NotImplementedError

    async def record(self, effect: weather.Effect) -> None:
        for _ in range(self._turns):
            await anyio.lowlevel.checkpoint()
        fault = self.take_fault(effect)
        arrival = _Arrival(self, effect)
        if fault is None or fault.strike is None:
            await arrival.take_place()
        else:
            await fault.strike.in_ledger(arrival)

    async def deliver(self, effect: weather.Effect) -> None:
        """Let an effect reach the destination, and record it."""
        await self._ledger.record(effect)
        self.note_effect(effect)

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


@dataclass
class _Arrival:
    """An effect at the ledger, as a fault sees it; see `strikes.Arrival`."""

    ledger: FaultyLedger
    effect: weather.Effect

    async def take_place(self) -> None:
        await self.ledger.deliver(self.effect)

    def fail(self) -> NoReturn:
        self.ledger.note_failure(self.effect)
        raise OSError(DESTINATION_IS_DOWN)

    async def end_instance(self) -> None:
        await self.ledger.end_instance()
        await anyio.lowlevel.checkpoint()

    async def let_client_leave(self) -> None:
        await self.ledger.let_client_leave()
        await anyio.lowlevel.checkpoint()
