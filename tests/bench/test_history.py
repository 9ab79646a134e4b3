"""A history is what was done, in order; the documents' stories and tables show the rest of it."""

from __future__ import annotations

import time

import pytest

from mrtr_options.bench.driver import Moment
from mrtr_options.bench.faults import KINDS, Fault, Kind
from mrtr_options.bench.history import Crashed, Effect, Received
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import calling
from mrtr_options.bench.schedules import named
from mrtr_options.bench.subjects import Subject
from mrtr_options.tool.catalogue import option_named

pytestmark = pytest.mark.anyio

E = Subject(option_named("E"))


async def test_a_request_that_never_arrives_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drop(moment: Moment) -> None:
        moment.deliveries, moment.lost = 0, True

    kind = Kind("unsent", "the request never arrives", "unsent", "lose it", "request", before=drop)
    monkeypatch.setitem(KINDS, kind.name, kind)
    history = await run(E, calling().under((Fault(3, 1, kind.name),)))
    assert [sent.round for sent, _ in history.deliveries] == [1, 2, 4]


async def test_a_crash_comes_after_its_effect_and_before_the_lost_response() -> None:
    history = await run(E, named("crash-after-effect").on_one())
    place = next(place for place, event in enumerate(history.events) if isinstance(event, Crashed))
    before, crash, after = history.events[place - 1 : place + 2]
    assert isinstance(before, Effect)
    assert (before.effect.kind, before.instance, before.round) == ("bill", 0, 3)
    assert crash == Crashed(instance=0, round=3)
    assert isinstance(after, Received)
    assert after.reply.nothing == "lost"


async def test_time_passes_for_one_run_and_not_for_the_process() -> None:
    real = time.time
    for slug, code in (("expired", -32602), ("slow-user", None)):
        history = await run(E, named(slug).on_one())
        assert history.exchanges[-1][1].reply.code == code
    assert time.time is real
