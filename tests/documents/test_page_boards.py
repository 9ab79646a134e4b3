"""Tests of the page's boards, in a browser without a network: a cell opens its run."""

import pytest

from scoreboard import rounds
from tests.browser import Tab
from tests.documents.conftest import KEPT

pytestmark = pytest.mark.slow


def show(seen: Tab, fragment: str) -> Tab:
    seen.open(f"{KEPT.as_uri()}#view=scoreboard&{fragment}")
    return seen


def test_a_cell_opens_its_run_and_its_address_does_too(seen: Tab) -> None:
    runs = rounds.runs_of(rounds.read_board())
    cell = "servers/fastmcp/two-instances"
    show(seen, "")
    seen.click(f'[id="{cell}"] a')
    assert f"cell={cell}" in seen.run("decodeURIComponent(location.hash)")
    expected = runs[cell] + runs[f"{cell}/hardened"]
    assert seen.texts("#run .scroll code") == expected
    assert show(seen, f"cell={cell}").texts("#run .scroll code") == expected
    seen.click("[data-key=close]")
    assert seen.texts("#run") == []


def test_the_page_has_a_cell_for_each_of_a_row(seen: Tab) -> None:
    rows = rounds.rows_of(rounds.read_board())
    for board in rounds.HEADS:
        show(seen, "" if board == "servers" else f"board={board}")
        ids = seen.run("[...document.querySelectorAll('td[id]')].map((each) => each.id)")
        own = [row for row in rows if row.id.startswith(f"{board}/")]
        assert ids == [f"{row.id}/{column}" for row in own for column in rounds.HEADS[board]]


def test_every_link_of_a_client_leads_to_a_run(seen: Tab) -> None:
    seen.show("view=clients")
    links = seen.run(
        "[...document.querySelectorAll('td a')].map((each) => decodeURIComponent(each.hash))"
    )
    cells = {link.partition("cell=")[2] for link in links if "cell=" in link}
    assert "clients/resuming/modern/502/F+guard" in cells
    assert cells <= {*rounds.runs_of(rounds.read_board())}
