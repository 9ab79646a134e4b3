"""The specification allows what the options do, and nothing that a broken one does."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

import anyio
import pytest
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR

from mrtr_options.review.bench.attacks import edited
from mrtr_options.review.bench.faults import Era
from mrtr_options.review.bench.history import (
    HUNG,
    Effect,
    Event,
    History,
    Received,
    Reply,
    Request,
    Sent,
)
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import (
    FIRST,
    PLACE,
    UNITS,
    Accept,
    Caller,
    Nothing,
    Scenario,
    Send,
    Setup,
    Step,
    Wait,
    WholeCall,
    calling,
)
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.check.cases import at_random, elsewhere, systematic
from mrtr_options.review.check.report import Report
from mrtr_options.review.judge import anomalies
from mrtr_options.review.judge.contract import RULES, violations
from mrtr_options.review.judge.contract.kinds import Ends, Refused, ToolError, in_words
from mrtr_options.review.judge.properties import Problem
from mrtr_options.review.show.report import broken as broken_lines
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, all_options, option_at, option_named
from tests.evidence import every

DRAWN = 40
"""How many drawn cases an option is put through besides, always the same."""

ON_AN_ENGINE = {"cold-answers", "forks", "refusals", "one-goes-wrong-2", "again-1", "legacy"}
"""The cases of `make test` for an option on a durable engine, where a case takes ten times as long:
an answer to nothing, a state used twice, every way to say no, two instances, a duplicate, an old
client.
"""


@pytest.mark.slow
@pytest.mark.parametrize("option", all_options().values(), ids=all_options())
def test_an_option_does_what_the_contract_allows(option: Option) -> None:
    cases = [case for case in systematic() if case.name != "crowd"]  # thousands of calls
    if option.extra is not None:
        cases = [case for case in cases if case.name in ON_AN_ENGINE]
    _hold(option, cases)


@pytest.mark.slow
@pytest.mark.parametrize("option", every("every case of the contract, by option", all_options()))
def test_an_option_does_what_the_contract_allows_in_every_case(option: Option) -> None:
    _hold(option, [*systematic(), *islice(at_random(0), DRAWN)])


@pytest.mark.parametrize(
    "script",
    [
        (FIRST, PLACE, Send("place", asks=False)),
        (FIRST, PLACE, UNITS, Wait(540), PLACE, Wait(540), UNITS),
        (FIRST, PLACE, UNITS, Wait(540), Send("units", Nothing()), Wait(540), UNITS),
    ],
    ids=["repeated to a client that cannot be asked", "repeated late", "asked again late"],
)
def test_the_guard_does_what_the_contract_allows_where_it_once_did_not(
    script: tuple[Step, ...],
) -> None:
    history = anyio.run(
        run, subject_named("F+single-use"), replace(calling(fleet="one"), script=script)
    )
    assert violations(history) == []


def test_a_state_that_is_refused_too_early_is_told_once() -> None:
    script = (FIRST, PLACE, Send("units", fault="fail@bill"), UNITS, UNITS)
    scenario = replace(calling(fleet="one"), script=script)
    history = anyio.run(run, subject_named("H"), scenario)
    *before, last = history.events
    assert isinstance(last, Received)
    refused = replace(last, reply=Reply(code=-32602, message="This call is not waiting here."))
    found = violations(replace(history, events=(*before, refused)))
    assert found
    assert "duplicates-get-one-response" not in {each.property for each in found}


def _hold(option: Option, cases: list[Scenario]) -> None:
    departs = set(option.guarantees.departs if option.guarantees else ()) & {*RULES}
    found = anyio.run(_found, option, cases)
    assert [each for each in found if each.property not in departs] == []
    assert {each.property for each in found} == departs


async def _found(option: Option, cases: list[Scenario]) -> list[Problem]:
    subject = Subject(option)
    found: list[Problem] = []
    async with in_memory([subject]) as here:
        if (
            option.extra is None
        ):  # a durable option finds its calls in the database that its runs share
            other = elsewhere(await run(subject, named("clean-springfield").on_one(), here))
            assert other is not None
            cases = [*cases, other]
        for case in cases:
            found += violations(await run(subject, case, here))
    return found


CASES = {case.name: case for case in reversed(systematic())}  # of two, the modern one


@cache
def played(slug: str, era: Era = "modern") -> History:
    """E's history of a case or a schedule, which keeps the contract."""
    case = CASES.get(slug) or named(slug, era).on_one()
    history = anyio.run(run, Subject(option_named("E")), case)
    assert violations(history) == []
    return history


Change = Callable[[Event], list[Event]]
"""What is in place of an event."""


def changed(history: History, *changes: Change) -> History:
    for change in changes:
        events = tuple(new for event in history.events for new in change(event))
        history = replace(history, events=events)
    return history


def of_exchange(exchange: int, kind: type[Any], part: str, make: Callable[[Any], Any]) -> Change:
    def change(event: Event) -> list[Event]:
        if isinstance(event, kind) and getattr(event, "exchange", None) == exchange:
            return [replace(event, **{part: make(getattr(event, part))})]
        return [event]

    return change


def replies(exchange: int, **fields: Any) -> Change:
    """The response to one request has other fields."""
    return of_exchange(exchange, Received, "reply", lambda reply: replace(reply, **fields))


def with_request(exchange: int, **fields: Any) -> Change:
    """One request was another, and its response is what it was."""
    return of_exchange(exchange, Sent, "request", lambda request: replace(request, **fields))


def spelled(before: str, behind: str) -> Change:
    """The state of the last request is written in another way."""

    def make(request: Request) -> Request:
        return replace(request, state=f"{before}{request.state}{behind}", forged="spelled")

    return of_exchange(3, Sent, "request", make)


def effects(which: str, times: int = 1, /, **fields: Any) -> Change:
    """Each effect of a kind happens as often as this, perhaps as another one."""

    def change(event: Event) -> list[Event]:
        if not isinstance(event, Effect) or event.effect.kind != which:
            return [event]
        return [replace(event, effect=replace(event.effect, **fields))] * times

    return change


def until(exchange: int, history: History) -> History:
    (end,) = (place for place, event in enumerate(history.events) if _is_reply_to(event, exchange))
    return replace(history, events=history.events[: end + 1])


def with_habit(history: History, habit: Callable[[Request, Reply], Reply]) -> History:
    """The same of a server with a habit: it makes another response of each."""
    requests = {
        event.exchange: event.request for event in history.events if isinstance(event, Sent)
    }

    def change(event: Event) -> list[Event]:
        if isinstance(event, Received):
            return [replace(event, reply=habit(requests[event.exchange], event.reply))]
        return [event]

    return changed(history, change)


def without_effects(event: Event) -> list[Event]:
    return [] if isinstance(event, Effect) else [event]


def audit_after_the_bill(event: Event) -> list[Event]:
    if isinstance(event, Effect):
        audit = replace(event, effect=weather.Effect("audit", "Springfield"))
        return [event, audit] if event.effect.kind == "bill" else []
    return [event]


def without_bounds(event: Event) -> list[Event]:
    """The listing, as of SDKs that make the schema from a function."""
    if isinstance(event, Received) and event.reply.tools:
        tool = event.reply.tools["weather"]
        schema = {key: tool["inputSchema"][key] for key in ("type", "properties", "required")}
        tools = {"weather": {**tool, "inputSchema": schema}}
        return [replace(event, reply=replace(event.reply, tools=tools))]
    return [event]


def bill_at_the_end(event: Event) -> list[Event]:
    """Nothing happens but for one bill once all is over."""
    if isinstance(event, Effect):
        return []
    if isinstance(event, Received) and event.reply.is_result:
        return [event, Effect(0, None, weather.Effect("bill", "Springfield, Illinois"))]
    return [event]


REFUSED: dict[str, Any] = {
    "code": -32602,
    "text": None,
    "questions": {},
    "schemas": {},
    "state": None,
}


def form(*units: str, **more: str) -> dict[str, Any]:
    units_of = {"units": {"type": "string", "enum": [*units], **more}}
    return {"units": {"type": "object", "properties": units_of, "required": ["units"]}}


OTHER_FORM = form("imperial", "metric")
OTHER_TITLE = form("metric", "imperial", title="System")
SPRINGFIELD, IN_ORDER = "clean-springfield", "questions-are-asked-in-order"
REPORT = "Springfield, Illinois: 22 °C, partly cloudy."
ILLINOIS, MISSOURI = "Springfield, Illinois", "Springfield, Missouri"
LEAKING = 'Traceback (most recent call last):\n  File "/srv/tool.py", line 7, in bill'


@pytest.mark.parametrize(
    ("slug", "change", "rule"),
    [
        (SPRINGFIELD, replies(3, text="Springfield, Illinois: 22 °C."), "the-report-is-the-pages"),
        (SPRINGFIELD, replies(3, is_error=True), "the-report-is-the-pages"),
        (SPRINGFIELD, replies(3, blocks=("text", "image")), "content-is-one-text"),
        (SPRINGFIELD, replies(2, schemas=OTHER_FORM), IN_ORDER),
        (SPRINGFIELD, replies(2, questions={"units": f"Which units for {MISSOURI}?"}), IN_ORDER),
        (SPRINGFIELD, replies(1, others={"more": "roots/list"}), IN_ORDER),
        (SPRINGFIELD, replies(1, malformed="content: field required"), "content-is-one-text"),
        (SPRINGFIELD, replies(3, text=None, nothing=HUNG), "every-request-is-answered"),
        (SPRINGFIELD, effects("bill", 0), "a-report-is-billed"),
        (SPRINGFIELD, effects("bill", 2), "bills-are-due"),
        (SPRINGFIELD, effects("bill", subject=MISSOURI), "bills-are-due"),
        (SPRINGFIELD, effects("bill", subject="Springfield"), "bills-are-due"),
        (SPRINGFIELD, effects("audit", subject="springfield"), "audit-comes-first"),
        (SPRINGFIELD, effects("audit", 2), "audit-comes-first"),
        (SPRINGFIELD, audit_after_the_bill, "audit-comes-first"),
        (SPRINGFIELD, effects("bill", kind="refund"), "no-other-effects"),
        (SPRINGFIELD, bill_at_the_end, "no-other-effects"),
        (SPRINGFIELD, with_request(1, asks=False), "asks-only-who-can-be-asked"),
        (SPRINGFIELD, with_request(1, arguments={}), "arguments-are-checked"),
        (SPRINGFIELD, with_request(3, state="made up"), "state-is-genuine"),
        (SPRINGFIELD, with_request(3, location="Portland"), "state-is-bound-to-its-call"),
        (SPRINGFIELD, with_request(3, principal="bob"), "state-is-bound-to-its-principal"),
        ("expired", replies(3, text="x", code=None), "state-expires"),
        ("expired", replies(3, text=REPORT, blocks=("text",), code=None), "state-expires"),
        ("slow-user", replies(2, **REFUSED), "state-expires"),
        ("slow-user", replies(3, **REFUSED), "state-expires"),
        ("slow-user", replies(3, text="x"), "the-report-is-the-pages"),
        ("duplicate-interim", replies(3, text="x"), "duplicates-get-one-response"),
        ("duplicate-interim", replies(3, schemas=OTHER_TITLE), IN_ORDER),
        ("decline", replies(3, text="Never mind."), "decline-ends-the-call"),
        ("cancel", replies(3, text="Never mind."), "cancel-ends-the-call"),
        ("decline", effects("audit", kind="bill", subject=ILLINOIS), "bills-are-due"),
        ("bad-answer", replies(3, message="It does not fit."), "answers-are-checked"),
        ("unknown-place", replies(1, is_error=False), "unknown-places-are-errors"),
        ("unknown-place", replies(1, text=LEAKING), "nothing-leaks"),
        ("no-elicitation-tokyo", replies(1, text="x"), "clients-that-cannot-be-asked"),
        ("settled-answer", replies(3, text="x"), "settled-answers-stay"),
        ("fork", replies(4, text=REPORT), "another-answer-is-not-the-first"),
        ("failed-bill", replies(3, code=None, text="x"), "failed-effects-are-not-done"),
        ("restart", replies(3, text="x"), "a-lost-call-is-no-other-call"),
        ("early-retry", replies(3, questions={}, schemas={}), "missing-answers-are-asked-again"),
        ("cold-answer", replies(1, text="x"), "cold-answers-do-no-harm"),
    ],
)
def test_what_the_contract_does_not_allow_is_found(slug: str, change: Change, rule: str) -> None:
    found = violations(changed(played(slug), change))
    assert rule in {each.property for each in found}


def tool_error(words: str) -> Reply:
    return Reply(text=words, is_error=True, blocks=("text",))


def contents(request: Request) -> list[Any]:
    return [getattr(answer, "content", None) for answer in (request.answers or {}).values()]


def errors_are_results(request: Request, reply: Reply) -> Reply:
    return reply if reply.code is None else tool_error(reply.message or "")


def refusals_are(made: Reply) -> Callable[[Request, Reply], Reply]:
    """What the user refused, or cannot be asked, ends in this."""

    def habit(request: Request, reply: Reply) -> Reply:
        return made if re.search("declined|cancelled|ambiguous", reply.text or "") else reply

    return habit


def without_a_form_no_question_is_named(request: Request, reply: Reply) -> Reply:
    return tool_error("expected an object") if reply.code and not any(contents(request)) else reply


def no_question_is_named(request: Request, reply: Reply) -> Reply:
    return tool_error("it does not fit") if reply.code and any(contents(request)) else reply


def unreadable(code: int) -> Callable[[Request, Reply], Reply]:
    """An answer that is none of the protocol's is refused before the tool sees it."""

    def habit(request: Request, reply: Reply) -> Reply:
        odd = any(
            isinstance(each, str) or None in (each or {}).values() for each in contents(request)
        )
        return Reply(code=code, message="failed to read parameters") if odd else reply

    return habit


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
        ("bad-answers", without_a_form_no_question_is_named, set[str]()),
        ("bad-answers", no_question_is_named, {"answers-are-checked"}),
        ("bad-answers", unreadable(HEADER_MISMATCH), set[str]()),
        ("bad-answers", unreadable(INTERNAL_ERROR), {"answers-are-checked"}),
    ],
)
def test_a_habit_of_an_sdk_is_no_fault_and_what_is_none_is_found(
    case: str, habit: Callable[[Request, Reply], Reply], broken: set[str]
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
IN_PORTLAND, DUE = with_request(3, location="Portland"), "bills-are-due"


@pytest.mark.parametrize(
    ("slug", "changes", "rule", "following"),
    [
        ("settled-answer", IN_MISSOURI, "settled-answers-stay", [DUE]),
        ("odd-arguments", [without_bounds], "the-tool-is-listed", []),
        (SPRINGFIELD, [IN_PORTLAND], "state-is-bound-to-its-call", ["audit-comes-first", DUE]),
        (SPRINGFIELD, [spelled("", " " * MAX_TOKEN_BYTES)], "states-are-short", [DUE]),
    ],
)
def test_what_an_sdk_decides_is_told_with_what_follows_and_turns_no_verdict(
    slug: str, changes: list[Change], rule: str, following: list[str]
) -> None:
    report = Report("server")
    report.hold(changed(played(slug), *changes))
    (departure,) = report.departures
    assert (departure.rule, report.following(departure)) == (rule, following)
    assert report.holds
    assert report.as_json()["departs"][0]["followed_by"] == following
    assert not any("breaks" in line for *_, lines in broken_lines(report) for line in lines)


def test_what_also_happens_by_itself_is_a_finding_unless_the_option_says_that_it_departs() -> None:
    own = option_named("E").guarantees
    assert own is not None
    for departs, found in ((), ["bills-are-due"]), (("bills-are-due",), []):
        report = Report("server", own.model_copy(update={"departs": departs}))
        for change in (IN_PORTLAND, effects("bill", 2)):
            report.hold(changed(played(SPRINGFIELD), change))
        assert [each.rule for each in report.findings] == found


def test_an_empty_result_in_place_of_a_question_is_one_finding() -> None:
    empty = replies(2, text="", questions={}, schemas={}, state=None)
    report = Report("server")
    report.hold(until(2, changed(played(SPRINGFIELD), empty)))
    (finding,) = report.findings
    assert finding.rule == "questions-are-asked-in-order"
    assert report.following(finding) == ["content-is-one-text"]


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
    steps = (WholeCall({"units": Accept({"units": "kelvin"})}),)
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


def _is_reply_to(event: Event, exchange: int) -> TypeGuard[Received]:
    return isinstance(event, Received) and event.exchange == exchange


def test_a_key_in_a_response_is_a_leak_that_is_told_with_its_place() -> None:
    history = changed(played("unknown-place"), replies(1, text="the key is 0123456789abcdef"))
    (found,) = violations(replace(history, secrets=frozenset({"0123456789abcdef"})))
    assert found.property == "nothing-leaks"
    assert "of a state key" in found.came
    assert "in the response: 'the key is 0123456789abcdef'" in found.came


@pytest.mark.parametrize(
    ("slug", "anomaly"), [("expired", set[str]()), ("key-lost", {"lost call"})]
)
def test_a_refusal_by_a_tool_error_shows_what_one_by_an_error_does(
    slug: str, anomaly: set[str]
) -> None:
    history = with_habit(played(slug), errors_are_results)
    assert history != played(slug)
    assert anomalies.found(history) - {"duplicate audit"} == anomaly


def test_an_alternative_is_told_once() -> None:
    told = in_words([ToolError(), Refused((-32021,)), Ends("declined", "cancelled"), Refused()])
    assert told.count("isError") == 2  # one is in the words for a decline
    assert told.endswith("error -32021 or -32602 or an isError result")
    assert in_words([Refused(naming=("units",)), Refused()]) == "error -32602 or an isError result"


@pytest.mark.parametrize(
    ("principal", "shown", "leaks"),
    [
        ("user-2", replies(3, text="66.2"), False),
        ("user-2", replies(3, text="66 for user-2"), True),
        ("Ann7", replies(2, state="9rAnn7Zq"), False),
        ("Ann7", replies(2, state="rA.Ann7.Zq"), True),
        ("Ann7", replies(2, state='{"owner": "Ann7"}'), True),
        ("None", replies(2, state='{"owner": "None"}'), False),
    ],
)
def test_part_of_a_number_or_a_word_is_no_users_name(
    principal: str, shown: Change, leaks: bool
) -> None:
    found = violations(changed(played(SPRINGFIELD), with_request(1, principal=principal), shown))
    assert ("nothing-leaks" in {each.property for each in found}) is leaks


@pytest.mark.parametrize("letter", "09abcdefA_")
def test_a_state_that_a_client_changed_is_another_one_in_hex_too(letter: str) -> None:
    changed = edited(letter * 40, "changed")
    assert (changed or "").lower() != (letter * 40).lower()


def test_structured_content_is_held_to_its_schema() -> None:
    tools = {"weather": {"outputSchema": {"type": "object", "required": ["celsius"]}}}
    history = played("clean-tokyo")
    assert {each.property for each in violations(history, tools=tools)} == {"content-is-one-text"}
    assert violations(changed(history, replies(2, structured={"celsius": 19})), tools=tools) == []
    assert (
        violations(played("decline"), tools=tools) == []
    )  # a schema of reports has no room for it


def test_a_violation_says_what_is_allowed_and_what_came() -> None:
    (found,) = violations(changed(played("clean-tokyo"), replies(2, text="19 degrees")))
    allowed, came = "the text 'Tokyo, Japan: 19 °C, clear.'", "the text '19 degrees'"
    assert found == Problem("the-report-is-the-pages", 2, allowed, came)


def test_a_reply_of_no_kind_is_put_into_words() -> None:
    history = changed(played("clean-tokyo"), replies(1, questions={}, schemas={}, state=None))
    assert violations(history)[0].came == "neither a question nor a state"
    assert Reply().is_result is False


def test_a_bill_for_a_stolen_state_follows_from_that_whoever_else_calls(tmp_path: Path) -> None:
    taker = tmp_path / "taker.py"
    source = (Path(__file__).parent / "corpus" / "hmac_json.py").read_text(encoding="utf-8")
    of_anybody = source.replace(
        "json.dumps([meta.get(PRINCIPAL), location])", "json.dumps(location)"
    )
    assert of_anybody != source
    taker.write_text(of_anybody, encoding="utf-8")
    taken, held = Subject(option_at(taker)), Report("taker.py")

    async def play() -> None:
        for case in islice(at_random(0), 30):
            held.hold(await run(taken, case))

    anyio.run(play)
    assert held.first["bills-are-due"].follows == "state-is-bound-to-its-principal"
