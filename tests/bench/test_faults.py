"""Tests of how faults, clients and anomalies are declared: wrong words, taken names are refused."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import Server, ServerRequestContext
from pydantic import ValidationError

from mrtr_options.names import by_name
from mrtr_options.review.bench.client import client_of, fetch
from mrtr_options.review.bench.deployments.child import FaultyConnection
from mrtr_options.review.bench.faults import KINDS, parse
from mrtr_options.review.bench.faults.kinds import Outgoing, SendOn
from mrtr_options.review.bench.history import Recording
from mrtr_options.review.bench.messages import LOST, Era, Reply, Request
from mrtr_options.review.bench.policies import policy
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world.ledger import DESTINATION_IS_DOWN
from mrtr_options.review.bench.world.ledger_file import ForeignLedger
from mrtr_options.review.judge.anomalies import anomaly
from mrtr_options.tool.weather import SqliteLedger


@pytest.mark.parametrize("wrong", [{"phase": "later"}, {"tried": "never"}, {"at": "refund"}])
def test_a_column_without_such_a_value_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    (column,) = wrong
    with pytest.raises(ValidationError, match=column):
        replace(KINDS["lost"], **wrong)


def test_a_fault_that_explorations_try_says_which_search_of_the_model_has_it() -> None:
    with pytest.raises(ValueError, match="name the model's search that has it"):
        replace(KINDS["lost"], model=None)
    assert replace(KINDS["lost"], model=None, tried="check").model is None


def test_two_faults_of_one_name_are_refused() -> None:
    lost = KINDS["lost"]
    assert by_name([lost, lost], "faults") == {"lost": lost}
    with pytest.raises(ValueError, match="two faults 'lost'"):
        by_name([lost, replace(KINDS["twice"], name="lost")], "faults")


def test_a_fault_whose_name_could_not_be_typed_with_a_round_is_refused() -> None:
    with pytest.raises(ValueError, match="'lost-2' could not be typed with its round"):
        replace(KINDS["lost"], name="lost-2")


def test_a_second_client_or_anomaly_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="two clients 'stops'"):
        policy("stops", "call the tool again")
    with pytest.raises(ValueError, match="two anomalies 'charged twice'"):
        anomaly("charged twice", "A bill is large.", harms="the user", remedy="ask", spared=())


def test_a_fault_that_does_not_send_its_request_on_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def swallow(outgoing: Outgoing, send: SendOn) -> Reply:
        return Reply(nothing=LOST)

    monkeypatch.setitem(KINDS, "lost", replace(KINDS["lost"], around=swallow))
    with pytest.raises(ExceptionGroup) as raised:
        anyio.run(run, subject_named("E"), calling().under(parse("lost3")))
    (error,) = raised.value.exceptions
    assert str(error).startswith("lost: a fault has to send its request on")


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_request_is_sent_in_the_same_way_whatever_key_and_state_it_carries(era: Era) -> None:
    ways = set[tuple[object, ...]]()

    async def note(ctx: ServerRequestContext[Any], params: Any) -> types.CallToolResult:
        ways.add((type(ctx.request_id), *sorted(ctx.meta or {})))
        return types.CallToolResult(content=[])

    async def send_each() -> None:
        for number in range(9):
            request = Request("Tokyo", era=era, key=f"key-{number}", state=f"state-{number}")
            async with client_of(Server("any", on_call_tool=note), request) as client:
                await fetch(client, request)

    anyio.run(send_each)
    assert len(ways) == 1


BILL = "INSERT INTO effects (kind, subject, at) VALUES ('bill', 'Tokyo', '')"


@pytest.mark.parametrize(
    "statements",
    [(BILL,), (f"{BILL} RETURNING *",), ("BEGIN", BILL, "COMMIT"), ("BEGIN", BILL, "commit()")],
    ids=["autocommit", "autocommit that returns rows", "COMMIT", "commit"],
)
def test_an_unsure_effect_is_in_the_ledger_and_fails_and_no_other_transaction_does(
    statements: tuple[str, ...], tmp_path: Path
) -> None:
    file = SqliteLedger(tmp_path / "ledger.sqlite").path
    ledger = ForeignLedger(file, Recording())
    ledger.arm("unsure@bill")
    with (
        closing(ledger),
        closing(FaultyConnection(file, isolation_level=None)) as effects,
        closing(FaultyConnection(":memory:")) as store,
    ):
        *first, last = statements
        for statement in first:
            effects.execute(statement)
        end = effects.commit if last == "commit()" else partial(effects.execute, last)
        with pytest.raises(sqlite3.OperationalError, match=DESTINATION_IS_DOWN) as _kept:
            end()
        store.commit()
        assert ledger.since_armed()
        ledger.arm(None)  # writes to the file: an error that somebody keeps holds no lock of it
