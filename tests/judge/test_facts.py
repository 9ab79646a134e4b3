"""Tests of what the judge reads off a history."""

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
from mrtr_options.review.judge.facts import Reading
from mrtr_options.tool import weather

PLACE = "Tokyo, Japan"
UNITS = weather.which_units(PLACE)
ASKED = Asked(1, 1, "units", UNITS.message, UNITS.answer.model_json_schema())
ANSWERED = Answered(1, "units", "accept", {"units": "metric"})
BILLED = Effect(0, 1, weather.Effect("bill", PLACE))
REWORDED = Redeployed("reworded", None)
REPORT = Reply(text=weather.report(PLACE, weather.UnitsAnswer(units="metric")))


@pytest.mark.parametrize(
    ("between", "is_stale"),
    [
        ([BILLED, REWORDED, ANSWERED], True),
        ([REWORDED, ANSWERED, BILLED], True),
        ([ANSWERED, BILLED, REWORDED], False),
    ],
    ids=["bills above the question", "bills below it", "responds after a redeploy"],
)
def test_the_version_that_took_the_last_answer_made_the_report(
    between: list[Event], is_stale: bool
) -> None:
    first = Sent(1, 1, 0, 1, 0, Request("Tokyo"))
    last = Sent(2, 2, 0, 1, 0, Request("Tokyo"))
    events = (first, ASKED, *between, last, Received(2, 2, 0, 1, 0, REPORT))
    history = History("N", calling("Tokyo"), "one", 1, events)
    assert Reading(history).is_stale is is_stale
