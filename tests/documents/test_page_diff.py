"""Tests of the page's diff: the author's code of two options, and the stand-ins behind them."""

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from documents.page import costs
from documents.page.differences import ARGUING, differences, pairs
from documents.page.document import document
from documents.page.html import page
from mrtr_options.__main__ import main
from mrtr_options.tool.catalogue import whole_deck
from tests.browser import Tab, tab
from tests.commands import printed

pytestmark = pytest.mark.slow

SAME_HANDLER = ("EA", "BM", "BH")
"""Pairs of options that differ only in how the server is built, and not in the handler."""


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """Make the page's data, without the runs."""
    return document([])


@pytest.fixture(scope="module")
def address(shown: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a page from this data, and return its address."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page(shown, costs.read()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[Tab]:
    with tab(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def seen(opened: Tab, address: str) -> Generator[Tab]:
    opened.complaints.clear()
    opened.resize(1400, 900)
    opened.open(f"{address}#view=method")
    yield opened
    assert opened.complaints == []


def texts(seen: Tab, selector: str) -> list[str]:
    """Return the texts of the visible elements; code in closed details is not visible."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return seen.run(f"{found}.filter((each) => each.checkVisibility()).map((e) => e.textContent)")


def compared(seen: Tab, address: str, pair: str) -> None:
    seen.open(f"{address}#view=diff&left={pair[0]}&right={pair[1]}")


def test_the_tab_opens_on_e_and_f_with_the_lines_that_build_their_servers(seen: Tab) -> None:
    seen.click("nav [data-view=diff]")
    assert texts(seen, "h1") == [
        "MRTR-native (E) to once (F): 6 changed lines of what the author writes"
    ]
    assert texts(seen, "nav [aria-current]") == ["Diff"]
    assert texts(seen, ".pairs [aria-current] b") == ["MRTR-native (E), once (F)"]
    assert texts(seen, ".beside tr:last-child code") == [
        'server = build_server("weather-e", call_weather)',
        'server = build_server("weather-f", call_weather)',
    ]


def test_each_pair_that_is_offered_shows_what_the_command_counts(
    seen: Tab, address: str, shown: dict[str, Any]
) -> None:
    compared(seen, address, "EF")
    assert len(texts(seen, ".pairs b")) == len(ARGUING)
    for left, right in ARGUING:
        names = [shown["options"][letter]["title"] for letter in (left, right)]
        seen.click(f"[data-key=pair-{left}{right}]")
        seen.wait(f"document.querySelector('h1').textContent.startsWith('{' to '.join(names)}')")
        counted = json.loads(printed(main, "diff", left, right, "--json"))["changed_lines"]
        assert texts(seen, "h1") == [
            f"{' to '.join(names)}: {counted} changed lines of what the author writes"
        ]
        assert texts(seen, ".pairs [aria-current] b") == [", ".join(names)]


@pytest.mark.parametrize("pair", SAME_HANDLER)
def test_where_the_handler_is_the_same_the_stand_ins_are_open_below_it(
    seen: Tab, address: str, pair: str, shown: dict[str, Any]
) -> None:
    compared(seen, address, pair)
    changed = [text for text in texts(seen, ".beside .removed, .beside .added") if text]
    assert any("build_server(" in text for text in changed)
    behind = json.loads(printed(main, "diff", *pair, "--json"))["sdk"]
    for letter, side in zip(pair, ("left", "right"), strict=True):
        files = [name for name in behind[side].split(", ") if name]
        assert texts(seen, f"[data-standins={letter}] summary a") == files
        code = [text for name in files for _, text in shown["sdk"][name]]
        assert texts(seen, f"[data-standins={letter}] code") == code


def test_elsewhere_the_stand_ins_are_closed_until_they_are_clicked(seen: Tab, address: str) -> None:
    compared(seen, address, "EF")
    assert texts(seen, "[data-standins=E] h2") == [
        "MRTR-native (E): nothing besides what the other one has"
    ]
    assert texts(seen, "[data-standins=F] summary a") == ["sdk/once.py"]
    assert texts(seen, "[data-standins] code") == []
    place = "document.querySelector('[data-standins=F] summary')"
    seen.run(f"{place}.focus()")
    seen.press("Enter")
    assert any(text.startswith("class Markers") for text in texts(seen, "[data-standins] code"))


@pytest.mark.parametrize("pair", ["EF", *SAME_HANDLER])
@pytest.mark.parametrize("width", [390, 900, 1400])
def test_no_diff_is_wider_than_the_screen(seen: Tab, address: str, pair: str, width: int) -> None:
    seen.resize(width, 900)
    compared(seen, address, pair)
    assert not seen.run("document.documentElement.scrollWidth > innerWidth")


def test_an_option_that_joins_the_deck_is_compared_with_every_other(tmp_path: Path) -> None:
    deck = whole_deck()
    path = tmp_path / "option_n_yours.py"
    path.write_text(deck["F"].source.replace("weather-f", "weather-n"), encoding="utf-8")
    deck["N"] = replace(deck["F"], letter="N", name="yours", path=path)
    diffs = differences(deck)["diffs"]
    assert {pair for pair in diffs if "N" in pair} == {
        both for letter in deck for both in (f"{letter}N", f"N{letter}")
    }
    assert diffs["FN"]["changed_lines"] == 0
    assert diffs["EN"] == diffs["EF"]


def test_a_pair_without_its_option_is_left_out() -> None:
    deck = whole_deck()
    del deck["J"]
    assert [(each["left"], each["right"]) for each in pairs(deck)] == [
        pair for pair in ARGUING if "J" not in pair
    ]


def test_a_file_of_a_stand_in_has_the_lines_of_code_that_it_has_on_disk(
    shown: dict[str, Any],
) -> None:
    root = Path(main.__code__.co_filename).parent
    for name, lines in shown["sdk"].items():
        source = (root / name).read_text(encoding="utf-8").splitlines()
        assert lines
        for number, text in lines:
            assert source[number - 1].startswith(text)
