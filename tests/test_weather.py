"""Tests of the domain: the places that a name can mean, the texts, and the counts of a ledger."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from mrtr_options.tool import weather
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import REPORTS, Effect, Ledger, SqliteLedger
from tests.bounds import SECONDS
from tests.sending import answer, connected, instance, send


def test_a_place_is_found_by_city_or_label_in_any_case_and_each_label_means_itself() -> None:
    assert {weather.places_named(each) for each in (" TOKYO ", "tokyo, japan")} == {
        ("Tokyo, Japan",)
    }
    assert weather.only_place("Springfield") is None
    assert weather.only_place("springfield, missouri") == "Springfield, Missouri"
    assert [weather.places_named(label) for label in REPORTS] == [(label,) for label in REPORTS]


@pytest.mark.anyio
@pytest.mark.parametrize("destination", weather.DESTINATIONS)
@pytest.mark.parametrize("make", [weather.MemoryLedger, partial(SqliteLedger, "ledger.sqlite")])
async def test_a_ledger_has_every_effect_in_order_and_absorbs_what_its_destination_knows(
    make: Callable[..., Ledger],
    destination: weather.Destination,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = make(destination=destination)
    desk = weather.Desk(ledger)
    audit = Effect("audit", "Tokyo", "call-1")
    bill = Effect("bill", "Tokyo, Japan", "call-1")
    another = Effect("bill", "Tokyo, Japan", "call-2")
    unnamed = Effect("bill", "Tokyo, Japan")
    for _ in range(2):
        await desk.audit("Tokyo", key="call-1")
    for key in ("call-1", "call-1", "call-2", None, None):  # the audit's key does not clash
        await desk.bill("Tokyo, Japan", key=key)
    expected = {
        "ignores keys": (audit, audit, bill, bill, another, unnamed, unnamed),
        "honours keys": (audit, bill, another, unnamed, unnamed),
        "business key": (audit, bill),
    }
    effects = await ledger.effects()
    assert effects == expected[destination]
    assert weather.count(effects)["bill"] == len(effects) - weather.count(effects)["audit"]


@pytest.mark.anyio
@pytest.mark.parametrize("destination", weather.DESTINATIONS)
async def test_effects_recorded_at_once_are_all_counted(
    tmp_path: Path, destination: weather.Destination
) -> None:
    due = {"ignores keys": 20, "honours keys": 10, "business key": 1}
    ledgers = [SqliteLedger(tmp_path / "ledger.db", destination) for _ in range(2)]
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as recording:
            for number in range(10):
                for ledger in ledgers:
                    recording.start_soon(ledger.record, Effect("bill", "Tokyo, Japan", f"{number}"))
    for ledger in ledgers:
        assert len(await ledger.effects()) == due[destination]


@pytest.mark.anyio
async def test_a_call_whose_ledger_is_lost_ends_and_says_nothing_of_where_it_was(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    async with connected(instance("E", Settings(ledger))) as client:
        asked = await send(client, "Tokyo")
        path.rename(path.with_name("old.db"))
        SqliteLedger(path)
        with pytest.raises(MCPError) as refusal:
            await answer(client, "Tokyo", asked)
    assert refusal.value.error.data == {"reason": "ledger_unusable"}
    assert str(path) not in refusal.value.message
    assert await SqliteLedger(path).effects() == ()


@pytest.mark.parametrize(
    "location", ["Atlantis", "Spring", "Springfield, Ohio", "", ", Japan", "Japan"]
)
def test_an_unknown_place_is_named_in_the_error(location: str) -> None:
    for look_up in (weather.places_named, weather.only_place, weather.which_place):
        with pytest.raises(weather.UnknownPlace, match="Unknown location: ") as unknown:
            look_up(location)
        assert repr(location) in str(unknown.value)


def test_a_file_that_cannot_be_a_ledger_is_one_clear_line(tmp_path: Path) -> None:
    no_database = tmp_path / "notes.txt"
    no_database.write_text("not a database " * 100)
    for path in (no_database, tmp_path, tmp_path / "no" / "such" / "folder.db"):
        with pytest.raises(weather.LedgerUnusable, match="name a writable SQLite file") as unusable:
            SqliteLedger(path)
        assert os.fspath(path) in str(unusable.value)
        assert "\n" not in str(unusable.value)
    assert no_database.read_text().startswith("not a database")
