"""Tests on broken mechanisms: the search finds an anomaly that the sound mechanism never shows."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from model.actions import Step
from model.check import MECHANISMS, Cell, check
from model.durable import Durable
from model.extras import BELOW_MARK, EARLY, FAIL, NONE, OLD, OTHER_USER, WHEN_TOLD, Extras
from model.guard import Guard
from model.mechanism import Mechanism, Run
from model.world import STRANGER, Request, Response, World, reply


class ReleasesBroken(Guard):
    """A guard that runs a round of unknown outcome again."""

    def run(self, world: World, index: int, call: int, request: Request) -> Run:
        """Run the round with no mark in the store."""
        return super().run(world, index, call, request)._replace(store=world.store)


class NoReservation(ReleasesBroken):
    """A guard that records a round and does not reserve it."""

    def at_work(self, world: World, call: int) -> bool:
        """Overlook the round at work."""
        return False


class KeyPerAttempt(Durable):
    """A durable record whose idempotency key names the attempt and not the call."""

    def effect_key(self, world: World, request: Request) -> int | None:
        return request.attempt


class NoAge(Guard):
    """A guard that does not look at a state's age."""

    refuses_old = False


class TakesEarly(Guard):
    """A guard that hands answers to its handler before their questions were asked."""

    takes_early = True


class NameOfEveryUser(Guard):
    """A guard whose names are the same for all users."""

    def call(self, world: World, request: Request) -> int:
        """Return one call for every user."""
        is_others = request.attempt == STRANGER
        return 1 if is_others else super().call(world, request)


class RecordsFailedAsDone(Guard):
    """A guard that records a round as done although its effect failed."""

    def failed(self, world: World, index: int, request: Request) -> World:
        """Record the round and respond as if it had succeeded."""
        after = self.record(world, index, request, "record")
        return reply(after, Response(request, self.asks(world, index, request)))


class ForgetsWithoutMark(Guard):
    """A guard that keeps no mark of a call that it forgets."""

    def forget(self, world: World, rule: str) -> Iterator[Step]:
        """Forget as a guard does that keeps no mark."""
        return super().forget(world, WHEN_TOLD)


IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"
GUARD = "guard (F)"
BY_KEY = "guard, named by key (J)"
BY_ARGUMENT = "guard, named by argument (J)"


class Case(NamedTuple):
    """A mutant, where it is searched, and the anomaly that gives it away."""

    mutant: Mechanism
    cell: Cell
    anomaly: str
    extras: Extras = NONE


CASES = {
    "no reservation": Case(NoReservation(), Cell(GUARD, "resends", IGNORES), "charged twice"),
    "releases a broken round": Case(
        ReleasesBroken(), Cell(GUARD, "resends", IGNORES), "charged twice"
    ),
    "key per attempt": Case(
        KeyPerAttempt("key"),
        Cell("durable record, named by key", "calls again", HONOURS),
        "charged twice",
    ),
    "age of states not looked at": Case(
        NoAge("key", keyed=True),
        Cell(BY_KEY, "stops", IGNORES),
        "expired state accepted",
        frozenset({OLD}),
    ),
    "early answers taken": Case(
        TakesEarly("key", keyed=True),
        Cell(BY_KEY, "resends", IGNORES),
        "question skipped",
        frozenset({EARLY}),
    ),
    "user not in the name": Case(
        NameOfEveryUser("argument", keyed=True),
        Cell(BY_ARGUMENT, "resends", IGNORES),
        "second wanted call swallowed",
        frozenset({OTHER_USER}),
    ),
    "failed effect recorded as done": Case(
        RecordsFailedAsDone("key", keyed=True),
        Cell(BY_KEY, "resends", IGNORES),
        "result without effect",
        frozenset({FAIL}),
    ),
    "no mark of a forgotten call": Case(
        ForgetsWithoutMark("key", keyed=True),
        Cell(BY_KEY, "resends", IGNORES),
        "charged twice",
        frozenset({BELOW_MARK}),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_mutant_shows_an_anomaly_that_the_sound_mechanism_never_shows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant, cell, anomaly, extras = CASES[name]
    assert anomaly not in check(cell, extras=extras).counterexamples
    monkeypatch.setitem(MECHANISMS, cell.mechanism, mutant)
    assert anomaly in check(cell, extras=extras).counterexamples
