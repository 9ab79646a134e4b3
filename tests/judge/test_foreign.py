"""Tests that the judge is fair to other SDKs: a habit is no fault, and a fault is found."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.review.bench.faults import PLAYABLE
from mrtr_options.review.check import targets
from mrtr_options.sdk.serving import listen
from tests.commands import refusal
from tests.judge.foreign import INVALID, Error, Foreign, JsonObject, served

CLEAN = ("clean-tokyo", "clean-springfield")
MOST = (*CLEAN, "bad-answers", "odd-arguments", "refusals", "cannot-be-asked")


Kind = type[Foreign]

pytestmark = pytest.mark.slow


def judged(kind: Kind, folder: Path, only: Sequence[str] = MOST, faults: int = 0) -> targets.Report:
    ledger = folder / "ledger.sqlite"
    with served(kind(ledger)) as url:
        return anyio.run(targets.check_url, [url], ledger, targets.Extent(faults=faults, only=only))


def rules(report: targets.Report) -> list[str]:
    return [each.rule for each in report.breaches]


class Modern(Foreign):
    eras = ("2026-07-28",)


class Old(Foreign):
    eras = ("2025-11-25",)


class Neither(Foreign):
    eras = ()


@pytest.mark.parametrize(("kind", "spoken"), [(Modern, "modern"), (Old, "legacy")])
def test_a_server_of_one_era_is_judged_by_it(
    kind: type[Foreign], spoken: str, tmp_path: Path
) -> None:
    report = judged(kind, tmp_path)
    assert rules(report) == []
    assert {seen.era for seen in report.observations} == {spoken}
    assert any("the server does not speak it" in why for why in report.left_out)


def test_a_server_that_lists_its_tools_in_no_era_cannot_be_judged(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with served(Neither(ledger)) as url:
        assert "no MCP server answers" in refusal(main, ["check", url, "--ledger", str(ledger)])


def test_a_server_that_never_answers_is_given_up_after_hang_seconds(tmp_path: Path) -> None:
    with listen(0) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        ledger = str(tmp_path / "ledger.sqlite")
        said = refusal(main, ["check", url, "--ledger", ledger, "--hang-seconds", "0.2"])
    assert said.endswith(f"no MCP server answers at {url} in 0.2 seconds\n")


class ClosesLater(Foreign):
    closing = 202  # accepted, but not done yet


def test_what_the_library_logs_is_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert rules(judged(ClosesLater, tmp_path, ["clean-tokyo"])) == []
    assert caplog.messages == []


class ListsInPages(Foreign):
    def answer(self, method: str, params: JsonObject, era: str) -> JsonObject:
        if method == "tools/list" and "cursor" not in params and era in self.eras:
            return super().answer(method, params, era) | {"tools": [], "nextCursor": "2"}
        return super().answer(method, params, era)


class SendsContent(Foreign):
    content: Sequence[str] | None = None
    of = "input_required"

    def call(self, params: JsonObject, era: str) -> JsonObject:
        found = super().call(params, era)
        return found | {"content": self.content} if found["resultType"] == self.of else found


class SendsEmptyContent(SendsContent):
    content = ()


class SendsNonsense(SendsContent):
    content = ("nonsense",)
    of = "complete"


class SpendsStates(Foreign):
    def check_state(self, state: str, answers: JsonObject) -> None:
        if (state, json.dumps(answers)) in self.spent:
            raise Error(INVALID, "this state is spent")

    def call(self, params: JsonObject, era: str) -> JsonObject:
        found = super().call(params, era)
        if "requestState" in params and not found.get("isError"):
            self.spent.add((params["requestState"], json.dumps(params.get("inputResponses") or {})))
        return found


@pytest.mark.parametrize(
    ("kind", "cases", "broken"),
    [
        (Foreign, MOST, []),
        (ListsInPages, ("odd-arguments",), []),
        (SendsContent, ("clean-springfield", "bad-answers"), []),
        (SendsEmptyContent, ("clean-springfield", "bad-answers"), []),
        (SpendsStates, ("refusals", "bad-answers", "again-1", "forks"), []),
        (SendsNonsense, ("clean-tokyo",), ["content-is-one-text"]),
    ],
)
def test_what_a_server_sends_in_its_own_way_is_no_fault_and_what_is_none_of_the_protocols_is(
    kind: Kind, cases: Sequence[str], broken: list[str], tmp_path: Path
) -> None:
    report = judged(kind, tmp_path, cases)
    assert rules(report) == broken
    assert "the-tool-is-listed" not in {each.rule for each in report.departures}


def test_a_client_that_lost_the_response_to_a_spent_round_has_lost_its_call(tmp_path: Path) -> None:
    report = judged(SpendsStates, tmp_path, ["clean-springfield"], faults=1)
    found = {risk.anomaly.name: risk.counterexamples for risk in report.risks}
    assert rules(report) == []
    assert "lost3" in found["call lost"]
    assert "lost3" in found["charged, told of an error"]


def test_what_a_careless_client_adds_to_an_answer_is_tried_on_a_running_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "PLAYABLE", {kind: PLAYABLE[kind] for kind in ("ahead", "more")})
    (twice, *_) = judged(Foreign, tmp_path, ["clean-springfield"], faults=1).risks
    assert twice.anomaly.name == "charged twice"
    assert {"ahead2", "more3"} <= {*twice.counterexamples}


def test_a_round_goes_to_another_of_the_instances_behind_a_list_of_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "PLAYABLE", {"failover": PLAYABLE["failover"]})
    ledger = tmp_path / "ledger.sqlite"
    extent = targets.Extent(faults=1, only=("clean-springfield",))
    with served(Foreign(ledger)) as one, served(Foreign(ledger, "another key")) as two:
        report = anyio.run(targets.check_url, [one, two], ledger, extent)
    found = {risk.anomaly.name: set(risk.counterexamples) for risk in report.risks}
    assert {"failover2", "failover3"} <= found["call lost"]
    assert {seen.deployment for seen in report.observations} == {"one", "two"}


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
    (orphans,) = re.findall(r"^charged, told of an error +(.*)$", printed, re.MULTILINE)
    assert re.split(" {2,}", heading.strip()) == ["resends, one", "calls again, one"]
    assert bills.split()[-1] == "lost3"  # the client that calls again
    assert orphans.split()[0] == "lost3"  # the client that resends, whose state is spent
