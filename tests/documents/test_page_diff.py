"""Tests of the page's diff: the author's code of two options, and the stand-ins behind them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from documents.page.differences import ARGUING, differences, pairs
from mrtr_options.__main__ import main
from mrtr_options.tool.catalogue import whole_deck
from tests.browser import Tab
from tests.commands import printed
from tests.documents.conftest import KEPT

pytestmark = pytest.mark.slow

SAME_HANDLER = ("EA", "BM", "BH")
"""Pairs of options that differ only in how the server is built, and not in the handler."""


def compared(seen: Tab, pair: str) -> None:
    seen.open(f"{KEPT.as_uri()}#view=diff&left={pair[0]}&right={pair[1]}")


def test_the_tab_opens_on_e_and_f_with_the_lines_that_build_their_servers(seen: Tab) -> None:
    seen.show("view=method")
    seen.click("nav [data-view=diff]")
    assert seen.visible("h1") == [
        "MRTR-native (E) to once (F): 6 changed lines of what the author writes"
    ]
    assert seen.visible("nav [aria-current]") == ["Diff"]
    assert seen.visible(".pairs [aria-current] b") == ["MRTR-native (E), once (F)"]
    assert seen.visible(".beside tr:last-child code") == [
        'server = build_server("weather-e", call_weather)',
        'server = build_server("weather-f", call_weather)',
    ]


def test_each_pair_that_is_offered_shows_what_the_command_counts(
    seen: Tab, kept: dict[str, Any]
) -> None:
    compared(seen, "EF")
    assert len(seen.visible(".pairs b")) == len(ARGUING)
    for left, right in ARGUING:
        names = [kept["options"][letter]["title"] for letter in (left, right)]
        seen.click(f"[data-key=pair-{left}{right}]")
        seen.wait(f"document.querySelector('h1').textContent.startsWith('{' to '.join(names)}')")
        counted = json.loads(printed(main, "diff", left, right, "--json"))["changed_lines"]
        assert seen.visible("h1") == [
            f"{' to '.join(names)}: {counted} changed lines of what the author writes"
        ]
        assert seen.visible(".pairs [aria-current] b") == [", ".join(names)]


@pytest.mark.parametrize("pair", SAME_HANDLER)
def test_where_the_handler_is_the_same_the_stand_ins_are_open_below_it(
    seen: Tab, pair: str, kept: dict[str, Any]
) -> None:
    compared(seen, pair)
    changed = [text for text in seen.visible(".beside .removed, .beside .added") if text]
    assert any("build_server(" in text for text in changed)
    behind = json.loads(printed(main, "diff", *pair, "--json"))["sdk"]
    for letter, side in zip(pair, ("left", "right"), strict=True):
        files = [name for name in behind[side].split(", ") if name]
        assert seen.visible(f"[data-standins={letter}] summary a") == files
        code = [text for name in files for _, text in kept["sdk"][name]]
        assert seen.visible(f"[data-standins={letter}] code") == code


def test_elsewhere_the_stand_ins_are_closed_until_they_are_clicked(seen: Tab) -> None:
    compared(seen, "EF")
    assert seen.visible("[data-standins=E] h2") == [
        "MRTR-native (E): nothing besides what the other one has"
    ]
    assert seen.visible("[data-standins=F] summary a") == ["sdk/once.py"]
    assert seen.visible("[data-standins] code") == []
    place = "document.querySelector('[data-standins=F] summary')"
    seen.run(f"{place}.focus()")
    seen.press("Enter")
    assert any(text.startswith("class Markers") for text in seen.visible("[data-standins] code"))


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
    kept: dict[str, Any],
) -> None:
    root = Path(main.__code__.co_filename).parent
    for name, lines in kept["sdk"].items():
        source = (root / name).read_text(encoding="utf-8").splitlines()
        assert lines
        for number, text in lines:
            assert source[number - 1].startswith(text)
