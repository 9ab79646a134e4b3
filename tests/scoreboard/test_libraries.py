"""Tests of the first table of the scoreboard, and of the files of each library."""

import pytest

from scoreboard import rounds
from scoreboard.libraries import DATA, PAGES, QUESTIONS, REPORTS, WORDS, Library, answers
from scoreboard.servers.first import OUTCOMES
from scoreboard.servers.page import Result, played
from scoreboard.servers.peers import peers

GOOD = {
    "state-rewritten": {"refused", "no state"},
    "last-round-again-here": {"once"},
    "two-instances": {"works"},
    "exception-to-old-client": {"stays inside"},
}
"""The outcomes that a library gets right, by question."""


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return played(rounds.read_board())


@pytest.fixture(scope="module")
def libraries() -> dict[str, Library]:
    return {each.name: each for each in rounds.every_library(rounds.read_board())}


def outcomes(results: list[Result], name: str, question: str, meaning: str | None) -> set[str]:
    return {
        OUTCOMES[question](found, found.cells.get(question))
        for peer, variant, found in results
        if peer.name == name and (meaning is None or meaning in variant.means)
    }


def test_every_server_has_an_answer_to_every_question() -> None:
    assert answers().keys() == peers().keys()
    assert all([*found] == [*QUESTIONS] for found in answers().values())


@pytest.mark.parametrize("question", GOOD)
def test_an_answer_agrees_with_the_runs(results: list[Result], question: str) -> None:
    for name, found in answers().items():
        says = found[question].says
        if says == "by itself":
            assert outcomes(results, name, question, "guide") <= GOOD[question], name
        if says == "offers it":
            assert outcomes(results, name, question, None) & GOOD[question], name
        is_left = WORDS[says].startswith("left to you")
        if question == "last-round-again-here" and is_left:
            assert outcomes(results, name, question, "guide") == {"twice"}, name


ASKED_BY_HAND = ("the guide is silent", "the guide was not read", "offers it")
"""The answers of libraries whose guides' code asks a client that declared nothing."""


def test_a_server_asks_a_client_that_declared_nothing_exactly_where_its_guide_does(
    results: list[Result],
) -> None:
    guides = [each for each in results if "guide" in each[1].means]
    assert [peer.name for peer, *_ in guides] == [*peers()]
    for peer, _, found in guides:
        asks = "asks-only-who-can-be-asked" in {each.rule for each in found.breaks}
        says = answers()[peer.name]["cannot-be-asked"].says
        assert asks == (says in ASKED_BY_HAND), peer.name


def test_the_files_of_each_library_are_made_from_what_is_kept() -> None:
    found = rounds.files_of_libraries(rounds.read_board())
    there = {path for folder in (PAGES, DATA) for path in folder.iterdir()}
    assert there == found.keys()
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, "stale: python -m documents --kept"


def test_a_report_is_of_a_library_and_the_board_says_that_it_is_not_sent(
    libraries: dict[str, Library],
) -> None:
    for path in REPORTS.glob("*.md"):
        assert libraries[path.stem].told == "report ready, not sent"
        assert libraries[path.stem].version in path.read_text(encoding="utf-8")
