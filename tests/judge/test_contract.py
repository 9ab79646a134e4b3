"""Tests of the contract: it allows what the options do, and finds what a broken one does."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeGuard
from unittest.mock import AsyncMock

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.review.bench.client import fetch
from mrtr_options.review.bench.history import Answered, Asked, Event, Received
from mrtr_options.review.bench.messages import HUNG, JsonObject, Reply, Request
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.steps import (
    FIRST,
    NOTHING,
    PLACE,
    UNITS,
    Send,
    Step,
    Wait,
    edit_state,
)
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.check.cases import systematic
from mrtr_options.review.check.states import elsewhere
from mrtr_options.review.judge.contract import RULES, violations
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool.catalogue import Option, all_options
from tests.evidence import every
from tests.judge.altered import (
    ILLINOIS,
    IN_ORDER,
    MISSOURI,
    REFUSED,
    REPORT,
    SPRINGFIELD,
    Change,
    a_crowd_and_two_audits_more,
    audit_after_the_bill,
    bill_at_the_end,
    changed,
    effects,
    listing,
    played,
    replies,
    with_request,
)

FEW = {"cold-answers", "forks", "refusals", "one-goes-wrong-2", "again-1", "legacy"}
"""The cases of `make test`: an answer without a question, a state used twice, every refusal, two
instances, a duplicate, and an old client.
"""

DEPARTS = {"H": {"state-expires"}}
"""The rules that an option departs from in its whole review, besides those that it says itself.

H ends a call whose bill has failed, so its state is refused though it is not old.
"""


@pytest.mark.slow
@pytest.mark.parametrize("option", all_options().values(), ids=all_options())
def test_an_option_does_what_the_contract_allows(option: Option) -> None:
    _hold(option, [case for case in systematic() if case.name in FEW])


@pytest.mark.slow
@pytest.mark.parametrize(
    "letter", every("the whole review, by option", {each: each for each in all_options()})
)
def test_an_option_keeps_the_contract_and_its_own_guarantees(
    letter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", letter, "--json"]) == 0
    departs = json.loads(capsys.readouterr().out)["departs"]
    assert {each["rule"] for each in departs} == DEPARTS.get(letter, set())


@pytest.mark.slow
def test_a_task_whose_question_outlives_its_time_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "K", "--json", "--only", "task-expired"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["broken"] == []
    assert report["nearest"] is None


@pytest.mark.slow
def test_an_effect_of_a_task_that_its_client_does_not_look_at_is_of_no_later_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = "    await anyio.sleep(0.3 if location == 'Portland' else 0)\n"
    source = all_options()["K"].source.replace("    # Recorded,", f"{late}    # Recorded,")
    file = tmp_path / "slow_task.py"
    file.write_text(f"{source}\nimport anyio\n", encoding="utf-8")
    assert main(["check", str(file), "--json", "--only", "declares-tasks,near-keys"]) == 0
    assert json.loads(capsys.readouterr().out)["hands_out_tasks"]


@pytest.mark.parametrize(
    "script",
    [
        (FIRST, PLACE, Send("place", asks=False)),
        (FIRST, PLACE, UNITS, Wait(540), PLACE, Wait(540), UNITS),
        (FIRST, PLACE, UNITS, Wait(540), Send("units", NOTHING), Wait(540), UNITS),
    ],
    ids=["repeated to a client that cannot be asked", "repeated late", "asked again late"],
)
def test_guard_keeps_contract(
    script: tuple[Step, ...],
) -> None:
    history = anyio.run(run, subject_named("F+guard"), replace(calling(fleet="one"), script=script))
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
    found = anyio.run(_problems_in, option, cases)
    assert [each for each in found if each.property not in departs] == []
    assert {each.property for each in found} == departs


async def _problems_in(option: Option, cases: list[Scenario]) -> list[Problem]:
    subject = Subject(option)
    found: list[Problem] = []
    async with in_memory([subject]) as here:
        # An option on an engine is left out: its runs share a database, so it would find the call.
        if option.extra is None:
            other = elsewhere(await run(subject, named("clean-springfield").on_one(), here))
            assert other is not None
            cases = [*cases, other]
        for case in cases:
            found += violations(await run(subject, case, here))
    return found


def form(*units: str, **more: str) -> dict[str, Any]:
    units_of = {"units": {"type": "string", "enum": [*units], **more}}
    return {"units": {"type": "object", "properties": units_of, "required": ["units"]}}


OTHER_FORM = form("imperial", "metric")
NUMBERS = {"required": 5, "properties": {"units": {"enum": 5}}}
ANY_LOCATION = {"weather": {"inputSchema": {"properties": {"location": True}}}}
OTHER_TITLE = form("metric", "imperial", title="System")


TRACES = (
    'Traceback (most recent call last):\n  File "/srv/tool.py", line 7, in bill',
    "Error: no\n    at async bill (file:///srv/tool.mjs:7:9)",
    "Error: no\n    at Module.load (node:internal/modules/cjs/loader:1105:14)",
    "java.io.IOException: no\n\tat org.example.Tool.bill(Tool.java:7)",
    "System.Exception: no\n   at Tool.Bill(String place) in /srv/Tool.cs:line 7",
    "panic: no\n\ngoroutine 7 [running]:\nmain.bill()",
    "thread 'main' panicked at src/main.rs:7:5\nstack backtrace:\n   0: bill",
    "/srv/tool.rb:7:in `bill': no (IOError)",
    "PHP Fatal error: no\n#0 /srv/tool.php(7): bill()",
)


@pytest.mark.parametrize(
    ("slug", "change", "rule"),
    [
        (SPRINGFIELD, replies(3, text="Springfield, Illinois: 22 °C."), "the-report-is-the-pages"),
        (SPRINGFIELD, replies(3, is_error=True), "the-report-is-the-pages"),
        (SPRINGFIELD, replies(3, blocks=("text", "image")), "content-is-one-text"),
        (SPRINGFIELD, replies(2, schemas=OTHER_FORM), IN_ORDER),
        (SPRINGFIELD, replies(2, schemas={"units": {"properties": {"units": True}}}), IN_ORDER),
        (SPRINGFIELD, replies(2, schemas={"units": NUMBERS}), IN_ORDER),
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
        ("clean-tokyo", a_crowd_and_two_audits_more, "audit-comes-first"),
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
        *(("unknown-place", replies(1, text=trace), "nothing-leaks") for trace in TRACES),
        (SPRINGFIELD, replies(2, state='{"sky": "partly cloudy"}'), "nothing-leaks"),
        ("odd-arguments", listing(tools={}), "the-tool-is-listed"),
        ("odd-arguments", listing(tools=ANY_LOCATION), "the-tool-is-listed"),
        ("odd-arguments", listing(nothing=HUNG), "every-request-is-answered"),
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


def test_a_key_in_a_response_is_a_leak_that_is_told_with_its_place() -> None:
    history = changed(played("unknown-place"), replies(1, text="the key is 0123456789abcdef"))
    (found,) = violations(replace(history, secrets=frozenset({"0123456789abcdef"})))
    assert found.property == "nothing-leaks"
    assert "of a state key" in found.came
    assert "in the response: 'the key is 0123456789abcdef'" in found.came


def test_the_beginning_of_a_key_is_a_leak_where_a_second_text_has_it() -> None:
    by_chance = changed(played("unknown-place"), replies(1, text="01234567 is no place"))
    again = changed(by_chance, replies(1, texts=("the log of 01234567",)))
    secrets = frozenset({"0123456789abcdef"})
    assert violations(replace(by_chance, secrets=secrets)) == []
    (found,) = violations(replace(again, secrets=secrets))
    assert found.property == "nothing-leaks"
    assert "the beginning of one" in found.came


def test_a_question_that_is_pushed_to_a_client_that_cannot_be_asked_is_found() -> None:
    asked = anyio.run(run, subject_named("B"), named("clean-tokyo", "legacy").on_one())

    def not_declared(event: Event) -> list[Event]:
        if isinstance(event, Asked):
            return [replace(event, declared=False)]
        return [] if isinstance(event, Answered) else [event]

    refused = changed(asked, not_declared, replies(1, **REFUSED), effects("bill", 0))
    (found,) = violations(refused)
    assert found.property == "asks-only-who-can-be-asked"


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
    changed = edit_state(letter * 40, "changed")
    assert (changed or "").lower() != (letter * 40).lower()


def is_result(event: Event) -> TypeGuard[Received]:
    return isinstance(event, Received) and event.reply.is_result


def test_structured_content_is_held_to_its_schema() -> None:
    tools = {"weather": {"outputSchema": {"type": "object", "required": ["celsius"]}}}
    history = played("clean-tokyo")
    assert {each.property for each in violations(history, tools=tools)} == {"content-is-one-text"}
    assert violations(changed(history, replies(2, structured={"celsius": 19})), tools=tools) == []
    # A declined call may have no structured content, since the schema is one of reports.
    declined = played("decline")
    assert violations(declined, tools=tools) == []
    (last,) = [each.exchange for each in declined.events if is_result(each)]
    misfit = changed(declined, replies(last, structured={"place": "none"}))
    assert {each.property for each in violations(misfit, tools=tools)} == {"content-is-one-text"}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("#", "its schema refers to itself without end"),
        ("#/$defs/none", "its schema refers to what is not in it: /$defs/none"),
        ("file:///etc/hostname", "its schema refers to what is not in it: file:///etc/hostname"),
    ],
)
def test_a_schema_that_cannot_be_followed_is_told_and_nothing_is_fetched_for_it(
    reference: str, says: str
) -> None:
    history = changed(played("clean-tokyo"), replies(2, structured={"celsius": 19}))
    (found,) = violations(history, tools={"weather": {"outputSchema": {"$ref": reference}}})
    assert (found.property, found.came) == ("content-is-one-text", says)


def test_a_violation_says_what_is_allowed_and_what_came() -> None:
    (found,) = violations(changed(played("clean-tokyo"), replies(2, text="19 degrees")))
    allowed = "the text 'Tokyo, Japan: 19 °C, clear.'"
    came = "the text '19 degrees'"
    assert found == Problem("the-report-is-the-pages", 2, allowed, came)


def test_a_reply_of_no_kind_is_put_into_words() -> None:
    history = changed(played("clean-tokyo"), replies(1, questions={}, schemas={}, state=None))
    assert violations(history)[0].came == "neither a question nor a state"
    assert Reply().is_result is False


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"inputRequests": {}, "requestState": {"id": 1}}, "state: Input should be a valid string"),
        ({"content": [{"type": 5, "text": "x"}]}, "blocks.0: Input should be a valid string"),
        ({"taskId": "1", "status": ["working"]}, "status: Input should be a valid string"),
    ],
)
def test_a_field_of_another_type_is_not_of_the_protocol(sent: JsonObject, says: str) -> None:
    send_request = AsyncMock(return_value=SimpleNamespace(root=sent))
    session = SimpleNamespace(
        send_request=send_request, initialize_result=None, discover_result=None
    )
    client: Any = SimpleNamespace(session=session)
    assert anyio.run(fetch, client, Request("Tokyo")).malformed == says
