"""Tests of the rules for tasks, on the history of a task that keeps them, and on changed ones."""

from dataclasses import replace
from typing import Any

import pytest
from mcp_types import ElicitResult, InputResponses

from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Effect, Elapsed, Event, History, Received, Sent
from mrtr_options.review.bench.messages import HUNG, Method, Reply, Request
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.steps import CANCEL, DECLINE, Status, accept
from mrtr_options.review.judge.contract import violations
from mrtr_options.tool import weather
from tests.judge.altered import (
    ILLINOIS,
    MISSOURI,
    REFUSED,
    REPORT,
    Change,
    changed,
    effects,
    replies,
    with_request,
)

PLACE = weather.which_place("Springfield")
UNITS = weather.which_units(ILLINOIS)
METRIC = accept({"units": "metric"})
UNKNOWN: dict[str, Any] = REFUSED | {"status": None, "task": None}
CREATED, ASKED, ANSWERED, ASKED_LAST, ANSWERED_LAST, LOOKED = range(1, 7)
"""The numbers of the requests of `FINISHED`."""


def pair(number: int, request: Request, reply: Reply) -> list[Event]:
    where = number, number, 0, 1, 0
    return [Sent(*where, request), Received(*where, reply)]


def of_task(method: Method, answers: InputResponses | None = None) -> Request:
    return Request(method=method, task="t", takes_tasks=True, answers=answers)


def asking(name: str, question: weather.Question[Any]) -> Reply:
    schemas = {name: question.answer.model_json_schema()}
    questions = {name: question.message}
    return Reply(task="t", status="input_required", questions=questions, schemas=schemas)


def ended(status: Status, text: str | None = None) -> Reply:
    return Reply(task="t", status=status, text=text, blocks=("text",))


LOOK = of_task("tasks/get")
FINISHED = History(
    "K",
    calling("Springfield", "one"),
    "one",
    1,
    (
        *pair(1, Request("Springfield", takes_tasks=True), Reply(task="t", status="working")),
        Effect(0, 1, weather.Effect("audit", "Springfield")),
        *pair(2, LOOK, asking("place", PLACE)),
        *pair(3, of_task("tasks/update", {"place": accept({"place": ILLINOIS})}), Reply()),
        *pair(4, LOOK, asking("units", UNITS)),
        *pair(5, of_task("tasks/update", {"units": METRIC}), Reply()),
        Effect(0, 5, weather.Effect("bill", ILLINOIS)),
        *pair(6, LOOK, ended("completed", REPORT)),
    ),
)


def then(*more: tuple[Method, Reply]) -> Change:
    """Send more requests about the task when it is over."""

    def change(event: Event) -> list[Event]:
        if not isinstance(event, Received) or event.exchange != LOOKED:
            return [event]
        last = enumerate(more, start=LOOKED + 1)
        return [
            event,
            *(new for at, (method, reply) in last for new in pair(at, of_task(method), reply)),
        ]

    return change


def after_its_time(event: Event) -> list[Event]:
    """Let three hours pass before the last look."""
    is_last = isinstance(event, Sent) and event.exchange == LOOKED
    return [Elapsed(3 * 3600), event] if is_last else [event]


def answered(answer: ElicitResult) -> Change:
    return with_request(ANSWERED_LAST, answers={"units": answer})


def found(*changes: Change) -> set[str]:
    return {each.property for each in violations(changed(FINISHED, *changes))}


def of_bob(number: int) -> Change:
    return with_request(number, principal="bob")


NO_BILL = effects("bill", 0)
WORKING = replies(LOOKED, status="working", text=None)
STOPPED = with_request(ANSWERED_LAST, method="tasks/cancel", answers=None)
CANCELLED = replies(LOOKED, status="cancelled", text=None)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ([replies(CREATED, status="begun")], "content-is-one-text"),
        ([replies(ASKED, status="begun")], "content-is-one-text"),
        ([replies(ANSWERED, malformed="result: field required")], "content-is-one-text"),
        ([replies(ANSWERED, nothing=HUNG)], "every-request-is-answered"),
        ([replies(LOOKED, nothing=HUNG)], "tasks-end"),
        ([replies(ASKED, **UNKNOWN)], "tasks-end"),
        ([replies(ANSWERED_LAST, code=-32602)], "tasks-end"),
        ([replies(LOOKED, text=f"{MISSOURI}: 26 °C, sunny.")], "tasks-end"),
        ([then(("tasks/get", ended("failed")))], "tasks-end"),
        ([then(("tasks/cancel", Reply(code=-32602)))], "tasks-end"),
        ([of_bob(LOOKED)], "tasks-are-their-owners"),
        ([with_request(LOOKED, takes_tasks=False)], "tasks-are-declared"),
        (
            [replies(ASKED_LAST, questions={"units": f"Which units for {MISSOURI}?"})],
            "questions-are-asked-in-order",
        ),
        ([answered(DECLINE)], "decline-ends-the-call"),
        ([NO_BILL], "a-report-is-billed"),
        ([effects("bill", 2)], "bills-are-due"),
        ([effects("bill", subject=MISSOURI)], "bills-are-due"),
        ([answered(DECLINE), replies(LOOKED, text="It was declined.")], "bills-are-due"),
        ([effects("audit", 0)], "audit-comes-first"),
    ],
)
def test_what_the_rules_for_tasks_do_not_allow_is_found(changes: list[Change], rule: str) -> None:
    assert rule in found(*changes)


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [then(("tasks/get", ended("completed", REPORT)), ("tasks/cancel", Reply()))],
        [of_bob(LOOKED), replies(LOOKED, **UNKNOWN), NO_BILL],
        [with_request(LOOKED, takes_tasks=False), replies(LOOKED, **UNKNOWN), NO_BILL],
        [after_its_time, replies(LOOKED, **UNKNOWN), NO_BILL],
        [
            answered(accept({"units": "kelvin"})),
            replies(ANSWERED_LAST, code=-32602),
            WORKING,
            NO_BILL,
        ],
        [answered(DECLINE), replies(LOOKED, text="It was declined."), NO_BILL],
        [answered(CANCEL), replies(LOOKED, text="It was cancelled."), NO_BILL],
        [answered(DECLINE), replies(LOOKED, is_error=True), NO_BILL],
        [of_bob(ANSWERED_LAST), replies(ANSWERED_LAST, code=-32602), WORKING, NO_BILL],
        [then(("tasks/cancel", Reply(code=-32602))), of_bob(7)],
        [then(("tools/call", Reply(task="u", status="working"))), effects("bill", 2)],
        [WORKING, then(("tasks/cancel", Reply()), ("tasks/get", ended("cancelled")))],
        [STOPPED, CANCELLED],
    ],
)
def test_a_task_may_be_unknown_to_others_and_after_its_time_and_may_be_declined_or_stopped(
    changes: list[Change],
) -> None:
    assert found(*changes) == set()


def test_a_task_that_does_not_end_is_told_with_the_questions_it_waits_for() -> None:
    hangs = changed(FINISHED, replies(LOOKED, nothing=HUNG), NO_BILL)
    (waits,) = violations(hangs)
    (works,) = violations(changed(hangs, replies(ASKED_LAST, questions={}, status="working")))
    assert waits.came == "it waits for units, though the client has answered"
    assert works.came == "the task does not come to an end"


def test_a_run_that_a_fault_disturbs_is_left_to_the_options_guarantees() -> None:
    wrong = changed(FINISHED, NO_BILL)
    assert violations(wrong)
    disturbed = wrong.scenario.under(parse("lost3"))
    assert violations(replace(wrong, scenario=disturbed)) == []
