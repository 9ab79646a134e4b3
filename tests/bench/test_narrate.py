"""Tests of the rows that tell a run: terminal, story and picture show the same rows."""

from typing import Any

import pytest

from mrtr_options.review.bench import history as happened
from mrtr_options.review.bench.client import agreeable
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


def test_a_state_that_comes_with_another_response_again_is_told() -> None:
    replies = enumerate([Reply(text="Fog.", state="s"), Reply(text="Rain.", state="s")])
    pairs = [
        (Sent(n, 1, 0, 1, 0, Request()), Received(n, 1, 0, 1, 0, reply)) for n, reply in replies
    ]
    assert (
        narrate(made_up(*pairs[0], *pairs[1]))[-1].text
        == "the text 'Rain.', with the state of 1 again"
    )


def test_a_callers_name_that_looks_like_another_one_is_quoted() -> None:
    names = "alice", "alice ", "Alice", "None"
    rows = narrate(
        made_up(*(Sent(1, 1, 0, 1, 0, Request("Tokyo", principal=name)) for name in names))
    )
    said = [row.text.partition(" calls ")[0] for row in rows]
    assert said == ["alice", "'alice '", "'Alice'", "'None'"]


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


def test_an_answer_whose_content_is_no_object_is_told_as_it_is() -> None:
    content: Any = "Springfield, Missouri"
    (row,) = narrate(made_up(happened.Answered(1, "place", "accept", content)))
    assert row.text == 'accept "Springfield, Missouri"'
    assert row.label == "answers Springfield, Missouri"
