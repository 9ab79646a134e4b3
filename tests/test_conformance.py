"""The conformance suite's fixtures in every style, and what is kept of its runs, all without npm.

The suite asks for a shape; here each style's fixtures must also look at the answers they get. Knows the
package `conformance`; the suite itself is run by `make conformance`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import FileUrl

from mrtr_options.bench.schedules import SCHEDULES
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
    "elicitation": (["user_name"], ["Zoë"]),
    "sampling": (["capital_question"], ["Salut!"]),
    "list_roots": (["client_roots"], ["file:///moss"]),
    **dict.fromkeys(("request_state", "tampered_state"), (["confirm"], ["state-ok", "false"])),
    "multiple_inputs": (["client_roots", "greeting", "user_name"], ["Zoë", "Salut!", "file:///moss"]),
    "multi_round": (["step1", "step2"], ["Zoë", "teal"]),
    "prompt": (["user_context"], ["lichen"]),
}
"""The keys that each fixture asks for, and what its result must repeat of the answers."""


def answer(request: types.InputRequest) -> types.InputResponse:
    """What this user, this model and this client say."""
    match request:
        case types.ElicitRequest():
            return types.ElicitResult(action="accept", content={**FORMS[request.params.message]})
        case types.CreateMessageRequest():
            content = types.TextContent(text="Salut!")
            return types.CreateMessageResult(role="assistant", content=content, model="a-model")
        case types.ListRootsRequest():
            return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///moss"))])


async def never(context: Any, params: Any = None) -> Any:
    """A callback that is there for what the SDK declares because of it: rounds are played by hand."""
    raise AssertionError("asked behind the test's back")


@asynccontextmanager
async def connected(style: str) -> AsyncGenerator[Client]:
    """A client of a fresh server, for a bounded time."""
    with anyio.fail_after(SECONDS):
        async with Client(
            STYLES[style](),
            mode=LATEST_MODERN_VERSION,
            sampling_callback=never,
            elicitation_callback=never,
            list_roots_callback=never,
        ) as client:
            yield client


async def send(
    client: Client, fixture: str, answers: types.InputResponses | None = None, state: str | None = None
) -> Any:
    """One round."""
    given: dict[str, Any] = {"input_responses": answers, "request_state": state}
    if fixture == "prompt":
        return await client.session.get_prompt(PROMPT, allow_input_required=True, **given)
    return await client.session.call_tool(PREFIX + fixture, {}, allow_input_required=True, **given)


async def play(fixture: str, client: Client) -> tuple[list[str], list[str | None], str]:
    """A whole call: the keys that were asked, the states, and the result as JSON."""
    keys: list[str] = []
    states: list[str | None] = []
    response = await send(client, fixture)
    while isinstance(response, types.InputRequiredResult):
        requests = response.input_requests or {}
        keys += sorted(requests)
        states.append(response.request_state)
        answers = {key: answer(request) for key, request in requests.items()}
        response = await send(client, fixture, answers, response.request_state)
    return keys, states, response.model_dump_json()


@pytest.mark.anyio
@pytest.mark.parametrize("style", ASKING)
async def test_every_style_asks_what_the_suite_asks_for_and_looks_at_the_answers(style: str) -> None:
    async with connected(style) as client:
        for fixture, (asked, words) in SAID.items():
            if (style, fixture) == ("I", "prompt"):
                continue  # resolvers fill a tool's parameters
            keys, states, said = await play(fixture, client)
            assert all(word in said for word in words), fixture
            assert len(keys) == len(asked), fixture
            assert keys == asked or style == "I", fixture  # its keys are the resolvers' names
            assert len(set(states)) == len(states), fixture


# --- what is kept -------------------------------------------------------------------------------


def failures(server: str) -> set[str]:
    """The scenarios in a server's file of expected failures."""
    text = (FOLDER / report.EXPECTED[server]).read_text(encoding="utf-8")
    entries = re.findall(r"^  - (\S+)$", text, re.MULTILINE)
    assert all(":" in entry for entry in entries)  # a check; a scenario would excuse all of its checks
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
def test_a_scenario_passes_only_if_something_was_checked(
    tmp_path: Path, found: list[str], status: str
) -> None:
    checks = tmp_path / "checks.json"
    checks.write_text(json.dumps([{"status": each} for each in found]), encoding="utf-8")
    assert command.status_of(checks) == status


def test_what_is_kept_is_read_again_and_its_tables_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, texts = report.read(), [path.read_text(encoding="utf-8") for path in report.DOCUMENTS]
    for module in (report, command):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "kept.json")
    copies = [tmp_path / path.name for path in report.DOCUMENTS]
    monkeypatch.setattr(command, "DOCUMENTS", copies)
    for copy, text in zip(copies, texts, strict=True):
        assert "| careless | 14" in text
        copy.write_text(text.replace("| careless | 14", "| careless | 13"), encoding="utf-8")
    command.write(kept)
    assert report.read() == kept
    assert [copy.read_text(encoding="utf-8") for copy in copies] == texts


def test_there_is_a_schedule_for_whatever_the_suite_does_not_check() -> None:
    text = report.DOCUMENTS[0].read_text(encoding="utf-8")
    _, _, table = text.partition("schedules that see it |\n|---")
    rows = [line for line in table.splitlines()[1:] if line.startswith("|")]
    assert len(rows) == 8
    for row in rows:
        slugs = set(re.findall(r"`([\w-]+)`", row.rsplit(" | ", 1)[1]))
        assert slugs, row
        assert slugs <= SCHEDULES.keys(), row


# --- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["Q"], "there is no server 'Q'; there are E, F, G"), (["--what"], "--help"), ([], "node and npm")],
)
def test_bad_input_and_a_machine_without_npm_are_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert said in error
