"""Tests of the rows that tell a run: terminal, story and picture show the same rows."""

import pytest

from mrtr_options.demo.call import agreeable
from mrtr_options.review.bench.history import Event, History, Received, Sent
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.narrate import narrate
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import whole_call
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.show.svg import is_drawn

pytestmark = pytest.mark.anyio


def words(history: History) -> list[str]:
    """Return the lines of a picture."""
    lines: list[str] = []
    for row in filter(is_drawn, narrate(history)):
        if row.kind in ("request", "response"):
            way = f"{row.start} to {'no end' if row.end is None else row.end}"
            lines.append(f"{way}: {row.label}{' (lost)' if row.lost else ''}")
        else:
            lines.append(row.label or row.text)
    return lines


def made_up(*events: Event) -> History:
    return History("K", named("clean-tokyo").on_one(), "one", 1, events)


async def test_what_an_old_client_is_asked_goes_from_the_server_to_the_user() -> None:
    history = await run(subject_named("C"), whole_call("Tokyo", "legacy"), user=agreeable)
    assert words(history)[2:4] == ["asks: Which units for Tokyo, Japan?", "answers metric"]


def test_a_look_at_a_task_that_shows_nothing_new_is_quiet() -> None:
    working = Reply(status="working")
    done = Reply(status="completed", text="Fog.")
    asks = [Request("Tokyo", takes_tasks=True), *[Request(method="tasks/get", task="t")] * 2]
    events: list[Event] = []
    for number, (request, reply) in enumerate(zip(asks, (working, working, done), strict=True)):
        events += [Sent(number, 1, 0, 1, 0, request), Received(number, 1, 0, 1, 0, reply)]
    assert [(row.kind, row.label) for row in narrate(made_up(*events)) if not row.quiet] == [
        ("request", "weather(Tokyo)"),
        ("task", "task: working"),
        ("task", "task: completed"),
        ("response", "Fog."),
    ]
