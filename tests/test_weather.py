"""The domain: what a name may mean, what the texts say, and that a ledger counts what happened."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import (
    REPORTS,
    Desk,
    Effect,
    Ledger,
    LedgerUnusable,
    MemoryLedger,
    SqliteLedger,
    UnknownPlace,
    count,
    only_place,
    places_named,
    which_place,
)
from tests.bounds import SECONDS
from tests.rounds import answer, connected, instance, send

LedgerMaker = Callable[..., Ledger]


# --- places, questions, texts -------------------------------------------------------------------


@pytest.mark.parametrize("location", ["Tokyo", "tokyo", " TOKYO ", "Tokyo, Japan", "tokyo, japan"])
def test_a_place_is_found_by_city_or_label_in_any_case(location: str) -> None:
    assert places_named(location) == ("Tokyo, Japan",)
    assert only_place(location) == "Tokyo, Japan"


def test_an_ambiguous_city_is_several_places_and_a_label_is_one() -> None:
    assert only_place("Springfield") is None
    assert places_named("Springfield") == (
        "Springfield, Illinois",
        "Springfield, Massachusetts",
        "Springfield, Missouri",
    )
    assert only_place("springfield, missouri") == "Springfield, Missouri"


@pytest.mark.parametrize("location", ["Atlantis", "Spring", "Springfield, Ohio", "", ", Japan", "Japan"])
def test_an_unknown_place_is_named_in_the_error(location: str) -> None:
    for look_up in (places_named, only_place, which_place):
        with pytest.raises(UnknownPlace, match="Unknown location: ") as unknown:
            look_up(location)
        assert repr(location) in str(unknown.value)


def test_every_label_means_itself() -> None:
    for label in REPORTS:
        assert places_named(label) == (label,)


def test_the_place_question_offers_the_places_that_share_the_name() -> None:
    question = which_place(" Portland ")
    assert (question.key, question.message) == ("place", "Which Portland?")
    schema = question.answer.model_json_schema()
    assert schema["properties"]["place"]["enum"] == ["Portland, Maine", "Portland, Oregon"]
    assert question.assumed is None
    assert question.unasked == (
        "'Portland' is ambiguous. Call again with one of: Portland, Maine; Portland, Oregon."
    )


# --- ledgers ------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
def new_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerMaker:
    """Makes a ledger of one kind, honouring keys or not."""

    def make(*, honours_keys: bool = False) -> Ledger:
        if request.param == "memory":
            return MemoryLedger(honours_keys=honours_keys)
        return SqliteLedger(tmp_path / "ledger.db", honours_keys=honours_keys)

    return make


@pytest.mark.anyio
async def test_a_ledger_has_every_effect_in_order(new_ledger: LedgerMaker) -> None:
    ledger = new_ledger()
    desk = Desk(ledger)
    await desk.audit("Tokyo")
    await desk.bill("Tokyo, Japan", key="call-1")
    await desk.audit("Tokyo")
    effects = await ledger.effects()
    assert effects == (
        Effect("audit", "Tokyo"),
        Effect("bill", "Tokyo, Japan", "call-1"),
        Effect("audit", "Tokyo"),
    )
    assert count(effects) == {"audit": 2, "bill": 1}


@pytest.mark.anyio
async def test_a_naive_ledger_counts_an_effect_with_the_same_key_again(new_ledger: LedgerMaker) -> None:
    ledger = new_ledger()
    for _ in range(3):
        await ledger.record(Effect("bill", "Tokyo, Japan", "call-1"))
    assert count(await ledger.effects())["bill"] == 3


@pytest.mark.anyio
async def test_a_ledger_that_honours_keys_absorbs_the_second_of_a_kind(new_ledger: LedgerMaker) -> None:
    ledger = new_ledger(honours_keys=True)
    desk = Desk(ledger)
    for _ in range(3):
        await desk.audit("Tokyo", key="call-1")  # another kind: the same key is no clash
        await desk.bill("Tokyo, Japan", key="call-1")
    await desk.bill("Tokyo, Japan", key="call-2")
    for _ in range(2):
        await desk.bill("Tokyo, Japan")  # no key: nothing to absorb by
    assert [(effect.kind, effect.key) for effect in await ledger.effects()] == [
        ("audit", "call-1"),
        ("bill", "call-1"),
        ("bill", "call-2"),
        ("bill", None),
        ("bill", None),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("honours_keys", [True, False])
async def test_effects_recorded_at_once_are_all_counted(tmp_path: Path, honours_keys: bool) -> None:
    ledgers = [SqliteLedger(tmp_path / "ledger.db", honours_keys=honours_keys) for _ in range(2)]
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as recording:
            for number in range(10):
                for ledger in ledgers:
                    recording.start_soon(ledger.record, Effect("bill", "Tokyo, Japan", f"{number}"))
    for ledger in ledgers:
        assert len(await ledger.effects()) == (10 if honours_keys else 20)


def test_a_row_says_what_and_when(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    anyio.run(SqliteLedger(path).record, Effect("bill", "Tokyo, Japan"))
    db = sqlite3.connect(path)
    try:
        ((seq, kind, subject, key, at),) = db.execute("SELECT * FROM effects").fetchall()
    finally:
        db.close()
    assert (seq, kind, subject, key) == (1, "bill", "Tokyo, Japan", None)
    assert at.endswith("+00:00")


def test_a_file_that_cannot_be_a_ledger_is_one_clear_line(tmp_path: Path) -> None:
    no_database = tmp_path / "notes.txt"
    no_database.write_text("not a database " * 100)
    for path in (no_database, tmp_path, tmp_path / "no" / "such" / "folder.db"):
        with pytest.raises(LedgerUnusable, match="name a writable SQLite file") as unusable:
            SqliteLedger(path)
        assert os.fspath(path) in str(unusable.value)
        assert "\n" not in str(unusable.value)
    assert no_database.read_text().startswith("not a database")


def lose(path: Path, *, to: str) -> None:
    """Have a ledger's file be "deleted", "replaced" by another ledger, or made "corrupt"."""
    if to == "corrupt":
        path.write_bytes(b"not a database" * 1000)
        return
    path.rename(path.with_name("old.db"))
    if to == "replaced":
        SqliteLedger(path)


lost = pytest.mark.parametrize(
    ("to", "said"),
    [
        ("deleted", "was deleted or replaced under this process; restart the server"),
        ("replaced", "was deleted or replaced under this process; restart the server"),
        ("corrupt", "as a ledger (file is not a database); name a writable SQLite file"),
    ],
)


@pytest.mark.anyio
@lost
async def test_a_file_that_is_lost_under_the_process_is_refused_in_one_line(
    tmp_path: Path, to: str, said: str
) -> None:
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    await ledger.record(Effect("bill", "Tokyo, Japan"))
    lose(path, to=to)
    for use in (partial(ledger.record, Effect("bill", "Tokyo, Japan")), ledger.effects):
        with pytest.raises(LedgerUnusable) as unusable:
            await use()
        assert str(path) in str(unusable.value)
        assert said in str(unusable.value)
        assert "\n" not in str(unusable.value)
    if to == "replaced":
        assert await SqliteLedger(path).effects() == ()


@pytest.mark.anyio
@lost
async def test_a_call_that_finds_its_ledger_lost_ends_with_one_line_in_the_log(
    tmp_path: Path, to: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.db"
    async with connected(instance("E", Settings(SqliteLedger(path)))) as client:
        lose(path, to=to)
        with pytest.raises(MCPError) as refusal:
            await send(client, "Tokyo")
    assert refusal.value.error.data == {"reason": "ledger_unusable"}
    assert str(path) not in refusal.value.message
    (record,) = caplog.records
    assert record.exc_info is None
    assert str(path) in record.getMessage()
    assert said in record.getMessage()


@pytest.mark.anyio
async def test_a_client_of_the_high_tier_is_not_told_where_the_ledger_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with connected(instance("I", Settings(SqliteLedger(path)))) as client:
        asked = await send(client, "Tokyo")
        lose(path, to="deleted")
        with pytest.raises(MCPError) as refusal:
            await answer(client, "Tokyo", asked)
    assert refusal.value.error.data == {"reason": "ledger_unusable"}
    assert str(path) not in refusal.value.message
