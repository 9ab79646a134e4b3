"""Tests of the conformance suite's fixtures in every style, and of its stored runs, without npm.

The suite checks the shape of a response; these tests check that a fixture also uses the answers.
Knows the package `conformance`; `make conformance` runs the suite itself.
"""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import FileUrl

from scoreboard.conformance import __main__ as command
from scoreboard.conformance import report
from scoreboard.conformance.fixtures import PREFIX, PROMPT
from scoreboard.conformance.styles import STYLES
from tests.bounds import SECONDS

ASKING = [name for name in STYLES if name not in ("K", "careless")]
FOLDER = Path(command.__file__).with_name("expected")

FORMS: dict[str, dict[str, str | bool]] = {
    "What is your name?": {"name": "Zoë"},
    "Please confirm": {"ok": False},
    "Step 1: What is your name?": {"name": "Zoë"},
    "Step 2: Which colour?": {"color": "teal"},
    "Which context?": {"context": "lichen"},
}
SAID = {
    "elicitation": (1, ["Zoë"]),
    "sampling": (1, ["Salut!"]),
    "list_roots": (1, ["file:///moss"]),
    **dict.fromkeys(("request_state", "tampered_state"), (1, ["state-ok", "false"])),
    "multiple_inputs": (3, ["Zoë", "Salut!", "file:///moss"]),
    "multi_round": (2, ["Zoë", "teal"]),
    "prompt": (1, ["lichen"]),
}
"""The number of questions of every fixture, and the words of the answers in its result."""


class User:
    """The answers of a user, a model and a client, and the number of questions so far."""

    asked = 0

    async def fill_in(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked += 1
        return types.ElicitResult(action="accept", content={**FORMS[params.message]})

    async def write(self, context: Any, params: Any) -> types.CreateMessageResult:
        self.asked += 1
        content = types.TextContent(text="Salut!")
        return types.CreateMessageResult(role="assistant", content=content, model="a-model")

    async def share(self, context: Any) -> types.ListRootsResult:
        self.asked += 1
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///moss"))])


@pytest.mark.anyio
@pytest.mark.parametrize("style", ASKING)
async def test_every_style_asks_what_the_suite_asks_for_and_looks_at_the_answers(
    style: str,
) -> None:
    user = User()
    client = Client(
        STYLES[style](),
        mode=LATEST_MODERN_VERSION,
        sampling_callback=user.write,
        elicitation_callback=user.fill_in,
        list_roots_callback=user.share,
    )
    with anyio.fail_after(SECONDS):
        async with client:
            for fixture, (asked, words) in SAID.items():
                user.asked = 0
                if fixture != "prompt":
                    said = await client.call_tool(PREFIX + fixture, {})
                elif style != "I":  # resolvers fill the parameters of tools only
                    said = await client.get_prompt(PROMPT)
                else:
                    continue
                assert all(word in said.model_dump_json() for word in words), fixture
                assert user.asked == asked, fixture


def failures(server: str) -> set[str]:
    """Return the scenarios in a server's file of expected failures."""
    text = (FOLDER / report.EXPECTED[server]).read_text(encoding="utf-8")
    entries = re.findall(r"^  - (\S+)$", text, re.MULTILINE)
    # An entry names one check; a bare scenario would excuse all of its checks.
    assert all(":" in entry for entry in entries)
    return {entry.partition(":")[0] for entry in entries}


def test_the_kept_results_are_of_every_style_and_fail_only_as_expected() -> None:
    kept = report.read()
    assert kept.suite == report.SUITE
    assert list(kept.results) == sorted(report.EXPECTED)
    assert report.EXPECTED.keys() == STYLES.keys()
    for server, results in kept.results.items():
        found = {scenario for scenario, status in results.items() if status != "passed"}
        assert found == failures(server) & results.keys(), server
    assert {path.name for path in FOLDER.iterdir()} == set(report.EXPECTED.values())


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (["SUCCESS", "SKIPPED"], "passed"),
        (["SUCCESS", "WARNING"], "warned"),
        (["FAILURE", "WARNING", "SUCCESS"], "failed"),
        (["SKIPPED"], "failed"),
    ],
)
def test_a_scenario_without_checks_does_not_pass(
    tmp_path: Path, found: list[str], status: str
) -> None:
    checks = tmp_path / "checks.json"
    checks.write_text(json.dumps([{"status": each} for each in found]), encoding="utf-8")
    assert command.status_of(checks) == status
