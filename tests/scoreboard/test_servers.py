"""Tests of the servers' board: the findings, the life of a state, and the Python lowlevel server.

`make scoreboard` plays the other servers, and those in other languages.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from mrtr_options.review.bench.client import connections
from mrtr_options.review.bench.deployments.memory import Memory
from mrtr_options.review.bench.deployments.remote import Remote
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.breaches import Breach
from mrtr_options.review.check.cases import systematic
from mrtr_options.review.check.story import story
from mrtr_options.review.judge.contract import violations
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool.catalogue import Option, all_options
from mrtr_options.tool.weather import SqliteLedger
from scoreboard.board import read
from scoreboard.servers import peers as servers
from scoreboard.servers.lives import life
from scoreboard.servers.page import musts, rows
from scoreboard.servers.peers import FOLDER
from scoreboard.servers.play import Broken, Life, ServerReview, told
from tests.judge.foreign import INVALID, Error, Foreign, served
from tests.sending import over_http

KEY = "0123456789abcdef0123456789abcdef"


def test_every_row_was_reviewed_by_both_kinds_of_client() -> None:
    for peer, variant, found in rows(read()):
        if not found.cannot:
            policies = {(tried.policy, tried.fleet) for tried in found.tried}
            assert len(policies) == 4, f"{peer.name} {variant.name}"
            assert found.runs > 50, f"{peer.name} {variant.name}"


def test_a_broken_sentence_is_of_the_version_that_the_client_speaks() -> None:
    rule = "asks-only-who-can-be-asked"
    for client, source in ((", by a client of the old era", "2025-11-25: "), ("", "MRTR: ")):
        story = [f"1. alice calls weather for 'Tokyo'{client}"]
        broken = Broken(rule=rule, allowed="", came="", story=story)
        found = ServerReview(version="", date="", breaks=[broken])
        assert musts(found).startswith(f"{source}servers MUST NOT send ")


class RefusesLater(Foreign):
    """A server that takes five answers: all of two calls, and the first of a third call."""

    taken = 0

    def check_state(self, state: str, answers: dict[str, Any]) -> None:
        self.taken += 1
        if self.taken > 5:
            raise Error(INVALID, "this state is too old")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "found"),
    [(Foreign, Life(good=-1, refused=None)), (RefusesLater, Life(good=-2, refused=-1))],
)
async def test_the_life_of_a_state_is_between_the_oldest_taken_and_the_youngest_refused(
    kind: type[Foreign], found: Life, tmp_path: Path
) -> None:
    with served(kind(tmp_path / "effects.sqlite")) as url:
        SqliteLedger(tmp_path / "effects.sqlite")
        async with connections() as http:
            assert await life(url, http, (-3, -2, -1)) == found


@pytest.fixture
def lowlevel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Import the Python lowlevel server's module, with a ledger of its own."""
    monkeypatch.setenv("MRTR_LEDGER", str(tmp_path / "effects.sqlite"))
    monkeypatch.setenv("STATE_SECRET", KEY)
    monkeypatch.setattr(
        sys, "path", [str(FOLDER / "python-lowlevel"), str(servers.DOMAIN), *sys.path]
    )
    for name in ("server", "weather"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("server")
    for name in ("server", "weather"):
        monkeypatch.delitem(sys.modules, name, raising=False)


ATTACKED = next(each for each in systematic() if each.name == "attacks-tokyo")
UNASKABLE = next(each for each in systematic() if each.name == "cannot-be-asked")


@pytest.mark.anyio
@pytest.mark.parametrize("variant", ["default", "hardened"])
async def test_the_lowlevel_server_of_the_python_sdk_is_as_its_rows_say(
    variant: str, lowlevel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowlevel, "VARIANT", variant)
    kept = read().servers["python-lowlevel"].variants[variant]
    ledger = SqliteLedger(tmp_path / "effects.sqlite")
    subject = Subject(Option("?", "python-lowlevel", tmp_path))
    scenarios = [named("clean-springfield"), named("lost-final"), ATTACKED, UNASKABLE]
    async with over_http(lowlevel.build()) as url:
        where = Remote([url], ledger)
        clean, lost, attacked, unaskable = [
            await run(subject, each.on_one(), where) for each in scenarios
        ]
    assert violations(clean) == []
    assert "charged twice" in anomalies_in(lost)
    assert "lost3" in kept.tried[0].shown["charged twice"]
    broken = {each.property for each in (*violations(attacked), *violations(unaskable))}
    guide = {"state-is-genuine", "asks-only-who-can-be-asked"}
    assert broken & guide == (guide if variant == "default" else set())
    assert {each.rule for each in kept.breaks} == broken & guide


@pytest.mark.anyio
async def test_a_history_tells_what_an_old_client_was_asked() -> None:
    subject = Subject(all_options()["B"])
    eras: list[tuple[Era, int]] = [("legacy", 2), ("modern", 0)]
    for era, asked in eras:  # a modern client gets its questions in responses
        history = await run(subject, named("clean-springfield", era).on_one(), Memory())
        problem = Problem("content-is-one-text", None, "a text", "another")
        for lines in (told(history), story(Breach(history, problem))):
            questions = [line for line in lines if line.startswith("   asks: Which")]
            answers = [line for line in lines if line.startswith("   answers ")]
            assert len(questions) == asked
            assert len(answers) == asked
