"""Ledgers with faults: a wrapper of one of ours, or triggers in the database for any other code.

Knows the domain's ledger and what a fault is; how an instance ends is up to its deployment.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
from mcp_types import INVALID_PARAMS

from mrtr_options.review.bench.faults import KINDS, Kind
from mrtr_options.review.bench.history import Effect, Failed, Recording
from mrtr_options.review.bench.messages import Reply
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

    def due(self, effect: weather.Effect) -> Kind | None:
        """Take the fault that was armed for this effect, if any."""
        raise NotImplementedError

    def happened(self, effect: weather.Effect, fault: Kind | None) -> None:
        """Record an effect that reached the destination, or did not ("fail")."""

    async def crash(self) -> None:
        """End the instance; never returns."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Make the client leave, and wait until it has."""
        raise NotImplementedError

    async def record(self, effect: weather.Effect) -> None:
        for _ in range(self._turns):
            await anyio.lowlevel.checkpoint()
        fault = self.due(effect)
        if fault is not None and fault.what in ("lock", "slow"):
            fault = None  # this ledger has no other writer, and takes no time
        if fault is not None and fault.is_of_ledger:
            self.happened(effect, fault)
            raise OSError(MADE_TO_FAIL[0])
        if fault is not None and fault.what == "down":
            await self.crash()
        await self._ledger.record(effect)
        self.happened(effect, fault)
        if fault is not None:
            await (self.crash() if fault.what == "crash" else self.leave())
            await anyio.lowlevel.checkpoint()

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


_TRIGGERS = "mrtr_down", "mrtr_keyed", "mrtr_ended"

_ENDED = {"crash": "the process ends", "gone": "the client leaves"}

ONCE = "mrtr_once"
"""The SQL function by which an effect fails or takes long once, or ends its process.

It is needed since nothing that the database writes down outlasts a statement that fails. For a
number that is new to it, it waits so many seconds; it fails if the seconds are 0, and ends the
process if they are `DIES`.
"""

DIES = -1.0

SLOW_SECONDS = 1.3
"""The duration of a slow effect."""

MADE_TO_FAIL = (
    "the destination is down",
    "user-defined function raised exception",
    "database is locked",
    *_ENDED.values(),
)
"""The texts of the database's errors when it makes an effect fail."""

LOCK_SECONDS = 0.5
"""The time for which somebody else writes: less than the five seconds that `sqlite3` waits."""

BUSY_SECONDS = 30.0
"""The time for which the bench waits while a server writes to the ledger's file."""


@contextmanager
def _naming(file: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise weather.LedgerUnusable(
            f"the server holds the lock of {file.name} for more than {BUSY_SECONDS:g} seconds"
            " between requests; end an effect's transaction before the response, also where the"
            " client leaves"
        ) from error


@contextmanager
def _opened(file: Path) -> Generator[sqlite3.Connection]:
    """Open a ledger's file.

    Raises:
        LedgerUnusable: Somebody else has locked it for too long.
    """
    with closing(sqlite3.connect(file, timeout=BUSY_SECONDS)) as db, _naming(file):
        yield db


@dataclass(frozen=True)
class Absorbs:
    """The effects that a ledger's file absorbs: those that repeat one of its rows.

    Attributes:
        column: The column that both have in common, besides the kind.
        after: The number above which rows count.
    """

    column: str
    after: int


def write_faults(
    file: Path,
    down: weather.EffectKind | None,
    absorbs: Absorbs | None,
    once: tuple[int, float] | None = None,
    ends: tuple[weather.EffectKind, int, str] | None = None,
) -> None:
    """Have the database itself fail or absorb effects in a ledger's file.

    That works for any code that adds a row.

    Args:
        file: The ledger's file.
        down: The kind of effect that fails; None if no effect fails.
        once: A new number, and the seconds that the first try takes: 0 if that try fails, `DIES` if
            its process ends. None if every try fails.
        absorbs: The effects to absorb; None to count all.
        ends: The kind of effect after which no other takes place; the number above which a row of
            that kind counts; and whether the process dies then ("crash") or its client leaves
            ("gone"). None if there is no such effect.
    """
    with _opened(file) as db, db:
        for name in _TRIGGERS:
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        if down is not None:
            fails = f"RAISE(ABORT, '{MADE_TO_FAIL[0]}')" if once is None else f"{ONCE}{once}"
            db.execute(
                f"CREATE TRIGGER {_TRIGGERS[0]} BEFORE INSERT ON effects WHEN NEW.kind = '{down}'"
                f" BEGIN SELECT {fails}; END"
            )
        if absorbs is not None:
            column = absorbs.column
            db.execute(
                f"CREATE TRIGGER {_TRIGGERS[1]} BEFORE INSERT ON effects"
                f" WHEN NEW.{column} IS NOT NULL"
                f" AND EXISTS (SELECT 1 FROM effects WHERE seq > {absorbs.after}"
                f" AND kind = NEW.kind AND {column} = NEW.{column})"
                " BEGIN SELECT RAISE(IGNORE); END"
            )
        if ends is not None:
            db.execute(
                f"CREATE TRIGGER {_TRIGGERS[2]} BEFORE INSERT ON effects WHEN EXISTS (SELECT 1 FROM"
                f" effects WHERE seq > {ends[1]} AND kind = '{ends[0]}')"
                f" BEGIN SELECT RAISE(ABORT, '{_ENDED[ends[2]]}'); END"
            )


_numbers = itertools.count()


def hold(file: Path, seconds: float) -> None:
    """Write to a ledger's file for `seconds`, so that everybody else has to wait."""
    db = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    with _naming(file):
        db.execute("BEGIN IMMEDIATE")
    threading.Timer(seconds, db.close).start()


def crashes_at(file: Path, kind: weather.EffectKind) -> bool:
    """Return whether a process that did an effect of this kind is to die now."""
    with _opened(file) as db:
        ended = "SELECT sql FROM sqlite_master WHERE name = ?"
        armed = "".join(sql for (sql,) in db.execute(ended, (_TRIGGERS[2],)))
    return f"kind = '{kind}'" in armed and _ENDED["crash"] in armed


def last_effect(file: Path) -> int:
    """Return the number of the latest effect in a ledger's file; 0 for none."""
    with _opened(file) as db:
        return db.execute("SELECT coalesce(max(seq), 0) FROM effects").fetchone()[0]


def effects_after(file: Path, after: int) -> dict[int, weather.Effect]:
    """Return the effects in a ledger's file above the number `after`, oldest first, by number."""
    # We use no thread: on a busy machine its turn takes longer than the reading.
    ordered = "SELECT seq, kind, subject, key FROM effects WHERE seq > ? ORDER BY seq"
    with _opened(file) as db:
        return {row[0]: weather.Effect(*row[1:]) for row in db.execute(ordered, (after,))}


class Outside:
    """One run, as it shows in the ledger's file of servers whose code is not ours.

    The destination absorbs effects that the run itself has seen.

    Attributes:
        fault: The armed fault.
    """

    def __init__(
        self, file: Path, recording: Recording, destination: weather.Destination = "ignores keys"
    ) -> None:
        self._file = file
        self._recording = recording
        self._seen = self._armed_at = last_effect(file)
        column = weather.COLUMNS[destination]
        self._absorbs = None if column is None else Absorbs(column, self._seen)
        self.fault: Kind | None = None
        self._is_calm = False  # another run may have armed something in the file

    def arm(self, name: str | None) -> None:
        """Arm the database for the next effect; see `Instances.arm`."""
        fault = None if name is None else KINDS[name]
        if fault is None and self._is_calm:
            return
        self.fault = fault
        self._armed_at = last_effect(self._file)
        self._is_calm = fault is None
        down = once = ends = None
        if fault is not None and fault.what in ("fail", "once", "slow", "down"):
            down = fault.at
            if fault.what != "fail":
                once = (next(_numbers), {"slow": SLOW_SECONDS, "down": DIES}.get(fault.what, 0))
        elif fault is not None and fault.at is not None and fault.is_after:
            ends = (fault.at, self._armed_at, fault.what)
        write_faults(self._file, down, self._absorbs, once, ends)
        if fault is not None and fault.what == "lock":
            hold(self._file, LOCK_SECONDS)

    def since_armed(self) -> bool:
        """Return whether an effect of the armed kind is in the ledger since then."""
        fault = self.fault
        if fault is None:
            return False
        return any(
            each.kind == fault.at for each in effects_after(self._file, self._armed_at).values()
        )

    def note_failure(self, instance: int, reply: Reply) -> None:
        """Record that an effect failed.

        That it was tried shows in the error that the round ends in.
        """
        fault = self.fault
        if fault is None or fault.at is None or fault.is_after:
            return
        if not (reply.failed or reply.is_error):
            return
        if fault.what == "slow":  # of two deliveries, one may not have waited so long
            has_failed = reply.code != INVALID_PARAMS
        else:
            has_failed = not self.since_armed()
        if has_failed:
            self._recording.append(Failed(instance, self._recording.round_at(instance), fault.at))

    def collect(self) -> None:
        """Record the effects that are new."""
        effects = effects_after(self._file, self._seen)
        self._seen = max(effects, default=self._seen)
        for effect in effects.values():
            self._recording.append(Effect(None, None, effect))
