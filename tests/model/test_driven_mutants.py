"""Tests on broken stand-ins: driving the model's transitions finds what each does otherwise."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from model.check import Cell
from model.extras import BACK, NONE, Extras
from mrtr_options.sdk.handler import await_result
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.replay import Round
from mrtr_options.sdk.single_use.reservations import Abandoned, Claim, Pending
from mrtr_options.tool.weather import Effect
from tests.model.covering import drive
from tests.model.gates import GatedLedger, GatedStore
from tests.model.walking import Graph

GUARD = "guard (F)"
BY_KEY = "guard, named by key (J)"
IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"
NEAREST = 1500
"""The number of states in whose transitions a mutant has to be found."""

reserve = GatedStore.reserve
record_effect = GatedLedger.record


def taking(refusal: type[Exception]) -> Any:
    """Return a reservation that takes a round where the store refuses it for this reason."""

    async def reserve_all(store: GatedStore, claim: Claim) -> str | None:
        try:
            return await reserve(store, claim)
        except refusal:
            return None

    return reserve_all


async def reserve_without_name(store: GatedStore, claim: Claim) -> str | None:
    """Reserve the first round of a named call as if it were another call each time."""
    if claim.is_first:
        claim = replace(claim, number=secrets.token_hex(16), call=None)
    return await reserve(store, claim)


async def reserve_any_answers(store: GatedStore, claim: Claim) -> str | None:
    """Leave the digest of the answers out."""
    return await reserve(store, replace(claim, answers=""))


async def record_nothing(store: GatedStore, claim: Claim, outcome: str) -> bool:
    """Leave the record to a moment after the response, which the process does not live to see."""
    await store.gate.stop("record")
    return True


async def run_always(markers: Markers, key: str, effect: Callable[[], object]) -> None:
    """Run an effect in each round."""
    await await_result(effect())


async def audit_once(ledger: GatedLedger, effect: Effect) -> None:
    """Hide the hazard of E: drop an audit that is in the ledger already."""
    if effect not in await ledger.effects():
        await record_effect(ledger, effect)


def new_key(this: Round, kind: str, key: str) -> str:
    """Make an idempotency key for each attempt."""
    return secrets.token_hex(16)


class Mutant(NamedTuple):
    """A broken stand-in: what is put in place of what, and the cell in which it is driven."""

    owner: type
    name: str
    broken: Any
    mechanism: str
    destination: str = IGNORES
    extras: Extras = NONE


MUTANTS = {
    "takes a round at work": Mutant(GatedStore, "reserve", taking(Pending), BY_KEY),
    "takes a round left behind": Mutant(GatedStore, "reserve", taking(Abandoned), GUARD),
    "records after the response": Mutant(GatedStore, "record", record_nothing, GUARD),
    "forgets the name": Mutant(GatedStore, "reserve", reserve_without_name, BY_KEY),
    "runs what is marked": Mutant(Markers, "once", run_always, "nothing kept (F)"),
    "hides the audits of E": Mutant(GatedLedger, "record", audit_once, "nothing kept (E)"),
    "key per attempt": Mutant(Round, "idempotency_key", new_key, "nothing kept (J)", HONOURS),
    "takes other answers": Mutant(
        GatedStore, "reserve", reserve_any_answers, GUARD, extras=frozenset({BACK})
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
async def test_driving_finds_a_broken_stand_in(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.broken)
    cell = Cell(mutant.mechanism, "resends", mutant.destination)
    graph = Graph(cell, extras=mutant.extras)
    found = await drive(graph, nearest=NEAREST)
    assert found.differs
