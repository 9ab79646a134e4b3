"""Tests of the page's boards, in a browser without a network: a cell opens its run."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from documents import explored
from documents.page import costs
from documents.page.document import document
from documents.page.html import page
from documents.page.runs import tell_one, worlds_of
from scoreboard import rounds
from tests.browser import Tab, tab

pytestmark = pytest.mark.slow

BOARDS = ("servers", "frameworks", "proxies", "failures", "changes")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Tab, Path]]:
    """Open a page whose own runs are F's, with the whole scoreboard."""
    folder = tmp_path_factory.mktemp("page")
    played = worlds_of(row for row in explored.read() if row["subject"] == "F")
    data = document([tell_one(*called, row) for called, row in played.items()])
    file = folder / "index.html"
    file.write_text(page(data, costs.read()), encoding="utf-8")
    with tab(folder) as found:
        yield found, file


def show(opened: tuple[Tab, Path], fragment: str, width: int = 1400) -> Tab:
    found, file = opened
    found.complaints.clear()
    found.resize(width, 900)
    found.open("about:blank", ready="true")
    found.open(f"{file.as_uri()}#view=scoreboard&{fragment}")
    assert found.complaints == []
    return found


def texts(seen: Tab, selector: str) -> list[str]:
    every = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return seen.run(f"{every}.map((each) => each.textContent)")


def test_a_cell_opens_its_run_and_its_address_does_too(opened: tuple[Tab, Path]) -> None:
    runs = rounds.runs_of(*rounds.present())
    cell = "servers/fastmcp/two-instances"
    seen = show(opened, "")
    seen.click(f'[id="{cell}"] a')
    assert f"cell={cell}" in seen.run("decodeURIComponent(location.hash)")
    expected = runs[cell] + runs[f"{cell}/hardened"]
    assert texts(seen, "#run .scroll code") == expected
    assert texts(show(opened, f"cell={cell}"), "#run .scroll code") == expected
    seen.click("[data-key=close]")
    assert texts(seen, "#run") == []


def test_the_page_has_a_cell_for_each_of_a_row(opened: tuple[Tab, Path]) -> None:
    rows = rounds.rows_of(*rounds.present())
    for board in rounds.HEADS:
        seen = show(opened, "" if board == "servers" else f"board={board}")
        ids = seen.run("[...document.querySelectorAll('td[id]')].map((each) => each.id)")
        own = [row for row in rows if row.id.startswith(f"{board}/")]
        assert ids == [f"{row.id}/{column}" for row in own for column in rounds.HEADS[board]]


def test_a_failure_opens_its_run(opened: tuple[Tab, Path]) -> None:
    cell = "servers/neva/hardened/charged-twice"
    seen = show(opened, f"board=failures&cell={cell}")
    assert texts(seen, "#run .scroll code") == rounds.runs_of(*rounds.present())[cell]


def test_a_cell_of_a_client_opens_its_run(opened: tuple[Tab, Path]) -> None:
    found, file = opened
    found.open("about:blank", ready="true")
    found.open(f"{file.as_uri()}#view=clients")
    links = found.run(
        "[...document.querySelectorAll('td a')].map((each) => decodeURIComponent(each.hash))"
    )
    cells = [link.partition("cell=")[2] for link in links if "cell=" in link]
    runs = rounds.runs_of(*rounds.present())
    assert (
        {"clients/ai-sdk/modern/cut-final", "clients/resuming/modern/502/F+guard"}
        <= {*cells}
        <= {*runs}
    )
    cell = "clients/temporal/legacy/cut-final"
    shown = texts(show(opened, f"cell={cell}"), "#run .scroll code")
    assert shown[: len(runs[cell])] == runs[cell]


def test_the_changes_are_those_of_the_last_two_rounds(opened: tuple[Tab, Path]) -> None:
    seen = show(opened, "board=changes")
    rows = texts(seen, "[aria-label=changes] tbody th")
    last = rounds.read()[-2:]
    assert len(rows) == (len(rounds.changes(*last)) if len(last) > 1 else 0)


def test_an_unknown_cell_is_said_to_be_unknown(opened: tuple[Tab, Path]) -> None:
    seen = show(opened, "cell=servers/cobol/must")
    (said,) = texts(seen, ".unexplored")
    assert "servers/cobol/must" in said
    assert texts(seen, "#run") == []


@pytest.mark.parametrize("board", BOARDS)
def test_no_board_is_wider_than_a_telephone(board: str, opened: tuple[Tab, Path]) -> None:
    cell = "&cell=servers/fastmcp/state-rewritten" if board == "servers" else ""
    seen = show(opened, f"board={board}{cell}".replace("board=servers&", ""), width=390)
    assert not seen.run("document.documentElement.scrollWidth > innerWidth")


def test_the_name_of_a_library_opens_what_is_known_of_it(opened: tuple[Tab, Path]) -> None:
    seen = show(opened, "")
    seen.click("tbody th a[href*='neva']")
    known = rounds.runs_of(*rounds.present())["servers/neva/about"]
    assert texts(seen, "#run .scroll code") == known
