"""The ledger at which things go wrong, in memory and in server processes alike.

Knows the domain's ledger and what a fault is; how an instance dies is its deployment's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import anyio
import anyio.lowlevel

from mrtr_options.bench.schedules import Fault
from mrtr_options.tool import weather


class Around(Protocol):
    """What the deployment does at the effects of one instance."""

    def due(self, effect: weather.Effect) -> Fault | None:
        """Take the fault that was armed for this effect, if any."""
        ...

    def happened(self, effect: weather.Effect, fault: Fault | None) -> None:
        """Take note of an effect that reached the destination, or did not ("fail")."""
        ...

    async def crash(self) -> None:
        """End the instance; never returns."""
        ...

    async def leave(self) -> None:
        """Make the client leave, and wait until it has."""
        ...


@dataclass
class FaultyLedger:
    """A ledger at which things go wrong as they were armed to.

    Attributes:
        ledger: Where effects go.
        around: What the deployment does at an effect.
        turns: How many turns of the event loop an effect takes first, so that two deliveries at once
            interleave.
    """

    ledger: weather.Ledger
    around: Around
    turns: int = 1

    async def record(self, effect: weather.Effect) -> None:
        for _ in range(self.turns):
            await anyio.lowlevel.checkpoint()
        fault = self.around.due(effect)
        if fault is not None and fault.what == "fail":
            self.around.happened(effect, fault)
            raise OSError("the destination is down")
        await self.ledger.record(effect)
        self.around.happened(effect, fault)
        if fault is not None:
            await (self.around.crash() if fault.what == "crash" else self.around.leave())
            await anyio.lowlevel.checkpoint()

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self.ledger.effects()
