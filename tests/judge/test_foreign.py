"""The judge is fair to servers of other SDKs: their habits are no faults, and their faults are found."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from mcp_types import HEADER_MISMATCH

from mrtr_options.__main__ import main
from mrtr_options.judge import check
from mrtr_options.show.report import broken
from scoreboard.servers.domain.weather import TODAY
from tests.judge.foreign import CANNOT_ASK, INVALID, Error, Foreign, served, text

MOST = (
    "clean-tokyo",
    "clean-springfield",
    "bad-answers",
    "odd-arguments",
    "refusals",
    "cannot-be-asked",
)


def judged(
    kind: type[Foreign], folder: Path, only: Sequence[str] = MOST, faults: int = 0
) -> check.Report:
    """What `check` finds of a server."""
    ledger = folder / "ledger.sqlite"
    with served(kind(ledger)) as url:
        return anyio.run(check.check_url, [url], ledger, check.Extent(faults=faults, only=only))


def rules(report: check.Report) -> list[str]:
    """The rules that it is said to break."""
    return [each.rule for each in report.findings]


class Modern(Foreign):
    eras = ("2026-07-28",)


class Old(Foreign):
    eras = ("2025-11-25",)


class Neither(Foreign):
    eras = ()


@pytest.mark.parametrize(("kind", "spoken"), [(Modern, "modern"), (Old, "legacy")])
def test_a_server_of_one_era_is_judged_by_that_one(
    kind: type[Foreign], spoken: str, tmp_path: Path
) -> None:
    report = judged(kind, tmp_path)
    assert rules(report) == []
    assert {seen.era for seen in report.observations} == {spoken}
    assert any("the server does not speak it" in why for why in report.left_out)


def test_a_server_that_lists_its_tools_in_no_era_cannot_be_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Neither(tmp_path / "ledger.sqlite")) as url, pytest.raises(SystemExit) as stopped:
        main(["check", url, "--ledger", str(tmp_path / "ledger.sqlite")])
    assert stopped.value.code == 2
    assert "no MCP server answers" in capsys.readouterr().err


class ClosesLater(Foreign):
    """The end of a session is accepted, and not yet done."""

    closing = 202


def test_what_the_clients_library_logs_is_no_part_of_the_output(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert rules(judged(ClosesLater, tmp_path, ["clean-tokyo"])) == []
    assert caplog.messages == []


class ListsInPages(Foreign):
    """Its tool is on the second page of the list."""

    def answer(self, method: str, params: dict[str, Any], era: str) -> dict[str, Any]:
        if method == "tools/list" and "cursor" not in params and era in self.eras:
            listed = super().answer(method, params, era)
            return listed | {"tools": [], "nextCursor": "2"}
        return super().answer(method, params, era)


class SendsContent(Foreign):
    content: Sequence[str] | None = None

    def asking(self, name: str, message: str, choices: list[str], state: str) -> dict[str, Any]:
        return super().asking(name, message, choices, state) | {"content": self.content}


class SendsEmptyContent(SendsContent):
    content = ()


class SendsNonsense(Foreign):
    def reported(self, words: str) -> dict[str, Any]:
        return super().reported(words) | {"content": [words]}


class RefusesByResults(Foreign):
    """As SDKs do that make a result of each error of a tool."""

    def bad_arguments(self) -> dict[str, Any]:
        return text("validation error: location", is_error=True)

    def refused(self, action: str, name: str) -> dict[str, Any]:
        return text(f"elicitation was {action}", is_error=True)

    def unfit(self, name: str) -> dict[str, Any]:
        return text(f"validation error: {name}", is_error=True)

    def unasked(self, name: str, place: str) -> dict[str, Any]:
        return text("elicitation is not supported", is_error=True)


class RefusesByCodes(Foreign):
    """As SDKs do that make a JSON-RPC error of them."""

    def refused(self, action: str, name: str) -> dict[str, Any]:
        raise Error(INVALID, "no answer")

    def unasked(self, name: str, place: str) -> dict[str, Any]:
        raise Error(CANNOT_ASK, "elicitation is needed")


class RefusesUnasked(Foreign):
    """An answer to no question is an error."""

    def check_answers(self, params: dict[str, Any], place: str | None) -> None:
        asked = {"units"} if place or params["arguments"]["location"].strip() == "Tokyo" else {"place"}
        if set(params.get("inputResponses") or {}) - (asked if "requestState" in params else set()):
            raise Error(INVALID, "no question was asked")


class HasAnOutputSchema(Foreign):
    """The schema of its reports has no room for a decline."""

    output: ClassVar[dict[str, Any] | None] = {"type": "object", "required": ["report"]}

    def reported(self, words: str) -> dict[str, Any]:
        return super().reported(words) | {"structuredContent": {"report": words}}


class IgnoresMore(Foreign):
    """Arguments beside the location are ignored, and no schema forbids them."""

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        arguments = params.get("arguments")
        if isinstance(arguments, dict) and "location" in arguments:
            params = params | {"arguments": {"location": arguments["location"]}}
        return super().call(params, era)


class SpendsStates(Foreign):
    """Each state is good once."""

    def check_state(self, state: str, answers: dict[str, Any]) -> None:
        if (state, json.dumps(answers)) in self.spent:
            raise Error(INVALID, "this state is spent")

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        found = super().call(params, era)
        if "requestState" in params and not found.get("isError"):
            self.spent.add((params["requestState"], json.dumps(params.get("inputResponses") or {})))
        return found


class RefusesStatesByResults(Foreign):
    """Whatever a tool raises is a result, be it a state that it does not take."""

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        try:
            return super().call(params, era)
        except Error as error:
            if "state" not in str(error):
                raise
            return text(str(error), is_error=True)


class TakesSpaceAroundStates(Foreign):
    """White space around a state says nothing, however much it is."""

    def unseal(self, state: str, location: str) -> str | None:
        return super().unseal(state.strip(), location)


class ReadsAnswersFirst(Foreign):
    """An SDK whose types an answer does not fit refuses the request before the tool sees it."""

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = params.get("inputResponses") or {}
        forms = [each.get("content") for each in answers.values()]
        if not all(form is None or isinstance(form, dict) for form in forms):
            raise Error(HEADER_MISMATCH, "failed to extract name from parameters")
        return super().call(params, era)


class NamesProperties(RefusesByResults):
    """What is wrong with a form names its property; where there is no form, there is none to name."""

    def unfit(self, name: str) -> dict[str, Any]:
        return text(f"invalid: {name}" if self.has_content else "expected an object", is_error=True)

    def check_answers(self, params: dict[str, Any], place: str | None) -> None:
        answers: dict[str, dict[str, Any]] = params.get("inputResponses") or {}
        self.has_content = any(each.get("content") for each in answers.values())


class RefusesOldClients(Foreign):
    """The SDK's error for an old client that cannot be asked has no code of the protocol."""

    def unasked(self, name: str, place: str) -> dict[str, Any]:
        raise Error(0, f"fulfilling {name}: the client does not support elicitation")


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        (Foreign, MOST),
        (ListsInPages, ("odd-arguments",)),
        (SendsContent, ("clean-springfield", "bad-answers")),
        (SendsEmptyContent, ("clean-springfield", "bad-answers")),
        (RefusesStatesByResults, ("attacks-tokyo", "attacks-springfield")),
        (ReadsAnswersFirst, ("bad-answers",)),
        (NamesProperties, ("bad-answers",)),
        (RefusesOldClients, ("legacy",)),
        (RefusesByResults, MOST),
        (RefusesByCodes, ("refusals", "cannot-be-asked")),
        (RefusesUnasked, ("cold-answers",)),
        (HasAnOutputSchema, ("refusals", "odd-arguments")),
        (IgnoresMore, ("odd-arguments",)),
        (SpendsStates, ("refusals", "bad-answers", "again-1", "forks")),
    ],
)
def test_a_habit_of_an_sdk_is_no_fault(
    kind: type[Foreign], cases: Sequence[str], tmp_path: Path
) -> None:
    report = judged(kind, tmp_path, cases)
    assert rules(report) == []
    assert "the-tool-is-listed" not in {each.rule for each in report.departures}


class BillsWhenDeclined(RefusesByResults):
    def refused(self, action: str, name: str) -> dict[str, Any]:
        self.effect("bill", "Tokyo, Japan")
        return super().refused(action, name)


class BillsBadArguments(RefusesByResults):
    def bad_arguments(self) -> dict[str, Any]:
        self.effect("audit", "x")
        return super().bad_arguments()


class NamesNoQuestion(RefusesByResults):
    def unfit(self, name: str) -> dict[str, Any]:
        return text("validation error", is_error=True)


class BillsBeforeStates(RefusesStatesByResults):
    def unseal(self, state: str, location: str) -> str | None:
        self.effect("bill", "Springfield, Illinois")
        return super().unseal(state, location)


class FailsOnAnswers(ReadsAnswersFirst):
    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        try:
            return super().call(params, era)
        except Error as error:
            raise Error(-32603 if error.code == HEADER_MISMATCH else error.code, str(error)) from None


class TakesAnyState(Foreign):
    def unseal(self, state: str, location: str) -> str | None:
        try:
            return super().unseal(state, location)
        except (Error, ValueError):
            return None


class ComparesTexts(Foreign):
    """A state is JSON with spaces, and one without is refused. A number stands for the place."""

    def seal(self, location: str, place: str | None) -> str:
        return json.dumps([location, None if place is None else list(TODAY).index(place)])

    def unseal(self, state: str, location: str) -> str | None:
        try:
            at: int | None = json.loads(state)[1]
            place = None if at is None else list(TODAY)[at]
        except (ValueError, TypeError, LookupError):
            place = None
        if self.seal(location, place) != state:
            raise Error(INVALID, "not a state of this server")
        return place


@pytest.mark.parametrize(
    ("kind", "case", "rule"),
    [
        (ComparesTexts, "attacks-springfield", "state-is-genuine"),
        (SendsNonsense, "clean-tokyo", "content-is-one-text"),
        (BillsWhenDeclined, "refusals", "bills-are-due"),
        (BillsBadArguments, "odd-arguments", "arguments-are-checked"),
        (NamesNoQuestion, "bad-answers", "answers-are-checked"),
        (TakesAnyState, "attacks-tokyo", "state-is-genuine"),
        (BillsBeforeStates, "attacks-springfield", "bills-are-due"),
        (FailsOnAnswers, "bad-answers", "answers-are-checked"),
    ],
)
def test_what_is_no_habit_is_found(kind: type[Foreign], case: str, rule: str, tmp_path: Path) -> None:
    assert rule in rules(judged(kind, tmp_path, [case]))


def test_a_client_that_lost_the_response_to_a_spent_round_has_lost_its_call(tmp_path: Path) -> None:
    report = judged(SpendsStates, tmp_path, ["clean-springfield"], faults=1)
    found = {risk.anomaly.name: risk.counterexamples for risk in report.risks}
    assert rules(report) == []
    assert "lost3" in found["lost call"]
    assert "lost3" in found["orphan bill"]


class ListsNoBounds(Foreign):
    """As SDKs do that make the schema from a function."""

    schema: ClassVar[dict[str, Any]] = {
        key: value for key, value in Foreign.schema.items() if key != "additionalProperties"
    }


class BillsForOthersArguments(Foreign):
    """A state is good in any call."""

    def belongs(self, of: str, location: str) -> bool:
        return True


class ReplacesSettled(Foreign):
    """As SDKs do that merge each round's answers over those that the state has."""

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = params.get("inputResponses") or {}
        answer = answers.get("place", {})
        content: dict[str, Any] = answer.get("content") or {}
        place: Any = content.get("place")
        if "requestState" in params and answer.get("action") == "accept" and place in TODAY:
            location = params["arguments"]["location"]
            self.unseal(params["requestState"], location)
            params = params | {"requestState": self.seal(location, place)}
        return super().call(params, era)


@pytest.mark.parametrize("case", ["settled-answer", "cold-answers", "forks"])
def test_an_answer_that_replaces_a_settled_one_is_told_under_one_name(case: str, tmp_path: Path) -> None:
    report = judged(ReplacesSettled, tmp_path, [case])
    assert rules(report) == []
    assert {each.rule for each in report.departures} <= {"settled-answers-stay"}


@pytest.mark.parametrize(
    ("kind", "case", "rule", "following"),
    [
        (ReplacesSettled, "settled-answer", "settled-answers-stay", ["bills-are-due"]),
        (ListsNoBounds, "odd-arguments", "the-tool-is-listed", []),
        (BillsForOthersArguments, "attacks-tokyo", "state-is-bound-to-its-call", ["bills-are-due"]),
        (TakesSpaceAroundStates, "attacks-springfield", "states-are-short", ["bills-are-due"]),
    ],
)
def test_what_an_sdk_decides_is_told_with_what_follows_and_turns_no_verdict(
    kind: type[Foreign], case: str, rule: str, following: list[str], tmp_path: Path
) -> None:
    report = judged(kind, tmp_path, [case])
    (departure,) = report.departures
    assert (departure.rule, report.following(departure)) == (rule, following)
    assert report.holds
    assert report.as_json()["departs"][0]["followed_by"] == following
    assert not any("breaks" in line for *_, lines in broken(report) for line in lines)


class EndsInPlaceOfAsking(Foreign):
    """As a shim does that enters the handler once again, and has nothing to say of a second question."""

    def asking(self, name: str, message: str, choices: list[str], state: str) -> dict[str, Any]:
        if name == "units":
            return {"resultType": "complete", "content": []}
        return super().asking(name, message, choices, state)


def test_an_empty_result_in_place_of_a_question_is_one_finding(tmp_path: Path) -> None:
    report = judged(EndsInPlaceOfAsking, tmp_path, ["clean-springfield"])
    assert rules(report) == ["questions-are-asked-in-order"]
    (finding,) = report.findings
    assert report.following(finding) == ["content-is-one-text"]


def test_both_clients_are_explored_from_outside_and_shown_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with served(SpendsStates(ledger)) as url:
        only = ["--only", "clean-tokyo", "--faults", "1"]
        assert main(["check", url, "--ledger", str(ledger), *only]) == 0
    printed = capsys.readouterr().out
    (heading,) = re.findall(r"^the client +(.*)$", printed, re.MULTILINE)
    (bills,) = re.findall(r"^charged twice +(.*)$", printed, re.MULTILINE)
    (orphans,) = re.findall(r"^charged without result +(.*)$", printed, re.MULTILINE)
    assert re.split(" {2,}", heading.strip()) == ["resends, one", "calls again, one"]
    assert bills.split()[-1] == "lost3"  # it calls again
    assert orphans.split() == ["lost3"]  # it retries, and its state is spent
