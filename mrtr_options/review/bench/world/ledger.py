"""A ledger of ours with faults: it wraps a destination, and a fault may strike at an effect.

How an instance ends is up to its deployment.
"""

from __future__ import annotations

from typing import NoReturn

import anyio.lowlevel

from mrtr_options.review.bench.faults.kinds import Kind
from mrtr_options.tool import weather

DESTINATION_IS_DOWN = "the destination is down"
"""The error of an effect that fails."""

PROCESS_ENDS = "the process ends"
CLIENT_LEAVES = "the client leaves"
"""The texts with which a ledger's file refuses an effect after the one that a fault struck at."""

MADE_TO_FAIL = (
    DESTINATION_IS_DOWN,
    "user-defined function raised exception",
    "database is locked",
    PROCESS_ENDS,
    CLIENT_LEAVES,
)
"""The texts of the database's errors when it makes an effect fail."""


class FaultyLedger:
    """A ledger at which the armed faults happen. A deployment says what they do to its instance.

    A fault gets the ledger as `faults.kinds.ArrivingEffect`.

    Args:
        ledger: The destination of effects.
        turns: The number of turns of the event loop that an effect takes first, so that two
            deliveries at once interleave.
    """

    def __init__(self, ledger: weather.Ledger, turns: int) -> None:
        self._ledger = ledger
        self._turns = turns

    def take_fault(self, effect: weather.Effect) -> Kind | None:
        """Return the fault that is armed for this effect, if any; disarm one that does not last."""
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

        async def take_place() -> None:
            await self._ledger.record(effect)
            self.note_effect(effect)

        if fault is None or fault.at_effect is None:
            return await take_place()
        try:
            await fault.at_effect(self, take_place)
        except OSError:
            self.note_failure(effect)
            raise

    def fail(self) -> NoReturn:
        raise OSError(DESTINATION_IS_DOWN)

    async def take_long(self, seconds: float) -> None:
        """Take no time: runs in memory have no clock that others wait by."""

    async def wait_for_lock(self, seconds: float) -> None:
        """Wait for nobody: no one else writes."""

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()
