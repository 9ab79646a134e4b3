"""Faults at effects: each is one object that says what it does wherever the effect arrives.

An effect arrives in a ledger of ours (`ledger`), which the fault wraps, or in a ledger's file
(`ledger_file`) that a server of any kind writes to. There the fault arms the database, and the
bench ends the instance or the client once the effect has taken place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeAlias

SLOW_SECONDS = 1.3
"""The duration of a slow effect."""

LOCK_SECONDS = 0.5
"""The time for which somebody else writes: less than the five seconds that `sqlite3` waits."""

DESTINATION_IS_DOWN = "the destination is down"
"""The error of an effect that fails."""

PROCESS_ENDS = "the process ends"
CLIENT_LEAVES = "the client leaves"
"""The texts with which a ledger's file refuses an effect after the one that a fault struck at."""


class Struck(Protocol):
    """The instance that an effect came from, and its client."""

    async def end_instance(self) -> None:
        """End the instance. In the instance itself this never returns."""
        ...

    async def let_client_leave(self) -> None:
        """Make the client leave, and wait until it has."""
        ...


class Arrival(Struck, Protocol):
    """An effect that arrives in a ledger of ours."""

    async def take_place(self) -> None:
        """Let the effect reach its destination, and record it."""
        ...

    def fail(self) -> NoReturn:
        """Record that the effect failed, and raise the destination's error."""
        ...


class LedgerFile(Protocol):
    """A ledger's file, in which a fault arms the database for one kind of effect."""

    def fail(self) -> None:
        """Make each effect fail."""
        ...

    def fail_once(self) -> None:
        """Make the first effect fail."""
        ...

    def delay_once(self, seconds: float) -> None:
        """Make the first effect take long."""
        ...

    def end_process_before(self) -> None:
        """End the process at the first effect, before it takes place."""
        ...

    def refuse_after(self, why: str) -> None:
        """Refuse each effect after the first, with this text."""
        ...

    def lock(self, seconds: float) -> None:
        """Have somebody else write to the file."""
        ...


InLedger: TypeAlias = "Callable[[Arrival], Awaitable[None]]"
InFile: TypeAlias = "Callable[[LedgerFile], None]"
Afterwards: TypeAlias = "Callable[[Struck], Awaitable[None]]"


@dataclass(frozen=True)
class Strike:
    """The behaviour of a fault at an effect.

    Attributes:
        in_ledger: The act in a ledger of ours, in place of the effect's arrival.
        in_file: The act that arms the database of a ledger's file.
        afterwards: The end of an instance or a client once the effect is in the file; None for a
            fault before the effect.
        ends_process: Whether the armed database ends the process.
        is_late: Whether the effect takes place although the request that made it may fail.
    """

    in_ledger: InLedger
    in_file: InFile
    afterwards: Afterwards | None = None
    ends_process: bool = False
    is_late: bool = False


async def _take_place(arrival: Arrival) -> None:
    """Let the effect take place: a ledger of ours has no other writer, and takes no time."""
    await arrival.take_place()


async def _fail(arrival: Arrival) -> None:
    arrival.fail()


async def _end_before(arrival: Arrival) -> None:
    await arrival.end_instance()


async def _end_after(arrival: Arrival) -> None:
    await arrival.take_place()
    await arrival.end_instance()


async def _leave_after(arrival: Arrival) -> None:
    await arrival.take_place()
    await arrival.let_client_leave()


NO_STRIKE = Strike(in_ledger=_take_place, in_file=lambda file: None)
INSTANCE_ENDS_AFTER = Strike(
    in_ledger=_end_after,
    in_file=lambda file: file.refuse_after(PROCESS_ENDS),
    afterwards=lambda struck: struck.end_instance(),
)
INSTANCE_ENDS_BEFORE = Strike(
    in_ledger=_end_before,
    in_file=lambda file: file.end_process_before(),
    ends_process=True,
)
CLIENT_LEAVES_AFTER = Strike(
    in_ledger=_leave_after,
    in_file=lambda file: file.refuse_after(CLIENT_LEAVES),
    afterwards=lambda struck: struck.let_client_leave(),
)
FAILS = Strike(in_ledger=_fail, in_file=lambda file: file.fail())
FAILS_ONCE = Strike(in_ledger=_fail, in_file=lambda file: file.fail_once())
IS_SLOW = Strike(
    in_ledger=_take_place,
    in_file=lambda file: file.delay_once(SLOW_SECONDS),
    is_late=True,
)
HAS_TO_WAIT = Strike(
    in_ledger=_take_place,
    in_file=lambda file: file.lock(LOCK_SECONDS),
)
