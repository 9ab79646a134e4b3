"""The judge is fair to servers of other SDKs: their habits are no faults, and their faults are found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.judge import check
from tests.judge.foreign import Foreign, served

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


def test_a_server_written_from_the_page_by_hand_keeps_it(tmp_path: Path) -> None:
    assert rules(judged(Foreign, tmp_path)) == []


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


class SendsContent(Foreign):
    content: Sequence[str] | None = None

    def asking(self, name: str, message: str, choices: list[str], state: str) -> dict[str, Any]:
        return super().asking(name, message, choices, state) | {"content": self.content}


class SendsEmptyContent(SendsContent):
    content = ()


@pytest.mark.parametrize("kind", [SendsContent, SendsEmptyContent])
def test_the_result_type_says_what_a_response_is(kind: type[Foreign], tmp_path: Path) -> None:
    assert rules(judged(kind, tmp_path)) == []


class SendsNonsense(Foreign):
    def reported(self, words: str) -> dict[str, Any]:
        return super().reported(words) | {"content": [words]}


def test_content_that_is_none_of_the_protocol_is_a_finding(tmp_path: Path) -> None:
    assert "content-is-one-text" in rules(judged(SendsNonsense, tmp_path, ["clean-tokyo"]))
