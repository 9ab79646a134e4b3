"""The guard's stores against a model in Python: two processes and time, in any order.

Time moves in steps of 100 s, and every bound of a store lies between two of them, so a slow machine
changes no outcome.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mrtr_options.sdk.single_use import sql
from mrtr_options.sdk.single_use.reservations import (
    Abandoned,
    Claim,
    Forgotten,
    Full,
    Pending,
    Spent,
)
from mrtr_options.sdk.single_use.sql import SqlStore
from tests.sdk.stores import Database, postgres, sqlite

T = TypeVar("T")

KEEP = 1050
EPOCH = 105
EPOCHS = 12
KNOWN_FOR = 2050
"""The seconds for which every fourth call is known by its name."""
BOUNDS = {"keep_seconds": KEEP, "max_rounds": 8, "max_rounds_per_caller": 3}


@dataclass
class Row:
    """A round that is taken.

    Attributes:
        ends: The end of its lease.
        lasts: The last epoch in which the store remembers it.
        keeps: The time until which the store remembers it, whatever epochs end.
    """

    claim: Claim
    ends: float
    lasts: int
    keeps: float
    outcome: str | None = None


class Model:
    """A model of a store.

    Attributes:
        time: The seconds since the store was made.
        epoch: The number of epochs that have ended.
        started: The time at which the present epoch began.
        rows: The rounds that are taken, by number, oldest first.
    """

    def __init__(self) -> None:
        self.time = self.epoch = self.started = 0
        self.rows: dict[str, Row] = {}

    def found(self, claim: Claim) -> str | None:
        is_remembered = self.epoch - EPOCHS <= epoch_of(claim) <= self.epoch
        if not is_remembered or abs(claim.begins - self.time) > KEEP:
            raise Forgotten
        if claim.number not in self.rows:
            return None
        outcome = self.outcome(claim.number)
        if self.rows[claim.number].claim.answers != claim.answers:
            raise Spent
        return outcome

    def outcome(self, number: str) -> str | None:
        row = self.rows.get(number)
        if row is not None and row.outcome is None:
            raise Abandoned if row.ends <= self.time else Pending
        return row and row.outcome

    def end_epoch(self) -> None:
        if 0 <= self.time - self.started <= EPOCH:
            return
        if self.time > self.started:
            self.epoch += 1
        self.started = self.time
        self.rows = {
            number: row
            for number, row in self.rows.items()
            if row.lasts >= self.epoch or row.keeps > self.time
        }

    def take(self, claim: Claim) -> None:
        mine = [
            row for row in self.rows.values() if claim.caller and row.claim.caller == claim.caller
        ]
        if len(self.rows) >= BOUNDS["max_rounds"] or len(mine) >= BOUNDS["max_rounds_per_caller"]:
            raise Full
        ends = self.time + claim.lease_seconds
        keeps = self.time + claim.call_seconds
        self.rows[claim.number] = Row(claim, ends, self.epoch + epochs_of(claim), keeps)

    def reserve(self, claim: Claim) -> str | None:
        recorded = self.found(claim)
        if recorded is None:
            self.end_epoch()
            self.take(claim)
        return recorded

    def reserve_after_a_pause(self, claim: Claim) -> str | None:
        """Finish `reserve` in a process that was paused after it had found the round free."""
        recorded = self.found(claim)
        if recorded is None:
            self.take(claim)
        return recorded

    def take_over(self, claim: Claim) -> bool:
        row = self.rows.get(claim.number)
        if row is None or row.claim.answers not in (claim.answers, ""):
            return False
        if row.outcome or row.ends > self.time:
            return False
        row.claim = replace(row.claim, owner=claim.owner, answers=claim.answers)
        row.ends = self.time + claim.lease_seconds
        return True

    def reopen(self, claim: Claim) -> bool:
        row = self.rows.get(claim.number)
        if row is None or row.outcome or row.ends > self.time:
            return False
        row.claim = replace(row.claim, owner="", answers="")
        row.lasts = self.epoch + epochs_of(claim)
        return True

    def record(self, claim: Claim, outcome: str) -> bool:
        row = self.rows.get(claim.number)
        if row is None or row.claim.owner != claim.owner or row.outcome not in (None, outcome):
            return False
        row.outcome = outcome
        return True

    def release(self, claim: Claim) -> None:
        row = self.rows.get(claim.number)
        if row is not None and row.claim.owner == claim.owner and row.outcome is None:
            del self.rows[claim.number]


def epochs_of(claim: Claim) -> int:
    """Return the number of epochs for which a claim's round is remembered."""
    return EPOCHS + int(claim.call_seconds // EPOCH)


def epoch_of(claim: Claim) -> int:
    """Return the epoch in which a claim's number was handed out."""
    return int(claim.mark)


def outcome_of(use: Callable[[], object]) -> object:
    try:
        return use()
    except (Abandoned, Forgotten, Full, Pending, Spent) as error:
        return type(error)


class Rounds(RuleBasedStateMachine):
    """Two processes that share a database, each with a store object of its own.

    Attributes:
        numbers: The rounds that were handed out: (number, time, epoch).
        claims: The claims of all deliveries, whether they got the round or not.
        finished: The rounds that have had an outcome.
    """

    which = st.sampled_from([0, 0, 0, 1, 2])  # 0 is the latest one
    processes = st.integers(0, 1)
    said = st.sampled_from("aab")
    leases = st.sampled_from([50, 150])
    callers = st.sampled_from([None, "ada"])

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.model = Model()
        self.loop = asyncio.Runner()
        self.numbers: list[tuple[str, int, int]] = []
        self.claims: list[Claim] = []
        self.finished: set[str] = set()
        self.opened: list[AbstractContextManager[Any]] = []
        self.stores = [self.open_store(), self.open_store()]
        stamp = self.loop.run(self.stores[0].stamp())
        self.begun = stamp.at
        self.name = stamp.mark.rpartition(".")[0]
        self.hand_out(0)

    def teardown(self) -> None:
        for opened in self.opened:
            opened.__exit__(None, None, None)
        self.loop.close()

    def open_store(self) -> SqlStore:
        self.opened.append(self.database.open(**BOUNDS))
        return self.opened[-1].__enter__()

    def both(self, expected: Callable[[], object], use: Coroutine[Any, Any, object]) -> object:
        got = outcome_of(lambda: self.loop.run(use))
        wanted = outcome_of(expected)
        assert got == wanted, f"{got}, and not {wanted}"
        return got

    def claim(
        self, back: int, answers: str = "a", lease: int = 50, caller: str | None = None
    ) -> Claim:
        number, begins, epoch = self.numbers[-1 - back % len(self.numbers)]
        owner = str(len(self.claims))
        call = f"call {number}"
        claim = Claim(number, answers, begins, lease, caller, owner, str(epoch), call)
        claim.call_seconds = 0 if int(number) % 4 else KNOWN_FOR
        self.claims.append(claim)
        return claim

    def aged(self, claim: Claim) -> Claim:
        """Make a claim older by the model's time, since records grow older instead of the clock."""
        begins = self.begun + claim.begins - self.model.time
        return replace(claim, begins=begins, mark=f"{self.name}.{claim.mark}")

    @rule(
        ahead=st.sampled_from([0, 0, 0, -1100, -100, 1000, 1100]),
        early=st.sampled_from([0, 0, 1, -1, 11, 12, 13]),
    )
    def hand_out(self, ahead: int, early: int = 0) -> None:
        at = self.model.time + ahead
        epoch = max(self.model.epoch - early, 0)
        self.numbers.append((str(len(self.numbers)), at, epoch))

    @rule(back=which, process=processes, answers=said, lease=leases, caller=callers)
    def reserve(
        self,
        back: int,
        process: int,
        answers: str = "a",
        lease: int = 50,
        caller: str | None = None,
    ) -> None:
        claim = self.claim(back, answers, lease, caller)
        use = self.stores[process].reserve(self.aged(claim))
        self.ran(claim, self.both(lambda: self.model.reserve(claim), use))

    @rule(process=processes, caller=callers, rounds=st.integers(1, 3))
    def take_new_ones(self, process: int, caller: str | None, rounds: int) -> None:
        for _ in range(rounds):
            self.hand_out(0)
            self.reserve(0, process, caller=caller)

    def ran(self, claim: Claim, got: object) -> None:
        assert got is not None or claim.number not in self.finished, (
            "a round with an outcome runs again"
        )

    @rule(back=which, process=processes, answers=said, lease=leases)
    def take_over(self, back: int, process: int, answers: str = "a", lease: int = 50) -> None:
        claim = self.claim(back, answers, lease)
        self.both(lambda: self.model.take_over(claim), self.stores[process].take_over(claim))

    @rule(back=which, process=processes)
    def reopen(self, back: int, process: int) -> None:
        claim = self.claim(back)
        self.both(lambda: self.model.reopen(claim), self.stores[process].reopen(claim, "again"))

    ways_to_be_late = st.sampled_from(["nothing", "record", "reopen"])

    @rule(process=processes, answers=said, lease=leases, late=ways_to_be_late)
    def take_over_what_was_left(self, process: int, answers: str, lease: int, late: str) -> None:
        """Let a process be late with a new round, and the other one take the round over in time."""
        self.hand_out(0)
        self.reserve(0, process, lease=lease)
        self.pass_time(1)
        if late == "record":
            self.record(0, process)
        if late == "reopen":
            self.reopen(0, process)
        self.take_over(0, 1 - process, answers)
        self.record(0, 1 - process, "y")
        self.reserve(0, process, answers)

    def claimed(self, back: int) -> Claim:
        return self.claims[-1 - back % len(self.claims)] if self.claims else self.claim(back)

    @rule(back=which, process=processes, outcome=st.sampled_from("xy"))
    def record(self, back: int, process: int, outcome: str = "x") -> None:
        claim = self.claimed(back)
        use = self.stores[process].record(claim, outcome)
        self.both(lambda: self.model.record(claim, outcome), use)
        row = self.model.rows.get(claim.number)
        self.finished |= {claim.number} if row is not None and row.outcome else set()

    @rule(back=which, process=processes)
    def release(self, back: int, process: int) -> None:
        claim = self.claimed(back)
        self.both(lambda: self.model.release(claim), self.stores[process].release(claim))

    @rule(steps=st.sampled_from([1, 1, 2, 2, 2, 13, -1, -13]))
    def pass_time(self, steps: int) -> None:
        self.database.grow_older(steps * 100)
        self.model.time += steps * 100

    @rule(process=processes)
    def restart(self, process: int) -> None:
        self.stores[process] = self.open_store()

    happenings = st.sampled_from(["take", "record", "release", "pass", "back", "another"])

    @rule(process=processes, meanwhile=st.lists(happenings, max_size=6))
    def pause_while_taking(self, process: int, meanwhile: list[str]) -> None:
        """Pause a process right before it takes a round, and let the other one go on."""
        self.hand_out(0)
        back = 0
        store = self.stores[process]
        other = 1 - process
        claim = self.claim(0)
        outer = self.loop
        inner = asyncio.Runner()
        aged = self.aged(claim)
        alone = store._alone  # pyright: ignore[reportPrivateUsage]

        def go_on() -> None:
            nonlocal back
            for what in meanwhile:
                if what == "pass":
                    self.pass_time(13)
                elif what == "back":
                    self.pass_time(-13)
                elif what == "record":
                    self.record(0, other)
                elif what == "release":
                    self.release(0, other)
                elif what == "another":
                    self.hand_out(0)
                    back += 1
                    self.reserve(0, other)
                else:
                    self.reserve(back, other)

        def paused(claim: Claim, seen: Any) -> Any:
            del store._alone  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
            since = self.model.time
            self.loop = inner
            with ThreadPoolExecutor(1) as another_process:  # this process's loop is busy
                another_process.submit(go_on).result()
            self.loop = outer
            begins = aged.begins - (self.model.time - since)
            object.__setattr__(aged, "begins", begins)
            return alone(claim, seen)

        store._alone = paused  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        self.model.end_epoch()
        use = store.reserve(aged)
        got = outcome_of(lambda: outer.run(use))
        inner.close()
        assert got == outcome_of(lambda: self.model.reserve_after_a_pause(claim))
        self.ran(claim, got)

    @rule(process=processes, epochs=st.sampled_from([EPOCHS, EPOCHS + 1]))
    def end_epochs_while_taking(self, process: int, epochs: int) -> None:
        """Let epochs end right before a round is taken, as other processes do on PostgreSQL."""
        if len(self.model.rows) == BOUNDS["max_rounds"]:
            return
        self.hand_out(0)
        claim = self.claim(0)
        self.model.end_epoch()
        store: Any = self.stores[process]
        execute = store._execute

        def ending(statement: str, values: Any) -> Any:
            if statement is sql._TAKE:  # pyright: ignore[reportPrivateUsage]
                store._execute = execute
                execute(f"UPDATE guard_horizon SET epoch = epoch + {epochs}", {})
                self.model.epoch += epochs
            return execute(statement, values)

        store._execute = ending
        use = store.reserve(self.aged(claim))
        self.both(lambda: self.model.reserve_after_a_pause(claim), use)

    @invariant()
    def the_same_rounds_are_taken_in_the_same_epoch(self) -> None:
        rows = [(number, row.outcome is not None) for number, row in self.model.rows.items()]
        assert self.database.rounds() == rows
        assert self.database.execute("SELECT epoch FROM guard_horizon") == [(self.model.epoch,)]


def test_a_store_keeps_what_is_recorded_and_takes_nothing_from_far_ahead(path: Path) -> None:
    """Take steps that the machine draws too rarely."""
    machine = Rounds(sqlite(path))
    machine.reserve(0, 0)
    for outcome in "xyx":
        machine.record(0, 1, outcome)
    machine.release(0, 0)
    machine.the_same_rounds_are_taken_in_the_same_epoch()
    machine.hand_out(0)
    machine.reserve(0, 0)
    machine.pass_time(1)
    machine.take_over(0, 1, "b")
    machine.take_over(0, 1, lease=150)
    machine.pass_time(1)
    machine.take_over(0, 0)
    for ahead in (1000, 1100):
        machine.hand_out(ahead)
        machine.reserve(0, 0)
    machine.teardown()


@pytest.mark.parametrize(
    ("kind", "examples"),
    [("sqlite", 100), pytest.param("postgres", 40, marks=pytest.mark.evidence("on PostgreSQL"))],
)
def test_a_store_does_what_the_model_says(
    kind: str, examples: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = count()

    def machine() -> Rounds:
        if kind == "sqlite":
            return Rounds(sqlite(tmp_path / f"{next(files)}.sqlite"))
        return Rounds(postgres(request.getfixturevalue("postgres")))

    made: Any = machine
    run_state_machine_as_test(
        made, settings=settings(max_examples=examples, stateful_step_count=30)
    )
