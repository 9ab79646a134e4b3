"""Tests on broken mechanisms: the search finds an anomaly that the sound mechanism never shows."""

import pytest

from model.check import MECHANISMS, Cell, check
from model.durable import Durable
from model.guard import Guard
from model.mechanism import Mechanism, Run
from model.world import Request, World


class NoReservation(Guard):
    """A guard that records a round and does not reserve it."""

    def at_work(self, world: World, call: int) -> bool:
        """Overlook the round at work."""
        return False

    def run(self, world: World, call: int, request: Request) -> Run:
        """Run the round with no mark in the store."""
        return super().run(world, call, request)._replace(store=world.store)


class ReleasesBroken(Guard):
    """A guard that runs a round of unknown outcome again."""

    def run(self, world: World, call: int, request: Request) -> Run:
        """Run the round with no mark in the store."""
        return super().run(world, call, request)._replace(store=world.store)


class KeyPerAttempt(Durable):
    """A durable record whose idempotency key names the attempt and not the call."""

    def effect_key(self, world: World, request: Request) -> int | None:
        return request.attempt


HONOURS = "honours idempotency keys"


@pytest.mark.parametrize(
    ("name", "mutant", "policy", "destination"),
    [
        ("guard (F)", NoReservation(), "resends", "ignores keys"),
        ("guard (F)", ReleasesBroken(), "resends", "ignores keys"),
        ("durable record, named by key", KeyPerAttempt("key"), "calls again", HONOURS),
    ],
    ids=["no reservation", "releases a broken round", "key per attempt"],
)
def test_mutant_charges_twice_and_the_sound_mechanism_never(
    name: str, mutant: Mechanism, policy: str, destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell(name, policy, destination)
    assert "duplicate bill" not in check(cell).counterexamples
    monkeypatch.setitem(MECHANISMS, name, mutant)
    assert "duplicate bill" in check(cell).counterexamples
