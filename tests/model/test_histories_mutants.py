"""Tests on broken stand-ins: following the explorer's histories finds what each does otherwise."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from model.check import Cell
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.ledger import FaultyLedger
from mrtr_options.sdk.handler import await_result
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.replay import Round
from mrtr_options.sdk.single_use import SqliteStore, guard
from mrtr_options.sdk.single_use.reservations import Abandoned, Claim, Pending
from mrtr_options.tool.weather import Effect
from tests.model.histories import follow_cell

GUARD = "guard (F)"
BY_KEY = "guard, named by key (J)"
IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"

reserve = SqliteStore.reserve
deliver = FaultyLedger.deliver


async def reserve_what_is_at_work(store: SqliteStore, claim: Claim) -> str | None:
    """Take a round that another delivery runs."""
    try:
        return await reserve(store, claim)
    except Pending:
        return None


async def reserve_what_was_left(store: SqliteStore, claim: Claim) -> str | None:
    """Take a round whose process died, though its effects may have happened."""
    try:
        return await reserve(store, claim)
    except Abandoned:
        await store.take_over(claim)
        await store.begin_effect(replace(claim, effects=None))  # forget what had begun, too
        return None


async def reserve_without_name(store: SqliteStore, claim: Claim) -> str | None:
    """Reserve the first round of a named call as if it were another call each time."""
    if claim.is_first:
        claim = replace(claim, number=secrets.token_hex(16), call=None)
    return await reserve(store, claim)


def no_digest(answers: object) -> str:
    """Leave the digest of the answers out."""
    return ""


async def record_nothing(store: SqliteStore, claim: Claim, outcome: str) -> bool:
    """Leave the record to a moment after the response, which the process does not live to see."""
    return True


async def run_always(markers: Markers, key: str, effect: Callable[[], object]) -> None:
    """Run an effect in each round."""
    await await_result(effect())


async def audit_once(ledger: FaultyLedger, effect: Effect) -> None:
    """Hide the hazard of E: drop an audit that is in the ledger already."""
    if effect not in await ledger.effects():
        await deliver(ledger, effect)


def new_key(this: Round[Any], kind: str, key: str) -> str:
    """Make an idempotency key for each attempt."""
    return secrets.token_hex(16)


class Mutant(NamedTuple):
    """A broken stand-in: what is put in place of what, and the history that shows it."""

    owner: Any
    name: str
    broken: Any
    mechanism: str
    faults: str
    destination: str = IGNORES


MUTANTS = {
    "takes a round at work": Mutant(
        SqliteStore, "reserve", reserve_what_is_at_work, BY_KEY, "both3"
    ),
    "takes a round left behind": Mutant(
        SqliteStore, "reserve", reserve_what_was_left, GUARD, "crash@bill3"
    ),
    "records after the response": Mutant(SqliteStore, "record", record_nothing, GUARD, "twice3"),
    "forgets the name": Mutant(SqliteStore, "reserve", reserve_without_name, BY_KEY, "lost1"),
    "runs what is marked": Mutant(Markers, "once", run_always, "nothing kept (F)", ""),
    "hides the audits of E": Mutant(FaultyLedger, "deliver", audit_once, "nothing kept (E)", ""),
    "key per attempt": Mutant(
        Round, "idempotency_key", new_key, "nothing kept (J)", "twice3", HONOURS
    ),
    "takes other answers": Mutant(guard, "digest_of_answers", no_digest, GUARD, "back3"),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_history_of_a_broken_stand_in_is_no_path_of_the_model(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell(mutant.mechanism, "resends", mutant.destination)
    faults = parse(mutant.faults)
    assert follow_cell(cell, len(faults), first=faults).refused == []
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.broken)
    assert follow_cell(cell, len(faults), first=faults).refused
