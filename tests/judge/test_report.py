"""Tests of a report apart from its breaches, and of what docs/CONTRACT.md promises about it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock, MagicMock, Mock

import anyio
import pytest

from mrtr_options.review.bench.deployments.children import START_SECONDS, CannotStart
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import HUNG
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.check import targets
from mrtr_options.review.check.breaches import GIVE_UP
from mrtr_options.review.check.compared import measured_of_ours
from mrtr_options.review.check.plan import Extent, Pace, Plan, Proposal
from mrtr_options.review.check.report import Report
from mrtr_options.review.check.review import NOBODY, Review
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge.guarantees import judge_history
from mrtr_options.review.show.verdict import describe_broken, describe_judging, show
from mrtr_options.tool.catalogue import option_named
from mrtr_options.tool.notation import option_and_words
from mrtr_options.tool.sizes import size_of
from tests.judge.altered import changed, played, replies, without_effects

CONTRACT = Path(__file__).parents[2] / "docs" / "CONTRACT.md"


def test_broken_names_what_turns_the_verdict() -> None:
    report = Report("a file")
    report.hold(changed(played("clean-tokyo"), without_effects))
    told = report.as_json()
    assert told["holds"] is False
    assert told["broken"] == ["a-report-is-billed"]


def test_a_guarantee_of_its_own_that_a_run_breaks_turns_the_verdict() -> None:
    own = option_named("E").guarantees
    assert own is not None
    once = own.model_copy(update={"modern_springfield": "1/1"})
    for declared, broken in (own, []), (once, ["modern-clean-springfield-counts"]):
        seen = judge_history(played("clean-springfield"), declared)
        report = Report("a file", declared, observations=[seen])
        assert report.as_json()["broken"] == broken
        assert report.holds == (not broken)
        told = [line for *_, lines in describe_broken(report) for line in lines]
        assert any("audit/bill is '3/1', not '1/1'" in line for line in told) == bool(broken)


def test_a_guarantee_that_several_runs_break_has_one_heading() -> None:
    own = option_named("E").guarantees
    assert own is not None
    wrong = own.model_copy(update={"modern_springfield": "1/1", "readable": False})
    seen = judge_history(played("clean-springfield"), wrong)
    report = Report("a file", wrong, observations=[seen, replace(seen, deployment="two")])
    told = [(heading.split()[1], len(lines)) for heading, _, lines in describe_broken(report)]
    assert told == [("modern-clean-springfield-counts:", 2), ("state-sealed:", 2)]


def test_a_report_names_the_runs_with_a_state_and_no_question() -> None:
    state_only = replies(1, questions={}, schemas={}, later=True)
    report = Report("a file")
    report.hold(changed(played("clean-tokyo"), state_only))
    assert report.as_json()["state_only"]["where_nothing_goes_wrong"] == ["clean-tokyo"]
    (line,) = [line for line in describe_judging(report) if "a state without a question" in line]
    assert "though nothing goes wrong, in 1 run: clean-tokyo" in line


def test_a_comparison_has_a_row_for_each_client_and_says_what_was_not_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ways = [anyio.run(measured_of_ours, subject_named(name)) for name in ("H", "I", "default")]
    show(Report("a file", compared=ways), everything=False, as_json=False)
    rows = [re.split(" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    told = {first: rest for first, *rest in rows}
    not_told, twice, once = "charged once, not told", "charged twice", "charged once and told"
    assert told["stops"] == [not_told, not_told, not_told]
    assert told["calls again"] == [twice, twice, once]
    assert told["guarded and named"] == [once, "not tried", once]
    assert told["resends"] == [once, twice, once]
    assert told["redeploy within a call"] == ["call lost", "asked twice", "goes on"]
    assert any("the default" in row[-1] for row in rows), "README's, with what asks old clients"
    sizes = [size_of(*option_and_words(name)) for name in ("H", "I", "default")]
    assert told["lines of the author"] == [str(size.author) for size in sizes]
    assert told["lines of the SDK"] == [f"{size.own:,}" for size in sizes]


def test_a_file_that_does_not_come_up_again_is_not_said_to_keep_the_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def goes_on(begun: Review, before: Sequence[Scenario] = ()) -> None:
        begun.report.runs = 155
        raise CannotStart("my_server.py does not load")

    monkeypatch.setattr(targets, "_servers", MagicMock())
    monkeypatch.setattr(targets, "check_first_call", AsyncMock())
    monkeypatch.setattr(Review, "make_plan", goes_on)
    with pytest.raises(targets.CannotJudge, match="does not load"):
        anyio.run(targets.check_file, CONTRACT, targets.Extent(only=["clean-tokyo"]))


def test_what_each_client_shows_is_told_in_the_order_of_harm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = Explored(subject_named("E"), calling(), 1)
    for name in ("logged twice", "charged twice"):
        found.take((), frozenset({name}))
    show(Report("a file", explored=found, otherwise=[found]), everything=False, as_json=False)
    rows = re.findall(
        r"^(\w+ twice) +every call +every call$", capsys.readouterr().out, re.MULTILINE
    )
    assert rows == ["charged twice", "logged twice"]


def test_runs_with_a_hang_are_counted_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = changed(played("clean-springfield"), replies(3, text=None, nothing=HUNG))

    async def run(subject: Subject, scenario: Scenario, where: object) -> History:
        return replace(hung, scenario=scenario)

    monkeypatch.setattr("mrtr_options.review.check.review.run", run)
    report = Report("a file")
    where = Mock(cannot=Mock(return_value=None))
    proposal = Proposal(subject_named("E"))
    review = Review(proposal, where, Extent(), report, NOBODY)
    anyio.run(review.make_runs, Plan((), (), (), (), (), (), Pace()))
    assert report.stopped_early
    assert report.runs == GIVE_UP


def test_the_contract_says_how_long_a_file_may_take_to_load() -> None:
    text = " ".join(CONTRACT.read_text(encoding="utf-8").split())
    assert f"A file may take {START_SECONDS:g} seconds to load." in text
