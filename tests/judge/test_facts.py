"""Tests of what the judge reads off a history."""

from dataclasses import replace
from typing import Any

import pytest

from mrtr_options.review.bench.history import (
    Answered,
    Asked,
    Effect,
    Event,
    History,
    Received,
    Redeployed,
    Sent,
)
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.judge.facts import HistoryReading, anomalies_in
from mrtr_options.tool import weather

PLACE = "Tokyo, Japan"
UNITS = weather.which_units(PLACE)
ASKED = Asked(1, 1, "units", UNITS.message, UNITS.answer.model_json_schema())
ANSWERED = Answered(1, "units", "accept", {"units": "metric"})
BILLED = Effect(0, 1, weather.Effect("bill", PLACE))
REWORDED = Redeployed("reworded", None)
INSERTED = Redeployed("inserted", None)
REPORT = Reply(text=weather.report(PLACE, weather.UnitsAnswer(units="metric")))


@pytest.mark.parametrize(
    ("between", "takes_other_words"),
    [
        ([BILLED, REWORDED, ANSWERED], True),
        ([REWORDED, ANSWERED, BILLED], True),
        ([ANSWERED, BILLED, REWORDED], False),
    ],
    ids=["bills above the question", "bills below it", "responds after a redeploy"],
)
def test_the_version_that_took_the_last_answer_made_the_report(
    between: list[Event], takes_other_words: bool
) -> None:
    first = Sent(1, 1, 0, 1, 0, Request("Tokyo"))
    last = Sent(2, 2, 0, 1, 0, Request("Tokyo"))
    events = (first, ASKED, *between, last, Received(2, 2, 0, 1, 0, REPORT))
    history = History("N", calling("Tokyo"), "one", 1, events)
    reading = HistoryReading(history)
    assert reading.takes_other_words is takes_other_words
    assert not reading.leaves_out_a_question


@pytest.mark.parametrize("is_asked_again", [False, True])
def test_an_answer_that_went_to_a_question_which_was_not_asked_is_told_from_a_question_left_out(
    is_asked_again: bool,
) -> None:
    calls = [Sent(number, number, 0, 1, 0, Request("Tokyo")) for number in (1, 2)]
    again = (ASKED, ANSWERED) if is_asked_again else ()
    events = (calls[0], ASKED, INSERTED, ANSWERED, *again, BILLED, calls[1])
    end = Received(2, 2, 0, 1, 0, REPORT)
    reading = HistoryReading(History("N", calling("Tokyo"), "one", 1, (*events, end)))
    assert reading.takes_other_words is is_asked_again
    assert reading.leaves_out_a_question is not is_asked_again


@pytest.mark.parametrize("user", ["Ann", "Bob"])
def test_a_question_that_another_user_was_asked_is_skipped(user: str) -> None:
    first, second = Request("Tokyo", principal="Ann"), Request("Tokyo", principal=user)
    calls = [Sent(1, 1, 0, 1, 0, first), Sent(2, 2, 0, 2, 0, second)]
    ends = [Received(number, number, 0, number, 0, REPORT) for number in (2, 1)]
    events = (*calls, replace(ASKED, call=2), BILLED, *ends)
    shown = anomalies_in(History("N", calling("Tokyo"), "one", 1, events))
    assert ("question skipped" in shown) is (user == "Bob")


@pytest.mark.parametrize(
    "different", [{"structured": {"celsius": 7}}, {"schemas": {"units": {"enum": ["metric"]}}}]
)
def test_responses_that_differ_in_content_or_in_a_questions_choices_are_two(
    different: dict[str, Any],
) -> None:
    assert REPORT.same_as(replace(REPORT, state="sealed anew"))
    assert not REPORT.same_as(replace(REPORT, **different))
