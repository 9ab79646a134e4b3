"""The guard's stores against a model in Python: two processes, any order of what they and time may do.

Time moves in steps of 100 s and every bound of a store lies between two of them, so a machine that is
slow changes no outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mrtr_options.bench.postgres import fresh
from mrtr_options.sdk.single_use import Abandoned, Forgotten, Full, Pending, Spent
from mrtr_options.sdk.single_use.store import SqlStore, Values
from tests.sdk.test_single_use import Database, PostgresSchema, SqliteFile

T = TypeVar("T")

KEEP, HORIZON, LATE = 1050, 1155, 1260
BOUNDS = {"keep_seconds": KEEP, "max_rounds": 4, "max_rounds_per_caller": 2}


@dataclass
class Row:
    """A round that is taken; `ends` is how long its lease is until then."""

    answers: str
    owner: int
    begins: int
    ends: int
    caller: str | None
    outcome: str | None = None


class Model:
    """What a store is to do.

    Attributes:
        time: In seconds since the store was made.
        horizon: It remembers every round whose number was handed out after it.
        rows: The rounds that are taken, by number, oldest first.
    """

    def __init__(self) -> None:
        self.time = self.horizon = 0
        self.rows: dict[str, Row] = {}

    def found(self, number: str, begins: int, answers: str) -> str | None:
        if not max(self.horizon, self.time - KEEP) <= begins <= self.time + KEEP:
            raise Forgotten
        if number not in self.rows:
            return None
        outcome = self.outcome(number)
        if self.rows[number].answers != answers:
            raise Spent
        return outcome

    def outcome(self, number: str) -> str | None:
        row = self.rows.get(number)
        if row is not None and row.outcome is None:
            raise Abandoned if row.ends <= self.time else Pending
        return row and row.outcome

    def move_horizon(self) -> None:
        if self.horizon < self.time - LATE:
            self.horizon = self.time - HORIZON
            self.rows = {name: row for name, row in self.rows.items() if row.begins >= self.horizon}

    def take(self, number: str, row: Row) -> None:
        mine = [each for each in self.rows.values() if row.caller and each.caller == row.caller]
        if len(self.rows) >= BOUNDS["max_rounds"] or len(mine) >= BOUNDS["max_rounds_per_caller"]:
            raise Full
        self.rows[number] = replace(row, ends=self.time + row.ends)

    def reserve(self, number: str, row: Row) -> str | None:
        recorded = self.found(number, row.begins, row.answers)
        if recorded is None:
            self.move_horizon()
            self.take(number, row)
        return recorded

    def reserve_after_a_pause(self, number: str, row: Row) -> str | None:
        """The rest of `reserve`, for a process that was paused when it had found that it may take it."""
        if number in self.rows or row.begins < self.horizon:
            return self.reserve(number, row)
        try:
            self.take(number, row)
        except Full:
            self.found(number, row.begins, row.answers)  # it looks once more
            raise
        return None

    def take_over(self, number: str, owner: int, answers: str, lease: int) -> bool:
        row = self.rows.get(number)
        if row is None or row.answers != answers or row.outcome is not None or row.ends > self.time:
            return False
        row.owner, row.ends = owner, self.time + lease
        return True

    def record(self, number: str, owner: int, outcome: str) -> bool:
        row = self.rows.get(number)
        if row is None or row.owner != owner or row.outcome not in (None, outcome):
            return False
        row.outcome = outcome
        return True

    def release(self, number: str, owner: int) -> None:
        row = self.rows.get(number)
        if row is not None and row.owner == owner and row.outcome is None:
            del self.rows[number]


def outcome_of(use: Callable[[], object]) -> object:
    """What came of it: a value, or the kind of an exception."""
    try:
        return use()
    except (Abandoned, Forgotten, Full, Pending, Spent) as error:
        return type(error)


class Rounds(RuleBasedStateMachine):
    """Two processes that share a store, each with a store object of its own."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database, self.model = database, Model()
        self.loop = asyncio.Runner()
        self.numbers: list[tuple[str, int]] = []
        self.finished: set[str] = set()
        self.opened: list[AbstractContextManager[Any]] = []
        self.stores: list[SqlStore] = []
        self.owners = [0, 1]
        for _ in range(2):
            self._open()
        self.begun = self.run(self.stores[0].now())
        self._hand_out(0)

    def teardown(self) -> None:
        for opened in self.opened:
            opened.__exit__(None, None, None)
        self.loop.close()

    def run(self, use: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(use)

    def _open(self) -> None:
        opened = self.database.open(**BOUNDS)
        self.opened.append(opened)
        store = opened.__enter__()
        assert isinstance(store, SqlStore)
        self.stores.append(store)

    def _hand_out(self, begins: int) -> None:
        self.numbers.append((str(len(self.numbers)), begins))

    def _both(self, expected: Callable[[], object], use: Coroutine[Any, Any, object]) -> object:
        wanted, got = outcome_of(expected), outcome_of(lambda: self.run(use))
        assert got == wanted
        return got

    def _row(self, begins: int, process: int, answers: str, lease: int, caller: str | None) -> Row:
        return Row(answers, self.owners[process], begins, lease, caller)

    def _reserve(self, number: str, process: int, row: Row) -> Coroutine[Any, Any, str | None]:
        return self.stores[process].reserve(
            number,
            row.answers,
            begins=self.begun + row.begins - self.model.time,  # what is recorded grows older instead
            lease_seconds=row.ends,
            caller=row.caller,
        )

    which = st.sampled_from([0, 0, 0, 1, 2])  # how late it was handed out
    processes = st.integers(0, 1)
    said = st.sampled_from("ab")
    leases = st.sampled_from([50, 150])
    callers = st.sampled_from([None, "ada"])

    @rule(ahead=st.sampled_from([0, 0, 0, -1100, -100, 1000, 1100]))
    def hand_out(self, ahead: int) -> None:
        self._hand_out(self.model.time + ahead)

    @rule(back=which, process=processes, answers=said, lease=leases, caller=callers)
    def reserve(self, back: int, process: int, answers: str, lease: int, caller: str | None) -> None:
        number, begins = self.numbers[-1 - back % len(self.numbers)]
        row = self._row(begins, process, answers, lease, caller)
        got = self._both(lambda: self.model.reserve(number, row), self._reserve(number, process, row))
        assert got is not None or number not in self.finished, "a round with an outcome runs again"

    @rule(
        process=processes,
        lease=leases,
        meanwhile=st.lists(
            st.sampled_from(["take", "record", "release", "pass", "another"]), max_size=6
        ),
    )
    def pause_while_taking(self, process: int, lease: int, meanwhile: list[str]) -> None:
        """A process is paused right before it takes a round, and the other one goes on."""
        self._hand_out(self.model.time)
        number, begins = self.numbers[-1]
        other, store, inner = 1 - process, self.stores[process], asyncio.Runner()
        execute = store._execute  # pyright: ignore[reportPrivateUsage]

        def paused(statement: str, values: Values) -> Any:
            if "INSERT INTO guard_rounds" in statement:
                del store._execute  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
                since = self.model.time
                for what in meanwhile:
                    self._other_does(inner, what, number, other)
                # What is recorded has grown older instead of time passing; so does what is under way.
                values["begins"] = float(values["begins"] or 0) - (self.model.time - since)
            return execute(statement, values)

        store._execute = paused  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        row = self._row(begins, process, "a", lease, None)
        self.model.move_horizon()
        got = outcome_of(lambda: self.run(self._reserve(number, process, row)))
        inner.close()
        assert got == outcome_of(lambda: self.model.reserve_after_a_pause(number, row))
        assert got is not None or number not in self.finished, "a round with an outcome runs again"

    def _other_does(self, loop: asyncio.Runner, what: str, number: str, process: int) -> None:
        store, owner, begins = self.stores[process], self.owners[process], dict(self.numbers)[number]
        if what == "pass":
            self.pass_time(13)
        elif what == "record":
            assert loop.run(store.record(number, "x")) == self.model.record(number, owner, "x")
            self._note(number)
        elif what == "release":
            loop.run(store.release(number))
            self.model.release(number, owner)
        else:
            if what == "another":
                self._hand_out(self.model.time)
                number, begins = self.numbers[-1]
            row = self._row(begins, process, "a", 50, None)
            use = self._reserve(number, process, row)
            assert outcome_of(lambda: loop.run(use)) == outcome_of(
                lambda: self.model.reserve(number, row)
            )

    @rule(back=which, process=processes, answers=said, lease=leases)
    def take_over(self, back: int, process: int, answers: str, lease: int) -> None:
        number, _ = self.numbers[-1 - back % len(self.numbers)]
        use = self.stores[process].take_over(number, answers, lease_seconds=lease)
        self._both(lambda: self.model.take_over(number, self.owners[process], answers, lease), use)

    @rule(back=which, process=processes, outcome=st.sampled_from("xy"))
    def record(self, back: int, process: int, outcome: str) -> None:
        number, _ = self.numbers[-1 - back % len(self.numbers)]
        use = self.stores[process].record(number, outcome)
        self._both(lambda: self.model.record(number, self.owners[process], outcome), use)
        self._note(number)

    def _note(self, number: str) -> None:
        if (row := self.model.rows.get(number)) is not None and row.outcome is not None:
            self.finished.add(number)

    @rule(back=which, process=processes)
    def release(self, back: int, process: int) -> None:
        number, _ = self.numbers[-1 - back % len(self.numbers)]
        use = self.stores[process].release(number)
        self._both(lambda: self.model.release(number, self.owners[process]), use)

    @rule(back=which, process=processes)
    def look(self, back: int, process: int) -> None:
        number, _ = self.numbers[-1 - back % len(self.numbers)]
        self._both(lambda: self.model.outcome(number), self.stores[process].outcome(number))

    @rule(steps=st.sampled_from([1, 1, 2, 13]))
    def pass_time(self, steps: int) -> None:
        self.database.grow_older(steps * 100)
        self.model.time += steps * 100

    @rule(process=processes)
    def restart(self, process: int) -> None:
        """A process dies, and another one takes its place."""
        self._open()
        self.stores[process] = self.stores.pop()
        self.owners[process] = max(self.owners) + 1

    @invariant()
    def the_same_rounds_are_taken(self) -> None:
        rows = [(number, row.outcome is not None) for number, row in self.model.rows.items()]
        assert self.database.rounds() == rows


def hold_to_the_model(database: Callable[[], Database], examples: int, steps: int) -> None:
    class OnDatabase(Rounds):
        def __init__(self) -> None:
            super().__init__(database())

    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType]
        OnDatabase, settings=settings(max_examples=examples, stateful_step_count=steps)
    )


def test_a_sqlite_store_does_what_the_model_says(tmp_path: Path) -> None:
    made = count()
    hold_to_the_model(lambda: SqliteFile(tmp_path / f"{next(made)}.sqlite"), 100, 30)


@pytest.mark.slow
def test_a_postgres_store_does_what_the_model_says(postgres: str) -> None:
    hold_to_the_model(lambda: PostgresSchema(fresh(postgres)), 15, 25)
