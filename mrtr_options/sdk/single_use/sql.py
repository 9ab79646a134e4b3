"""The guard's rounds in a database: one set of statements for SQLite and PostgreSQL.

What keeps a round from running twice, whatever clocks do
---------------------------------------------------------
- A store counts *epochs*: each is a tenth of `keep_seconds`, and ends with the first round that is
  taken after that. A clock that jumps ends one epoch and no more; one that comes back goes on from
  where it is.
- A state carries the epoch in which it was handed out, and the store's name. It is refused when
  more than `EPOCHS` have ended since, or the store is another one: its file was lost. A round is
  remembered for as long. So what is refused and what is forgotten is decided by the same count, and
  no clock can part the two.
- Beside that a state is refused when it is older than `keep_seconds` by the clock. A clock that is
  wrong for a while refuses what is old by it, and nothing after it has come back.
- A call key carries a time of its client's. The store has a *horizon* for these, which is later
  than each that it has forgotten. Older keys are refused, and those from before the store.
- What is forgotten goes in portions, one with each round that is taken.

Named calls
-----------
Each round of a named call has the call's name, and a first request is answered by the latest of
them: one read, however many rounds there were. As soon as a round is recorded, those before it are
remembered for no longer than rounds without a name, so an ended call is one row. A name that is
free again is taken by another call; the rounds of the old one are set aside, and an answer to its
question is refused.

Every row carries a fencing token, the `owner`: of the delivery that took the round, and then of the
one that took it over. Only that one records its outcome or gives it back. What belongs together is
one statement or one transaction: a process that dies leaves nothing half done, and what is decided
by the clock and by other rows is decided in the transaction that takes the round.

Knows SQL; nothing of MCP.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

import anyio
from anyio.lowlevel import RunVar

from mrtr_options.checks import check_numbers
from mrtr_options.sdk.single_use.reservations import (
    Claim,
    Doubtful,
    Forgotten,
    Full,
    Stamp,
    Unusable,
)
from mrtr_options.sdk.single_use.seen import IN_DOUBT, Seen

T = TypeVar("T")

MAX_ROUNDS_PER_CALLER = 10_000
"""The most rounds of one authenticated caller that a store holds."""
EPOCHS_IN_KEEP = 10
"""The length of `keep_seconds` in epochs."""
EPOCHS = EPOCHS_IN_KEEP + 2
"""The epochs for which a round is remembered.

A state may carry the epoch before the present one.
"""
PORTION = 200
"""The most rounds that are forgotten at once."""
ROOM_OF_BEGUN = 10
"""A call that has begun is refused only where a store holds so many times its most rounds."""
FORMAT = 3
"""The number of the tables and of the names in them: a store of another format is refused."""

# How a database spells what differs: {now}, and a {serial} number for each row.
_HORIZON = """CREATE TABLE IF NOT EXISTS guard_horizon (
    id INTEGER PRIMARY KEY CHECK (id = 1), until DOUBLE PRECISION NOT NULL,
    epoch BIGINT NOT NULL DEFAULT 0, started DOUBLE PRECISION NOT NULL DEFAULT 0,
    store TEXT NOT NULL DEFAULT '', format INTEGER NOT NULL
)"""
_TABLES = (
    """CREATE TABLE IF NOT EXISTS guard_rounds (
        seq {serial} PRIMARY KEY, number TEXT NOT NULL UNIQUE, answers TEXT NOT NULL,
        begins DOUBLE PRECISION NOT NULL, ends DOUBLE PRECISION NOT NULL, outcome TEXT,
        owner TEXT NOT NULL, caller TEXT, nth BIGINT, call TEXT, arguments TEXT NOT NULL,
        made DOUBLE PRECISION, frees INTEGER NOT NULL DEFAULT 0, keeps DOUBLE PRECISION NOT NULL,
        asked DOUBLE PRECISION, lasts BIGINT NOT NULL, effects TEXT,
        label TEXT
    )""",
    # Versions before formats fail here: they insert a row without one.
    "INSERT INTO guard_horizon (id, until, format) VALUES (1, {now}, :format)"
    " ON CONFLICT DO NOTHING",
    "CREATE INDEX IF NOT EXISTS guard_rounds_by_epoch ON guard_rounds (lasts)",
    "CREATE INDEX IF NOT EXISTS guard_rounds_by_call ON guard_rounds (call, seq)"
    " WHERE call IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS guard_rounds_of_caller ON guard_rounds (caller, nth)"
    " WHERE caller IS NOT NULL",
)
_NAME = "UPDATE guard_horizon SET store = :store, started = {now} WHERE store = ''"
_EPOCH = "SELECT {now}, store, epoch FROM guard_horizon"
_LATEST = "seq = (SELECT max(seq) FROM guard_rounds WHERE call = :call)"
# Its state is refused: it is too old, or from a clock that was ahead.
_CANNOT_BE_ANSWERED = "{now} NOT BETWEEN asked - :keep AND asked + :keep"
_MINE = "number = :number AND owner = :owner AND outcome IS NULL"
_SEEN = f"""
SELECT {{now}}, store, epoch, started, until, seq, answers, arguments, outcome, ends <= {{now}},
    ends > {{now}} + :lease_seconds + :keep, keeps <= {{now}}, frees, {_CANNOT_BE_ANSWERED},
    owner, effects,
    (SELECT coalesce(asked, 0) FROM guard_rounds WHERE call = :call ORDER BY seq DESC LIMIT 1)
FROM guard_horizon LEFT JOIN guard_rounds ON
"""
_SEE_ROUND = f"{_SEEN} number = :number"
_SEE_CALL = f"{_SEEN} {_LATEST}"
_END_EPOCH = """
UPDATE guard_horizon SET
    epoch = epoch + CASE WHEN started <= {now} THEN 1 ELSE 0 END, started = {now}
WHERE {now} NOT BETWEEN started AND started + :epoch_seconds
"""
_FORGET = """
DELETE FROM guard_rounds WHERE seq IN (
    SELECT seq FROM guard_rounds
    WHERE lasts < (SELECT epoch FROM guard_horizon) AND keeps <= {now}
    ORDER BY lasts LIMIT :portion
) RETURNING made
"""
_MOVE_HORIZON = "UPDATE guard_horizon SET until = :until WHERE until < :until"
# The span of `seq` bounds the count, and that of `nth` a caller's, so rounds are counted only where
# a span is as long as that: what is kept for longer than the rest leaves gaps. Each end is a query
# of its own: SQLite looks one of them up, and scans the table for both.
_SPAN = "(SELECT max(seq) FROM guard_rounds) - (SELECT min(seq) FROM guard_rounds)"
_LAST_OF_CALLER = "(SELECT max(nth) FROM guard_rounds WHERE caller = :caller)"
_FIRST_OF_CALLER = "(SELECT min(nth) FROM guard_rounds WHERE caller = :caller)"
_ROOM = f"""(
    coalesce({_SPAN} + 1, 0) < :max
    OR (SELECT count(*) FROM guard_rounds) < :max
) AND (
    coalesce({_LAST_OF_CALLER} - {_FIRST_OF_CALLER} + 1, 0) < :each
    OR (SELECT count(*) FROM guard_rounds WHERE caller = :caller) < :each
)"""
# Age and name are decided here: time has passed since the look, and others may have been here.
_TAKE = f"""
INSERT INTO guard_rounds (
    number, answers, owner, begins, ends, caller, nth, call, arguments, made, effects, label,
    keeps, lasts
)
SELECT :number, :answers, :owner, :begins, {{now}} + :lease_seconds, :caller,
    coalesce({_LAST_OF_CALLER}, 0) + 1, :call,
    coalesce(nullif(:arguments, ''), (SELECT arguments FROM guard_rounds WHERE {_LATEST}), ''),
    :made, :effects, coalesce(:label, (SELECT label FROM guard_rounds WHERE {_LATEST})),
    :keeps + CASE WHEN :keeps_from_now = 1 THEN {{now}} ELSE 0 END, epoch + :epochs
FROM guard_horizon
WHERE store = :store AND epoch <= :last_epoch AND until <= :horizon
    AND {{now}} BETWEEN :good_from AND :good_until
    AND NOT EXISTS (SELECT 1 FROM guard_rounds WHERE call = :begins_call)
    AND :begins = coalesce((
        SELECT coalesce(asked, 0) FROM guard_rounds WHERE call = :goes_on ORDER BY seq DESC LIMIT 1
    ), :begins) AND {_ROOM}
ON CONFLICT (number) DO NOTHING
"""
_SHORTEN = "keeps = 0, lasts = (SELECT epoch FROM guard_horizon) + :epochs_of_round"
_SET_ASIDE = f"""
UPDATE guard_rounds SET call = NULL, {_SHORTEN}, number = CASE WHEN number = :call
    THEN number || '.' || CAST(seq AS TEXT) ELSE number END
WHERE call = :call AND seq <= :seq
"""
_LEAVE_LATEST = f"""
UPDATE guard_rounds SET {_SHORTEN}
WHERE call = :call AND seq < (SELECT seq FROM guard_rounds WHERE number = :number) AND keeps > 0
"""
_RECORDED = "seq = (SELECT max(seq) FROM guard_rounds WHERE call = :call AND outcome IS NOT NULL)"
_OUTCOME = f"SELECT outcome FROM guard_rounds WHERE {_RECORDED}"
_TAKE_OVER = """
UPDATE guard_rounds SET ends = {now} + :lease_seconds, owner = :owner, answers = :answers
WHERE number = :number AND answers IN (:answers, '') AND outcome IS NULL
    AND (ends <= {now} OR owner = :owner)
"""
_EFFECTS = "SELECT effects FROM guard_rounds WHERE number = :number"
_EFFECTS_OF_CALL = f"SELECT effects FROM guard_rounds WHERE {_LATEST}"
# A process that was paused for longer than its lease gets another one, unless its round is taken.
_BEGIN_EFFECT = f"""
UPDATE guard_rounds SET effects = :effects,
    ends = CASE WHEN ends <= {{now}} THEN {{now}} + :lease_seconds ELSE ends END WHERE {_MINE}
"""
_SUSPEND = f"""
UPDATE guard_rounds SET effects = :effects, answers = :answers, ends = {{now}} WHERE {_MINE}
"""
_ASK = "UPDATE guard_rounds SET outcome = :outcome, asked = :asked_at WHERE"
_ASK_AFRESH = f"{_ASK} {_LATEST} AND {_CANNOT_BE_ANSWERED}"
_ASK_AGAIN = f"{_ASK} {_RECORDED}"
# It is remembered for as long as one that is taken now, and no earlier run of it is recorded.
_REOPEN = f"""
UPDATE guard_rounds SET answers = '', owner = '',
    lasts = (SELECT epoch FROM guard_horizon) + :epochs
WHERE {_LATEST} AND outcome IS NULL AND ends <= {{now}}
"""
_CUT_LEASE = "UPDATE guard_rounds SET ends = {now} + :lease_seconds WHERE seq = :seq"
# For who runs the server: these scan the table.
_IN_DOUBT = "((outcome IS NULL AND ends <= {now}) OR outcome LIKE :in_doubt)"
_LIST_DOUBTFUL = f"""
SELECT number, label, ends, effects FROM guard_rounds WHERE {_IN_DOUBT} ORDER BY ends
"""
_SETTLE = f"""
UPDATE guard_rounds SET outcome = :outcome, frees = :frees, owner = '', asked = NULL
WHERE number = :number AND {_IN_DOUBT}
"""
# The same outcome is no other one: the connection may have broken after it was recorded.
_RECORD = """
UPDATE guard_rounds
SET outcome = :outcome, frees = :frees, asked = :asked_at, effects = :effects
WHERE number = :number AND owner = :owner AND coalesce(outcome, :outcome) = :outcome
"""
_RELEASE = f"DELETE FROM guard_rounds WHERE {_MINE}"

_ALWAYS = 2**53
"""An epoch that no store reaches, and a time that no key is made at."""

Values = dict[str, str | float | None]


class _Sight(NamedTuple):
    """The store's clock and mark, at a time of this process's own clock."""

    now: float
    mark: str
    at: float


class SqlStore:
    """A store in a database. A subclass connects, and says how its database runs the statements.

    Args:
        keep_seconds, max_rounds, max_rounds_per_caller: See `SqliteStore`.

    Raises:
        ValueError: A number is not over 0.
    """

    def __init__(self, keep_seconds: float, max_rounds: int, max_rounds_per_caller: int) -> None:
        check_numbers(type(self).__name__, keep_seconds, max_rounds, max_rounds_per_caller)
        self._keep = keep_seconds
        self._most = {"max": max_rounds, "each": max_rounds_per_caller}
        self._values: Values = {
            "epoch_seconds": keep_seconds / EPOCHS_IN_KEEP,
            "epochs_of_round": EPOCHS,
            "portion": PORTION,
            "keep": keep_seconds,
            "in_doubt": f"%{IN_DOUBT}%",
            **self._most,
        }
        self._last_seen: _Sight | None = None
        self._has_more_to_forget = False
        self._threads = RunVar[anyio.CapacityLimiter](f"threads of store {id(self)}")
        self._lock = threading.Lock()

    @property
    def keep_seconds(self) -> float:
        """For how long a call key is good, and a state after it was first handed out."""
        return self._keep

    @property
    def _thread(self) -> anyio.CapacityLimiter:
        """The limit of this event loop's threads for the store.

        One connection serves one round at a time, so one thread is enough. It is the store's own:
        handlers that hang in threads of the process keep no round from being taken.
        """
        if (limit := self._threads.get(None)) is None:
            self._threads.set(limit := anyio.CapacityLimiter(1))
        return limit

    # --- what a database has to say ---

    def _execute(self, statement: str, values: Values) -> Any:
        """Return the cursor of a statement, which commits by itself outside of a transaction."""
        raise NotImplementedError

    def _transaction(self) -> AbstractContextManager[object]:
        """Return a block whose statements commit together."""
        raise NotImplementedError

    def _alone(self, claim: Claim, seen: Seen) -> AbstractContextManager[object]:
        """Return a block in which nobody else takes a round of this claim's call."""
        raise NotImplementedError

    async def _use(self, use: Callable[[], T]) -> T:
        """Use the connection, alone and in the store's thread; `Unusable` where that fails."""
        raise NotImplementedError

    def _make_tables(self) -> None:
        """Create missing tables, in a transaction that one process has at a time.

        Raises:
            Unusable: The tables are of another format.
        """
        self._execute(_HORIZON, {})
        horizon = self._execute("SELECT * FROM guard_horizon", {})
        columns = [column[0] for column in horizon.description]
        for row in horizon.fetchall():
            found = dict(zip(columns, row, strict=True)).get("format")
            if found != FORMAT:
                raise Unusable(
                    f"the guard's store has the format {found}, and this version {FORMAT}: end all"
                    " servers that use it, and give the new ones another store"
                )
        for statement in _TABLES:
            self._execute(statement, {"format": FORMAT})
        self._execute(_NAME, {"store": secrets.token_urlsafe(6)})

    # --- rounds ---

    def _now(self, sight: _Sight) -> float:
        """Return the time by the database's clock, a while after it was seen."""
        return sight.now + time.monotonic() - sight.at

    async def stamp(self) -> Stamp:
        sight = self._last_seen
        if sight is None or time.monotonic() - sight.at > self._keep / EPOCHS_IN_KEEP:
            sight = await self._use(lambda: self._saw(*self._row(_EPOCH, {})))
        return Stamp(self._now(sight), sight.mark)

    def _saw(self, now: float, store: str, epoch: int) -> _Sight:
        """Store the latest sight of the clock and the epoch, with which states are stamped."""
        self._last_seen = _Sight(now, f"{store}.{epoch}", time.monotonic())
        return self._last_seen

    async def reserve(self, claim: Claim) -> str | None:
        values = {**self._values, **vars(claim)}
        if claim.has_begun:
            values |= {each: self._most[each] * ROOM_OF_BEGUN for each in self._most}
        return await self._use(lambda: self._reserve(claim, values))

    def _keeps(self, claim: Claim, seen: Seen) -> Values:
        """Return for how long a claim's round is remembered, and until when it may be taken."""
        epoch = claim.mark.rpartition(".")[2]
        keeps = claim.call_seconds
        if claim.made is not None:
            keeps = claim.made + self._keep * EPOCHS / EPOCHS_IN_KEEP
        since, until = self._good_from_until(claim)
        return {
            "keeps": keeps,
            "keeps_from_now": int(claim.made is None and claim.call is not None),
            "epochs": self._epochs(claim),
            "last_epoch": int(epoch) + EPOCHS if _is_count(epoch) else _ALWAYS,
            "horizon": claim.made if claim.made is not None and claim.is_first else _ALWAYS,
            "good_from": since,
            "good_until": until,
            "store": seen.store,
            "begins_call": claim.call if claim.is_first and seen.seq is None else "",
            "goes_on": claim.call if claim.goes_on else "",
        }

    def _good_from_until(self, claim: Claim) -> tuple[float, float]:
        """Return between which times a claim's round may be taken, by its age."""
        at = claim.made if claim.is_first else claim.begins
        return (-_ALWAYS, _ALWAYS) if at is None else (at - self._keep, at + self._keep)

    def _epochs(self, claim: Claim) -> int:
        """Return the number of epochs for which a round is remembered."""
        return EPOCHS + int(claim.call_seconds / self._keep * EPOCHS_IN_KEEP)

    def _reserve(self, claim: Claim, values: Values) -> str | None:
        is_full = False
        while True:
            seen = self._look_at(claim, values)
            if seen.owner == claim.owner:  # the connection broke when it was taken
                return None
            if not self._may_take(claim, seen):
                return seen.recorded(claim)
            if is_full:
                raise Full
            self._forget(seen)
            with self._alone(claim, seen):
                if seen.seq is not None:  # time has passed: is the name free still?
                    seen = self._look_at(claim, values)
                    if not self._may_take(claim, seen):
                        return seen.recorded(claim)
                    self._execute(_SET_ASIDE, {**values, "seq": seen.seq})
                if self._execute(_TAKE, values | self._keeps(claim, seen)).rowcount:
                    return None
                is_full = not self._row(f"SELECT {_ROOM}", values)[0]

    def _look_at(self, claim: Claim, values: Values) -> Seen:
        """Look at a round, or for a first round at its call's latest one."""
        seen = Seen(*self._row(_SEE_CALL if claim.is_first else _SEE_ROUND, values))
        self._saw(seen.now, seen.store, seen.epoch)
        if seen.outcome is None and seen.is_ahead:  # its process has no more than its lease
            self._execute(_CUT_LEASE, {**values, "seq": seen.seq})
        return seen

    def _may_take(self, claim: Claim, seen: Seen) -> bool:
        """Return whether a round is free.

        Raises:
            Forgotten: It is too old.
        """
        if self._is_forgotten(claim, seen):
            raise Forgotten
        return seen.is_free(claim)

    def _is_forgotten(self, claim: Claim, seen: Seen) -> bool:
        since, until = self._good_from_until(claim)
        if not since <= seen.now <= until:
            return True
        if claim.is_first:
            return claim.made is not None and claim.made < seen.until
        if seen.seq is None and claim.goes_on and seen.asked not in (None, claim.begins):
            return True  # its name was free meanwhile, and another call has it
        store, _, epoch = claim.mark.rpartition(".")
        is_known = store == seen.store and _is_count(epoch)
        return not (is_known and seen.epoch - EPOCHS <= int(epoch) <= seen.epoch)

    def _forget(self, seen: Seen) -> None:
        """End the epoch if it is over, and forget a portion of what is old."""
        since = seen.now - seen.started
        if not 0 <= since <= self._keep / EPOCHS_IN_KEEP:
            is_ended = self._execute(_END_EPOCH, self._values).rowcount == 1
            self._has_more_to_forget = self._has_more_to_forget or is_ended
        if not self._has_more_to_forget:
            return
        with self._transaction():
            rows = self._execute(_FORGET, self._values).fetchall()
            made = [row[0] for row in rows if row[0] is not None]
            if made:  # the latest of them is refused, too
                self._execute(_MOVE_HORIZON, {"until": math.nextafter(max(made), math.inf)})
        self._has_more_to_forget = len(rows) == PORTION

    async def outcome(self, call: str) -> str | None:
        return await self._text(_OUTCOME, {"call": call})

    async def take_over(self, claim: Claim) -> bool:
        return await self._changed(_TAKE_OVER, claim)

    async def effects(self, claim: Claim) -> str | None:
        return await self._text(_EFFECTS_OF_CALL if claim.is_first else _EFFECTS, vars(claim))

    async def _text(self, statement: str, values: Values) -> str | None:
        found = await self._use(lambda: self._execute(statement, values).fetchone())
        return None if found is None else found[0]

    async def begin_effect(self, claim: Claim) -> bool:
        return await self._changed(_BEGIN_EFFECT, claim)

    async def suspend(self, claim: Claim) -> None:
        await self._changed(_SUSPEND, claim)

    async def ask_afresh(self, claim: Claim, outcome: str) -> bool:
        return await self._changed(_ASK_AFRESH, claim, outcome)

    async def reopen(self, claim: Claim, outcome: str) -> bool:
        return await self._changed(_REOPEN, claim, outcome, _ASK_AGAIN)

    async def doubtful(self) -> list[Doubtful]:
        """Return the calls of which nobody knows whether their effects happened."""
        rows = await self._use(lambda: self._execute(_LIST_DOUBTFUL, self._values).fetchall())
        return [Doubtful(*row) for row in rows]

    async def settle(self, number: str, outcome: str, *, is_done: bool) -> bool:
        """End a call in doubt with a recorded outcome. One that is not done frees its name.

        Returns:
            Whether it was in doubt.
        """
        said: Values = {"number": number, "outcome": outcome, "frees": int(not is_done)}
        values = self._values | said
        return await self._use(lambda: self._execute(_SETTLE, values).rowcount == 1)

    async def record(self, claim: Claim, outcome: str) -> bool:
        then = _LEAVE_LATEST if claim.goes_on else None
        return await self._changed(_RECORD, claim, outcome, then)

    async def release(self, claim: Claim) -> None:
        await self._changed(_RELEASE, claim)

    async def _changed(
        self, statement: str, claim: Claim, outcome: str | None = None, then: str | None = None
    ) -> bool:
        values: Values = {**self._values, **vars(claim), "frees": int(claim.frees)}
        values |= {"outcome": outcome, "epochs": self._epochs(claim)}
        return await self._use(lambda: self._change(statement, values, then))

    def _change(self, statement: str, values: Values, then: str | None) -> bool:
        """Change a round; where it is this delivery's, run the other statement, too."""
        with nullcontext() if then is None else self._transaction():
            is_changed = self._execute(statement, values).rowcount == 1
            if is_changed and then is not None:
                self._execute(then, values)
        return is_changed

    def _row(self, statement: str, values: Values) -> tuple[Any, ...]:
        row = self._execute(statement, values).fetchone()
        if row is None:
            raise Unusable(
                "the table guard_horizon is empty; drop it and guard_rounds, and restart"
            )
        return row


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15
