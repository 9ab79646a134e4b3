"""Tests of calls in doubt: who runs the server lists them and ends them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options import sdk
from mrtr_options.__main__ import main
from mrtr_options.sdk.effects import MAX_VALUE_BYTES
from mrtr_options.sdk.single_use.outcomes import write_response
from tests.commands import refusal
from tests.sdk.fakes import Params, called_by, deliver, result
from tests.sdk.test_endings import Till, guarded

pytestmark = pytest.mark.anyio


def charging(till: Till) -> Any:
    """Make a tool of J that charges."""

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        return result(f"charge {await ctx.once('pay', till.charge)}")

    return sdk.keyed_replay(pay)


@pytest.mark.parametrize(
    ("end", "told", "charged"),
    [(["--result", "It was paid."], "It was paid.", 1), (["--not-done"], "charge 2", 2)],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_in_doubt_is_listed_and_ended_by_who_runs_the_server(
    end: list[str], told: str, charged: int, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    till = Till(trouble=TimeoutError())
    with closing(sdk.SqliteStore(path)) as store, called_by(lambda: "ada"):
        tool = guarded(charging(till), store, call_is_secret=False)
        with pytest.raises(MCPError):
            await deliver(tool, reference=1)
        await in_thread(["doubtful", str(path)])
        line = capsys.readouterr().out
        assert "tool 1 (ada)" in line
        assert "begun: pay" in line
        await in_thread(["doubtful", str(path), "--settle", line.split()[0], *end])
        till.trouble = None
        ended: Any = await deliver(tool, reference=1)
        assert ended.content[0].text == told
        assert till.charged == charged
        await in_thread(["doubtful", str(path)])
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("written", ["", "CREATE TABLE effects (seq)"])
def test_a_file_of_something_else_is_no_store_and_stays_as_it_is(
    written: str, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(file)) as db:
        db.execute(written)
    before = file.read_bytes()
    assert f"there is no store {file}; name the file" in refusal(main, ["doubtful", str(file)])
    assert file.read_bytes() == before


async def test_a_store_lists_a_call_in_doubt_and_ends_it_once(store: Any) -> None:
    with pytest.raises(MCPError):
        await deliver(guarded(charging(Till(trouble=TimeoutError())), store), reference=1)
    (call,) = await store.doubtful()
    assert call.label is None, "its name is a secret"
    outcome = write_response(sdk.text("It was paid."))
    ended = [await store.settle(call.id, outcome, is_done=True) for _ in range(2)]
    assert ended == [True, False]
    assert await store.doubtful() == []


async def test_a_value_that_is_too_long_to_be_recorded_is_in_no_record(store: Any) -> None:
    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        await ctx.once("pay", lambda key: "x" * MAX_VALUE_BYTES)
        raise OSError("the printer is off")

    with pytest.raises(MCPError):
        await deliver(guarded(sdk.keyed_replay(pay), store), reference=1)
    (call,) = await store.doubtful()
    assert len(call.effects) < MAX_VALUE_BYTES


async def in_thread(arguments: list[str]) -> None:
    """Run a command beside this event loop."""
    assert await anyio.to_thread.run_sync(main, arguments) == 0
