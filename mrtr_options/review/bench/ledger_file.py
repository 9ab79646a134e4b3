"""A ledger's file that a server of any kind writes to: the database itself makes faults happen.

Triggers make an effect fail, wait or be absorbed, whatever code adds its row. So this works for
servers whose code is not ours.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mcp_types import INVALID_PARAMS

from mrtr_options.review.bench.fault_kinds import Kind
from mrtr_options.review.bench.faults import KINDS
from mrtr_options.review.bench.history import Effect, Failed, Recording
from mrtr_options.review.bench.messages import Reply
from mrtr_options.review.bench.strikes import CLIENT_LEAVES, DESTINATION_IS_DOWN, PROCESS_ENDS
from mrtr_options.tool import weather

_FAILS = "mrtr_down"
_ABSORBS = "mrtr_keyed"
_REFUSES = "mrtr_ended"
_TRIGGERS = (_FAILS, _ABSORBS, _REFUSES)
"""The triggers before an effect, at its repetition, and after one at which a fault struck."""

ONCE = "mrtr_once"
"""The SQL function by which an effect fails or takes long once, or ends its process.

It is needed since nothing that the database writes down outlasts a statement that fails. For a
number that is new to it, it waits so many seconds; it fails if the seconds are 0, and ends the
process if they are `DIES`.
"""

DIES = -1.0

MADE_TO_FAIL = (
    DESTINATION_IS_DOWN,
    "user-defined function raised exception",
    "database is locked",
    PROCESS_ENDS,
    CLIENT_LEAVES,
)
"""The texts of the database's errors when it makes an effect fail."""

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


_numbers = itertools.count()


@dataclass
class Arming:
    """The faults of a ledger's file, for effects of one kind; see `strikes.LedgerFile`.

    Attributes:
        kind: The kind of effect.
        last: The number of the last effect before the fault was armed.
        triggers: The triggers that the database gets, by name.
        lock_seconds: The time for which somebody else writes to the file.
    """

    kind: weather.EffectKind
    last: int
    triggers: dict[str, str] = field(default_factory=dict[str, str])
    lock_seconds: float = 0.0

    def fail(self) -> None:
        self._before_effect(f"RAISE(ABORT, '{DESTINATION_IS_DOWN}')")

    def fail_once(self) -> None:
        self.delay_once(0)

    def delay_once(self, seconds: float) -> None:
        self._before_effect(f"{ONCE}({next(_numbers)}, {seconds})")

    def end_process_before(self) -> None:
        self.delay_once(DIES)

    def refuse_after(self, why: str) -> None:
        self.triggers[_REFUSES] = (
            "WHEN EXISTS (SELECT 1 FROM effects"
            f" WHERE seq > {self.last} AND kind = '{self.kind}')"
            f" BEGIN SELECT RAISE(ABORT, '{why}'); END"
        )

    def lock(self, seconds: float) -> None:
        self.lock_seconds = seconds

    def _before_effect(self, does: str) -> None:
        self.triggers[_FAILS] = f"WHEN NEW.kind = '{self.kind}' BEGIN SELECT {does}; END"


def clear_faults(file: Path) -> None:
    """Let every effect take place in a ledger's file."""
    _write_triggers(file, {})


def _write_triggers(file: Path, triggers: dict[str, str]) -> None:
    """Replace the triggers of a ledger's file."""
    with _opened(file) as db, db:
        for name in _TRIGGERS:
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        for name in _TRIGGERS:  # the order in which they are made is the order in which they fire
            if name in triggers:
                db.execute(f"CREATE TRIGGER {name} BEFORE INSERT ON effects {triggers[name]}")


def _absorbing(absorbs: Absorbs) -> str:
    """Return the trigger that absorbs effects."""
    column = absorbs.column
    return (
        f"WHEN NEW.{column} IS NOT NULL"
        f" AND EXISTS (SELECT 1 FROM effects WHERE seq > {absorbs.after}"
        f" AND kind = NEW.kind AND {column} = NEW.{column})"
        " BEGIN SELECT RAISE(IGNORE); END"
    )


def _lock(file: Path, seconds: float) -> None:
    """Write to a ledger's file for `seconds`, so that everybody else has to wait."""
    db = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    with _naming(file):
        db.execute("BEGIN IMMEDIATE")
    threading.Timer(seconds, db.close).start()


def ends_process_after(file: Path, kind: weather.EffectKind) -> bool:
    """Return whether a process that did an effect of this kind is to die now."""
    with _opened(file) as db:
        armed = "SELECT sql FROM sqlite_master WHERE name = ?"
        trigger = "".join(sql for (sql,) in db.execute(armed, (_REFUSES,)))
    return f"kind = '{kind}'" in trigger and PROCESS_ENDS in trigger


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


class ForeignLedger:
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
        triggers: dict[str, str] = {}
        if self._absorbs is not None:
            triggers[_ABSORBS] = _absorbing(self._absorbs)
        lock_seconds = 0.0
        if fault is not None and fault.at is not None and fault.strike is not None:
            arming = Arming(fault.at, self._armed_at)
            fault.strike.in_file(arming)
            triggers |= arming.triggers
            lock_seconds = arming.lock_seconds
        _write_triggers(self._file, triggers)
        if lock_seconds:
            _lock(self._file, lock_seconds)

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
        if fault is None or fault.at is None or fault.strike is None:
            return
        if fault.strike.afterwards is not None:
            return
        if not (reply.failed or reply.is_error):
            return
        if fault.strike.is_late:  # of two deliveries, one may not have waited so long
            has_failed = reply.code != INVALID_PARAMS
        else:
            has_failed = not self.since_armed()
        if has_failed:
            self._recording.append(Failed(instance, self._recording.sending_at(instance), fault.at))

    def collect(self) -> None:
        """Record the effects that are new."""
        effects = effects_after(self._file, self._seen)
        self._seen = max(effects, default=self._seen)
        for effect in effects.values():
            self._recording.append(Effect(None, None, effect))
