"""Tests of the rows: addresses that stay, the runs behind cells, and what changed."""

import json
from typing import Any

import pytest

from mrtr_options.review.bench.deployments.memory import Memory
from mrtr_options.review.bench.history import Reply
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.tool.catalogue import all_options
from scoreboard import rounds
from scoreboard.rounds import changes, main
from scoreboard.rows import Cell, Row, Runs
from scoreboard.servers import cells
from scoreboard.servers.peers import peers
from tests.commands import printed, refusal

COLUMNS = {
    "servers": [
        "state-rewritten",
        "state-of-another-call",
        "last-round-again-here",
        "last-round-again-there",
        "two-instances",
        "old-client",
        "exception-to-new-client",
        "exception-to-old-client",
        "must",
    ],
    "frameworks": [
        "clean",
        "first-twice",
        "last-twice",
        "at-once",
        "crash-bill",
        "added-second",
        "edited",
        "others",
    ],
    "proxies": ["gone", "reset-before", "503", "reset-after", "502", "no-response", "cut"],
}
"""The columns, written out: somebody may cite an address."""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return rounds.rows_of(rounds.read_board())


@pytest.fixture(scope="module")
def of_servers(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.id.startswith("servers/")]


@pytest.fixture(scope="module")
def runs() -> Runs:
    return rounds.runs_of(rounds.read_board())


def row(name: str, says: str = "works", **more: Any) -> Row:
    found: dict[str, Any] = {
        "id": name,
        "title": name.title(),
        "form": "",
        "version": "1.0.0",
        "date": "2026-11-28",
        "cells": {"old-client": Cell(says=says)},
    }
    return Row.model_validate(found | more)


def test_the_address_of_a_cell_stays(rows: list[Row]) -> None:
    for board, heads in rounds.HEADS.items():
        assert [*heads] == COLUMNS[board], board
    assert len({each.id for each in rows}) == len(rows)


def test_each_outcome_of_a_server_has_its_run(of_servers: list[Row], runs: Runs) -> None:
    has_none = ("not spoken", "not played", "not run", "none", "no state")
    for each in of_servers:
        for column, cell in each.cells.items():
            if cell.says not in has_none:
                assert runs[f"{each.id}/{column}"], f"{each.id}/{column}"


def test_a_run_says_what_its_cell_says(of_servers: list[Row], runs: Runs) -> None:
    for each in of_servers:
        run = "\n".join(runs.get(f"{each.id}/exception-to-old-client", []))
        says = each.cells["exception-to-old-client"].says
        assert ("the destination is down" in run) == (says == "reaches the client"), each.id
    twice = runs["servers/fastmcp/last-round-again-here"]
    assert len([line for line in twice if "effect: bill" in line]) == 2
    assert "Invalid or expired" in runs["servers/fastmcp/two-instances"][-1]
    assert "effect: bill" in "\n".join(runs["servers/fastmcp/two-instances/hardened"])


def test_a_forged_state_that_is_taken_bills_another_place(
    of_servers: list[Row], runs: Runs
) -> None:
    for each in of_servers:
        if each.cells["state-rewritten"].says == "taken":
            assert "MUST reject state" in each.cells["must"].says, each.id
            run = "\n".join(runs[f"{each.id}/state-rewritten"])
            if cells.WRITTEN not in run:  # the run is kept of before, when none was sent first
                continue
            assert "{'place': 'Springfield, Missouri'}" in run, each.id
            assert "effect: bill of 'Springfield, Illinois'" in run, each.id


def test_what_is_kept_of_cells_is_of_servers_that_are_here() -> None:
    known = peers()
    for name, kept in rounds.read_board().servers.items():
        assert kept.variants.keys() <= {each.name for each in known[name].variants}
        for found in kept.variants.values():
            assert found.cells.keys() <= cells.CELLS.keys()
            assert all(len(run.history) <= cells.LONGEST + 1 for run in found.cells.values())


@pytest.mark.anyio
async def test_a_cell_keeps_its_run_and_its_charges() -> None:
    subject = Subject(all_options()["E"])
    kept = cells.taken(await run(subject, cells.CELLS["last-round-again-here"], Memory()))
    assert kept.bills == len([line for line in kept.history if "effect: bill" in line]) == 2


def test_an_exception_is_looked_for_in_results_and_in_errors() -> None:
    text = "weather failed: the destination is down"
    assert cells.names_the_exception(Reply(text=text, is_error=True))
    assert cells.names_the_exception(Reply(code=-32603, message=text))
    assert not cells.names_the_exception(Reply(code=-32603, message="Internal error"))


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (row("a"), []),
        (row("a", "lost"), [("a", "old-client", "works", "lost")]),
        (row("a", version="1.1.0"), [("a", "version", "1.0.0", "1.1.0")]),
        (row("a", upstream="reported"), [("a", "upstream", "not reported", "reported")]),
    ],
)
def test_a_change_is_a_cell_a_version_or_what_maintainers_know(
    after: Row, found: list[tuple[str, ...]]
) -> None:
    assert changes([row("a")], [after]) == found


def test_a_row_that_is_new_or_gone_changes_all_its_cells() -> None:
    new = [each[:1] + each[2:] for each in changes([], [row("a")])]
    assert new == [("a", "", says) for says in ("1.0.0", "not reported", "works")]
    assert len(changes([row("a")], [])) == 3


def test_the_table_a_library_a_row_and_a_run_are_shown() -> None:
    assert json.loads(printed(main, "--row", "servers/neva"))["cells"]["two-instances"]["says"]
    run = printed(main, "--run", "servers/neva/two-instances")
    assert run.startswith("1. alice calls weather for 'Springfield'\n")
    screen = printed(main).splitlines()
    assert len(screen) <= 45
    assert max(map(len, screen)) <= 100
    assert {line.split()[0] for line in screen if line} >= {*peers()}
    assert "langgraph" in screen[-2]
    shown = printed(main, "go-sdk")
    assert "servers/go-sdk/two-instances: works\n" in shown
    assert "python -m scoreboard.servers --only go-sdk\n" in shown
    assert "scoreboard/reports/go-sdk.md\n" in shown
    shown = printed(main, "langgraph")
    assert "frameworks/langgraph/one-node/crash-bill: 4/2: charged twice\n" in shown
    assert "python -m scoreboard.frameworks --only langgraph\n" in shown
    assert "there is no library 'cobol'" in refusal(main, ["cobol"])
    assert "there is no row 'servers/cobol'" in refusal(main, ["--row", "servers/cobol"])
    assert "there is no library ''" in refusal(main, [""])
    assert "there is no row ''" in refusal(main, ["--row", ""])
    assert "there is no cell with a run ''" in refusal(main, ["--run", ""])
    assert "there is no commit ''" in refusal(main, ["--since", ""])
    assert "there is no commit 'cobol'" in refusal(main, ["--since", "cobol"])
