"""A history is what was done, in order: nothing else is recorded, and nothing recorded changes."""

from __future__ import annotations

import pytest

from mrtr_options.bench.driver import Moment
from mrtr_options.bench.faults import KINDS, Fault, Kind
from mrtr_options.bench.history import (
    Answered,
    Asked,
    Crashed,
    Effect,
    Entered,
    History,
    Received,
    Sent,
)
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import calling
from mrtr_options.bench.schedules import named
from mrtr_options.bench.subjects import Subject
from mrtr_options.tool.catalogue import option_named

pytestmark = pytest.mark.anyio


async def played(slug: str, *, option: str = "E", deployment: str = "one") -> History:
    """The history of a modern client's call."""
    scenario = named(slug)
    return await run(
        Subject(option_named(option)), scenario.on_one() if deployment == "one" else scenario
    )


async def test_a_history_is_what_was_done_in_order() -> None:
    history = await played("clean-tokyo")
    assert [type(event) for event in history.events] == [
        Sent,
        Entered,
        Effect,
        Received,
        Asked,
        Answered,
        Sent,
        Entered,
        Effect,
        Effect,
        Received,
    ]
    kinds = [event.effect.kind for event in history.events if isinstance(event, Effect)]
    assert kinds == ["audit", "audit", "bill"]


async def test_two_deliveries_of_one_round_have_two_exchanges() -> None:
    history = await played("duplicate-final", deployment="two")
    first, second = history.deliveries[-2:]
    assert first[0].round == second[0].round == 3
    assert [sent.delivery for sent, _ in (first, second)] == [0, 1]
    assert first[0].exchange != second[0].exchange
    assert [sent.exchange for sent, _ in (first, second)] == [got.exchange for _, got in (first, second)]


async def test_a_request_that_never_arrives_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drop(moment: Moment) -> None:
        moment.deliveries, moment.lost = 0, True

    kind = Kind("unsent", "the request never arrives", "unsent", "lose it", "request", before=drop)
    monkeypatch.setitem(KINDS, kind.name, kind)
    history = await run(Subject(option_named("E")), calling().under((Fault(3, 1, kind.name),)))
    assert [sent.round for sent, _ in history.deliveries] == [1, 2, 4]


async def test_an_effect_says_which_instance_and_which_round_it_came_from() -> None:
    history = await played("failover", deployment="two")
    effects = [event for event in history.events if isinstance(event, Effect)]
    assert [(each.effect.kind, each.instance, each.round) for each in effects] == [
        ("audit", 0, 1),
        ("audit", 1, 2),
        ("audit", 0, 3),
        ("bill", 0, 3),
    ]


async def test_a_crash_comes_after_its_effect_and_before_the_lost_response() -> None:
    history = await played("crash-after-effect")
    place = next(place for place, event in enumerate(history.events) if isinstance(event, Crashed))
    before, crash, after = history.events[place - 1 : place + 2]
    assert isinstance(before, Effect)
    assert before.effect.kind == "bill"
    assert crash == Crashed(instance=0, round=3)
    assert isinstance(after, Received)
    assert after.reply.nothing == "lost"


async def test_time_passes_for_one_run_and_not_for_the_process() -> None:
    import time

    real = time.time
    assert [seen.reply.code for _, seen in (await played("expired")).exchanges][-1] == -32602
    assert [seen.reply.code for _, seen in (await played("slow-user")).exchanges] == [None] * 3
    assert time.time is real
