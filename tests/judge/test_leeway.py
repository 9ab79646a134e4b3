"""Tests of what the contract leaves open: habits of an SDK, and ways to refuse a state."""

import re
from dataclasses import replace
from typing import Any

import anyio
import pytest
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR

from mrtr_options.review.bench.history import Received, Sent
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Caller, Scenario, Setup
from mrtr_options.review.bench.steps import WholeCall, accept
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.report import Report
from mrtr_options.review.judge.contract import violations
from mrtr_options.review.judge.contract.allowed import ROOM
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.show.verdict import describe_broken
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES
from mrtr_options.tool.catalogue import option_named
from tests.judge.altered import (
    IN_ORDER,
    MISSOURI,
    REFUSED,
    SPRINGFIELD,
    Change,
    Habit,
    changed,
    effects,
    played,
    replies,
    spelled,
    until,
    with_habit,
    with_request,
    without_bounds,
    without_effects,
)


def tool_error(words: str) -> Reply:
    return Reply(text=words, is_error=True, blocks=("text",))


def contents(request: Request) -> list[Any]:
    return [getattr(answer, "content", None) for answer in (request.answers or {}).values()]


def errors_are_results(request: Request, reply: Reply) -> Reply:
    return reply if reply.code is None else tool_error(reply.message or "")


def refusals_are(made: Reply) -> Habit:
    """Make a habit that ends a call like this when its user refuses or cannot be asked."""

    def habit(request: Request, reply: Reply) -> Reply:
        return made if re.search("declined|cancelled|ambiguous", reply.text or "") else reply

    return habit


def capabilities_come_first(request: Request, reply: Reply) -> Reply:
    """Refuse a client that cannot be asked before its arguments are looked at."""
    refused = not request.asks and reply.is_error
    return Reply(code=-32021, message="cannot ask") if refused else reply


def the_place_is_of_another_call(request: Request, reply: Reply) -> Reply:
    """Take the number of a call on another instance for that of one's own."""
    is_of_illinois = reply.text is not None and reply.text.startswith("Springfield, Illinois")
    return replace(reply, text=f"{MISSOURI}: 79 °F, sunny.") if is_of_illinois else reply


def without_a_form_no_question_is_named(request: Request, reply: Reply) -> Reply:
    return tool_error("expected an object") if reply.code and not any(contents(request)) else reply


def no_question_is_named(request: Request, reply: Reply) -> Reply:
    return tool_error("it does not fit") if reply.code and any(contents(request)) else reply


def unreadable(code: int) -> Habit:
    """Make a habit that refuses an answer outside the protocol before the tool sees it."""

    def habit(request: Request, reply: Reply) -> Reply:
        odd = any(
            isinstance(each, str) or None in (each or {}).values() for each in contents(request)
        )
        return Reply(code=code, message="failed to read parameters") if odd else reply

    return habit


def lists_nothing(request: Request, reply: Reply) -> Reply:
    refused = Reply(code=-32022, message="Unsupported protocol version")
    return refused if reply.tools else reply


@pytest.mark.parametrize(
    ("case", "habit", "broken"),
    [
        ("bad-answers", errors_are_results, set[str]()),
        ("odd-arguments", errors_are_results, set[str]()),
        ("attacks-tokyo", errors_are_results, set[str]()),
        ("attacks-springfield", errors_are_results, set[str]()),
        ("refusals", refusals_are(tool_error("no answer")), set[str]()),
        ("refusals", refusals_are(Reply(code=-32602, message="no answer")), set[str]()),
        ("refusals", refusals_are(tool_error("cancelled")), {"decline-ends-the-call"}),
        ("cannot-be-asked", refusals_are(Reply(code=-32021, message="cannot ask")), set[str]()),
        ("cannot-be-asked", capabilities_come_first, set[str]()),
        ("astray", the_place_is_of_another_call, {"a-lost-call-is-no-other-call"}),
        ("bad-answers", without_a_form_no_question_is_named, set[str]()),
        ("bad-answers", no_question_is_named, {"answers-are-checked"}),
        ("bad-answers", unreadable(HEADER_MISMATCH), set[str]()),
        ("bad-answers", unreadable(INTERNAL_ERROR), {"answers-are-checked"}),
        ("legacy", lists_nothing, set[str]()),
        ("odd-arguments", lists_nothing, {"the-tool-is-listed"}),
    ],
)
def test_a_habit_of_an_sdk_is_no_fault_and_what_is_none_is_found(
    case: str, habit: Habit, broken: set[str]
) -> None:
    history = with_habit(played(case), habit)
    assert history != played(case)
    assert {each.property for each in violations(history)} == broken


def test_more_than_was_asked_may_be_ignored_or_refused() -> None:
    more = with_request(2, arguments={"location": "Tokyo", "units": "metric"})
    ignored = changed(played("clean-tokyo"), more)
    assert violations(ignored) == []
    assert violations(changed(ignored, effects("bill", 0), replies(2, **REFUSED))) == []
    cold = changed(until(1, played("cold-answer")), replies(1, **REFUSED))
    assert {each.property for each in violations(cold)} == {"bills-are-due"}
    assert violations(changed(cold, without_effects)) == []


IN_MISSOURI = [replies(3, text=f"{MISSOURI}: 26 °C, sunny."), effects("bill", subject=MISSOURI)]
IN_PORTLAND = with_request(3, location="Portland")


@pytest.mark.parametrize(
    ("slug", "changes", "rule", "following"),
    [
        ("settled-answer", IN_MISSOURI, "settled-answers-stay", []),
        ("odd-arguments", [without_bounds], "the-tool-is-listed", []),
        (SPRINGFIELD, [IN_PORTLAND], "state-is-bound-to-its-call", ["audit-comes-first"]),
        (SPRINGFIELD, [spelled("", " " * MAX_TOKEN_BYTES)], "states-are-short", []),
    ],
)
def test_what_an_sdk_decides_is_told_with_what_follows_and_turns_no_verdict(
    slug: str, changes: list[Change], rule: str, following: list[str]
) -> None:
    report = Report("server")
    report.hold(changed(played(slug), *changes))
    (departure,) = report.departures
    assert departure.rule == rule
    assert report.following(departure) == following
    assert report.holds
    assert report.as_json()["departs"][0]["followed_by"] == following
    assert not any("breaks" in line for *_, lines in describe_broken(report) for line in lines)


def test_what_also_happens_by_itself_is_a_breach_unless_the_option_says_that_it_departs() -> None:
    own = option_named("E").guarantees
    assert own is not None
    for departs, found in ((), ["bills-are-due"]), (("bills-are-due",), []):
        report = Report("server", own.model_copy(update={"departs": departs}))
        for change in (IN_PORTLAND, effects("bill", 2)):
            report.hold(changed(played(SPRINGFIELD), change))
        assert [each.rule for each in report.breaches] == found


def test_an_empty_result_in_place_of_a_question_is_one_breach() -> None:
    empty = replies(2, text="", questions={}, schemas={}, state=None)
    report = Report("server")
    report.hold(until(2, changed(played(SPRINGFIELD), empty)))
    (breach,) = report.breaches
    assert breach.rule == "questions-are-asked-in-order"
    assert report.following(breach) == ["content-is-one-text"]


NO = {"code": None, "text": "No.", "is_error": True, "blocks": ("text",)}
ALLOWED: list[tuple[str, list[Change]]] = [
    *(
        (SPRINGFIELD, [spelled(*another_way), *then])
        for another_way in ((" ", "\n"), ("", "="), ("", "\uff1d"))
        for then in ([], [effects("bill", 0), replies(3, text=None, code=-32602)])
    ),
    *(
        (slug, [effects("bill", int(slug == "duplicate-interim")), replies(3, **refusal)])
        for slug in ("expired", "key-lost", "key-rotation", "duplicate-interim")
        for refusal in (REFUSED, REFUSED | NO)
    ),
    ("expired", [with_request(3, asks=False), replies(3, code=-32021)]),
]


@pytest.mark.parametrize(("slug", "changes"), ALLOWED)
def test_a_state_may_be_refused_by_an_error_or_a_result_or_taken_where_it_is_spelled_in_another_way(
    slug: str, changes: list[Change]
) -> None:
    assert violations(changed(played(slug), *changes)) == []


def test_a_declined_round_that_is_sent_twice_may_be_refused() -> None:
    declined = changed(played("decline"), replies(3, is_error=True))
    sent, got = [event for event in declined.events if getattr(event, "exchange", 0) == 3][:2]
    assert isinstance(sent, Sent)
    assert isinstance(got, Received)
    spent = replace(got.reply, text=None, is_error=False, blocks=(), code=-32602)
    again = (replace(sent, exchange=4), replace(got, exchange=4, reply=spent))
    assert violations(replace(declined, events=(*declined.events, *again))) == []


def test_an_old_client_whose_answer_does_not_fit_may_get_any_error() -> None:
    steps = (WholeCall({"units": accept({"units": "kelvin"})}),)
    case = Scenario("legacy", "", Setup(era="legacy"), (Caller("Tokyo"),), script=steps)
    refused = anyio.run(run, Subject(option_named("B")), case)
    assert violations(refused) == []
    (got,) = (each for each in refused.events if isinstance(each, Received))
    failed = replies(
        got.exchange, code=-32603, message="it does not fit", text=None, is_error=False
    )
    assert violations(changed(refused, failed)) == []
    assert violations(
        changed(refused, replies(got.exchange, text="Tokyo.", is_error=False, code=None))
    )


def test_an_old_client_that_cannot_be_asked_may_get_any_error() -> None:
    history = played("no-elicitation-springfield", "legacy")
    failed = replies(1, code=0, message="no elicitation", text=None, is_error=False, blocks=())
    assert violations(changed(history, failed)) == []


@pytest.mark.parametrize(
    ("slug", "anomaly"), [("expired", set[str]()), ("key-lost", {"call lost"})]
)
def test_a_refusal_by_a_tool_error_shows_what_one_by_an_error_does(
    slug: str, anomaly: set[str]
) -> None:
    history = with_habit(played(slug), errors_are_results)
    assert history != played(slug)
    assert anomalies_in(history) - {"logged twice"} == anomaly


@pytest.mark.parametrize(("calls", "broken"), [(ROOM - 1, {IN_ORDER}), (ROOM, set[str]())])
def test_a_call_beside_a_thousand_open_ones_may_be_refused(calls: int, broken: set[str]) -> None:
    first, *_, asked = until(1, played("clean-tokyo")).events
    assert isinstance(first, Sent)
    assert isinstance(asked, Received)
    crowd = [
        replace(event, exchange=number, sending=number)
        for number in range(2, calls + 2)
        for event in (first, asked)
    ]
    full = replace(asked, reply=Reply(code=-32000, message="too many calls"))
    history = replace(played("clean-tokyo"), events=(*crowd, first, full))
    assert {each.property for each in violations(history)} == broken
