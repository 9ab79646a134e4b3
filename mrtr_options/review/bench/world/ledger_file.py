"""A ledger's file that a server of any kind writes to: the database itself makes faults happen.

Triggers make an effect fail, wait or be absorbed, whatever code adds its row. So this works for
servers whose code is not ours.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from mcp_types import INVALID_PARAMS

from mrtr_options.review.bench.faults import KINDS
from mrtr_options.review.bench.faults.kinds import Kind, Struck
from mrtr_options.review.bench.history import Effect, Failed, Recording
from mrtr_options.review.bench.messages import Reply
from mrtr_options.review.bench.world.ledger import CLIENT_LEAVES, DESTINATION_IS_DOWN, PROCESS_ENDS
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
process if they are `DIES`. If they are `UNSURE`, the transaction is committed and then fails.
"""

DIES = -1.0
UNSURE = -2.0

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


_numbers = itertools.count()


class _HasFailed(BaseException):
    """The end of a fault's way with an effect that fails."""


@dataclass
class Arming:
    """The fault of a ledger's file, for effects of one kind (`faults.kinds.ArrivingEffect`).

    We go through the fault's function once, before any effect arrives, and note what the database
    has to do. The bench does the rest once the effect is in the file.

    Attributes:
        kind: The kind of effect.
        last: The number of the last effect before the fault was armed.
        lasts: Whether the fault happens at each try (`faults.kinds.Kind`).
        triggers: The triggers that the database gets, by name.
        lock_seconds: The time for which somebody else writes to the file.
        afterwards: The end of an instance or a client once the effect is in the file; None for a
            fault before the effect.
        ends_process: Whether the armed database ends the process.
        is_late: Whether the effect takes place although the request that made it may fail.
    """

    kind: weather.EffectKind
    last: int
    lasts: bool
    triggers: dict[str, str] = field(default_factory=dict[str, str])
    lock_seconds: float = 0.0
    afterwards: Callable[[Struck], Awaitable[None]] | None = None
    ends_process: bool = False
    is_late: bool = False
    _has_arrived: bool = False

    @staticmethod
    def of(fault: Kind | None, last: int) -> Arming | None:
        """Return what the database has to do for a fault; None for one that is not at effects."""
        if fault is None or fault.at is None or fault.at_effect is None:
            return None
        arming = Arming(fault.at, last, fault.lasts)
        with suppress(StopIteration, _HasFailed):
            fault.at_effect(arming, arming.arrive).send(None)
        return arming

    async def arrive(self) -> None:
        self._has_arrived = True

    def fail(self) -> NoReturn:
        if self._has_arrived:
            self.is_late = True
            self._before_effect(_wait_once(UNSURE))
        else:
            always = f"RAISE(ABORT, '{DESTINATION_IS_DOWN}')"
            self._before_effect(always if self.lasts else _wait_once(0))
        raise _HasFailed

    async def take_long(self, seconds: float) -> None:
        self.is_late = True
        self._before_effect(_wait_once(seconds))

    async def wait_for_lock(self, seconds: float) -> None:
        self.lock_seconds = seconds

    async def end_instance(self) -> None:
        if self._has_arrived:
            self._refuse_after(PROCESS_ENDS)
            self.afterwards = lambda struck: struck.end_instance()
        else:
            self._before_effect(_wait_once(DIES))
            self.ends_process = True

    async def let_client_leave(self) -> None:
        self._refuse_after(CLIENT_LEAVES)
        self.afterwards = lambda struck: struck.let_client_leave()

    def _refuse_after(self, why: str) -> None:
        """Refuse each effect after the first, with this text."""
        self.triggers[_REFUSES] = (
            "WHEN EXISTS (SELECT 1 FROM effects"
            f" WHERE seq > {self.last} AND kind = '{self.kind}')"
            f" BEGIN SELECT RAISE(ABORT, '{why}'); END"
        )

    def _before_effect(self, does: str) -> None:
        self.triggers[_FAILS] = f"WHEN NEW.kind = '{self.kind}' BEGIN SELECT {does}; END"


def _wait_once(seconds: float) -> str:
    return f"{ONCE}({next(_numbers)}, {seconds})"


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


def _absorbing(column: str, after: int) -> str:
    """Return the trigger that absorbs effects equal to a row above `after` in kind and a column."""
    return (
        f"WHEN NEW.{column} IS NOT NULL"
        f" AND EXISTS (SELECT 1 FROM effects WHERE seq > {after}"
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


class ForeignLedger:
    """One run, as it shows in the ledger's file of servers whose code is not ours.

    The destination absorbs effects that the run itself has seen. The file is open until `close`,
    since opening it takes longer than reading what is new, which each request does.

    Attributes:
        armed: The armed fault; None for none.
    """

    def __init__(
        self, file: Path, recording: Recording, destination: weather.Destination = "ignores keys"
    ) -> None:
        self._file = file
        self._recording = recording
        self._db = sqlite3.connect(file, timeout=BUSY_SECONDS)
        self._seen = self._armed_at = self._last_effect()
        column = weather.COLUMNS[destination]
        self._always = {} if column is None else {_ABSORBS: _absorbing(column, self._seen)}
        self.armed: Arming | None = None
        self._is_calm = False  # another run may have armed something in the file

    def arm(self, name: str | None) -> None:
        """Arm the database for the next effect; see `Instances.arm`."""
        if name is None and self._is_calm:
            return
        self._armed_at = self._last_effect()
        self.armed = armed = Arming.of(KINDS.get(name or ""), self._armed_at)
        self._is_calm = armed is None
        _write_triggers(self._file, self._always | (armed.triggers if armed else {}))
        if armed is not None and armed.lock_seconds:
            _lock(self._file, armed.lock_seconds)

    def since_armed(self) -> bool:
        """Return whether an effect of the armed kind is in the ledger since then."""
        if self.armed is None:
            return False
        effects = self._effects_after(self._armed_at).values()
        return any(each.kind == self.armed.kind for each in effects)

    def note_failure(self, instance: int, reply: Reply) -> None:
        """Record that an effect failed.

        That it was tried shows in the error that the round ends in.
        """
        armed = self.armed
        if armed is None or armed.afterwards is not None:
            return
        if not (reply.failed or reply.is_error):
            return
        # Of two deliveries, one may not have waited so long as an effect that is late.
        is_excused = reply.code == INVALID_PARAMS if armed.is_late else self.since_armed()
        if not is_excused:
            sending = self._recording.sending_at(instance)
            self._recording.append(Failed(instance, sending, armed.kind))

    def collect(self) -> None:
        """Record the effects that are new."""
        effects = self._effects_after(self._seen)
        self._seen = max(effects, default=self._seen)
        for effect in effects.values():
            self._recording.append(Effect(None, None, effect))

    def close(self) -> None:
        """Close the file, and forget the armed fault."""
        self.armed = None
        self._db.close()

    def _effects_after(self, after: int) -> dict[int, weather.Effect]:
        """Return the effects above the number `after`, oldest first, by number."""
        # We use no thread: on a busy machine its turn takes longer than the reading.
        ordered = "SELECT seq, kind, subject, key FROM effects WHERE seq > ? ORDER BY seq"
        with _naming(self._file):
            rows = self._db.execute(ordered, (after,))
            return {row[0]: weather.Effect(*row[1:]) for row in rows}

    def _last_effect(self) -> int:
        """Return the number of the latest effect; 0 for none."""
        with _naming(self._file):
            ((last,),) = self._db.execute("SELECT coalesce(max(seq), 0) FROM effects")
        return last
