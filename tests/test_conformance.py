"""The conformance suite's fixtures in every style, and the runner, all without npm.

The suite asks for a shape; here each style's fixtures must also look at the answers they get. Knows the
package `conformance`; the suite itself is run by `make conformance`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import FileUrl
from rich.console import Console

from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.conformance import __main__ as command
from mrtr_options.conformance import report, suite
from mrtr_options.conformance.columns import EXPECTED, Column, all_columns, server_of
from mrtr_options.conformance.fixtures import PREFIX, PROMPT
from mrtr_options.conformance.run import DidNotStart, served, unexpected
from mrtr_options.conformance.scenarios import CLIENT, MRTR, SHARED, SUITE, TASKS, spec_version
from mrtr_options.conformance.suite import Check, Outcome, read_checks
from mrtr_options.show.terminal import PIPED_COLUMNS
from tests.bounds import SECONDS
from tests.warm import python

pytestmark = pytest.mark.anyio

IGNORE = "input-required-result-ignore-extra-params"
MULTIPLE = "input-required-result-multiple-input-requests"
PROMPTS = "input-required-result-non-tool-request"
OWN_KEYS = "input-required-result-basic-elicitation"

COLUMNS = {column.name: column for column in all_columns()}
ASKING = [name for name in COLUMNS if len(name) == 1 and MRTR[0] in COLUMNS[name].scenarios]


# --- the other end ------------------------------------------------------------------------------

FORMS: dict[str, dict[str, str | bool]] = {
    "What is your name?": {"name": "Zoë"},
    "Please confirm": {"ok": False},
    "Step 1: What is your name?": {"name": "Zoë"},
    "Step 2: What is your favourite colour?": {"color": "teal"},
    "What context should the prompt use?": {"context": "lichen"},
}


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
async def connected(column: str, *, only_sampling: bool = False) -> AsyncGenerator[Client]:
    """A client of a fresh server, for a bounded time."""
    with anyio.fail_after(SECONDS):
        async with Client(
            server_of(column),
            mode=LATEST_MODERN_VERSION,
            sampling_callback=never,
            elicitation_callback=None if only_sampling else never,
            list_roots_callback=None if only_sampling else never,
        ) as client:
            yield client


Response = types.CallToolResult | types.GetPromptResult | types.InputRequiredResult


async def send(
    client: Client, fixture: str, answers: types.InputResponses | None = None, state: str | None = None
) -> Response:
    """One round."""
    if fixture == "prompt":
        return await client.session.get_prompt(
            PROMPT, input_responses=answers, request_state=state, allow_input_required=True
        )
    return await client.session.call_tool(
        PREFIX + fixture, {}, input_responses=answers, request_state=state, allow_input_required=True
    )


async def play(client: Client, fixture: str) -> tuple[list[set[str]], list[str | None], str]:
    """A whole call: the keys of each round, the states, and the text at the end."""
    keys: list[set[str]] = []
    states: list[str | None] = []
    response = await send(client, fixture)
    while isinstance(response, types.InputRequiredResult):
        requests = response.input_requests or {}
        keys.append(set(requests))
        states.append(response.request_state)
        answers = {key: answer(request) for key, request in requests.items()}
        response = await send(client, fixture, answers, response.request_state)
    block = response.messages[0].content if fixture == "prompt" else response.content[0]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert isinstance(block, types.TextContent)
    return keys, states, block.text


# --- the styles ---------------------------------------------------------------------------------

ONE_ROUND = {
    "elicitation": ({"user_name"}, "Hello, Zoë!"),
    "sampling": ({"capital_question"}, "Salut!"),
    "list_roots": ({"client_roots"}, "Working on file:///moss."),
    "request_state": ({"confirm"}, "state-ok, not confirmed"),
    "tampered_state": ({"confirm"}, "state-ok, not confirmed"),
}


@pytest.mark.parametrize("letter", ASKING)
async def test_every_style_asks_what_the_suite_asks_for_and_looks_at_the_answers(letter: str) -> None:
    column = COLUMNS[letter]
    async with connected(letter) as client:
        for fixture, (asked, text) in ONE_ROUND.items():
            keys, _, said = await play(client, fixture)
            assert said == text, fixture
            assert len(keys) == 1, fixture
            assert (keys == [asked]) is (OWN_KEYS not in column.cannot), fixture


@pytest.mark.parametrize("letter", ASKING)
async def test_a_second_round_comes_with_another_state(letter: str) -> None:
    async with connected(letter) as client:
        keys, states, said = await play(client, "multi_round")
    assert said == "Zoë likes teal."
    assert len(keys) == 2
    assert None not in states
    assert len(set(states)) == 2


@pytest.mark.parametrize("letter", [each for each in ASKING if MULTIPLE not in COLUMNS[each].cannot])
async def test_three_kinds_of_question_go_out_together(letter: str) -> None:
    async with connected(letter) as client:
        keys, states, said = await play(client, "multiple_inputs")
    assert [len(each) for each in keys] == [3]
    assert None not in states
    assert said == "Salut! Zoë works on file:///moss."


@pytest.mark.parametrize("letter", [each for each in ASKING if PROMPTS not in COLUMNS[each].cannot])
async def test_a_prompt_asks(letter: str) -> None:
    async with connected(letter) as client:
        keys, _, said = await play(client, "prompt")
    assert keys == [{"user_context"}]
    assert said == "Tell me about lichen."


@pytest.mark.parametrize("letter", ASKING)
async def test_a_client_is_asked_only_what_it_declares(letter: str) -> None:
    async with connected(letter) as client:
        _, _, asked_for_all = await play(client, "capabilities")
    assert asked_for_all == "Salut! (Zoë)"
    async with connected(letter, only_sampling=True) as client:
        keys, _, said = await play(client, "capabilities")
    assert [len(each) for each in keys] == [1]
    assert said == "Salut! (stranger)"


@pytest.mark.parametrize("letter", ASKING)
async def test_an_answer_of_another_kind_is_no_answer(letter: str) -> None:
    async with connected(letter) as client:
        asked = await send(client, "sampling")
        assert isinstance(asked, types.InputRequiredResult)
        wrong: types.InputResponses = {
            key: types.ListRootsResult(roots=[]) for key in asked.input_requests or {}
        }
        try:
            response = await send(client, "sampling", wrong, asked.request_state)
        except MCPError:
            return
    assert isinstance(response, types.InputRequiredResult) or response.model_dump()["is_error"]


def test_a_style_says_why_it_cannot_express_a_scenario() -> None:
    for column in COLUMNS.values():
        assert column.cannot.keys() <= set(column.scenarios), column.name
        assert all(len(reason) > 20 for reason in column.cannot.values()), column.name


async def test_the_careless_server_takes_any_answer_and_a_state_that_was_made_up() -> None:
    no: types.InputResponses = {"confirm": types.ElicitResult(action="decline")}
    async with connected("careless") as client:
        response = await send(client, "request_state", no, "1")
    assert isinstance(response, types.CallToolResult)
    assert not response.is_error


# --- what the suite says ------------------------------------------------------------------------


def written(folder: Path, *checks: tuple[str, str]) -> Path:
    """A folder as the suite leaves it."""
    made = folder / "server-some-scenario-2026"
    made.mkdir()
    dumped = [
        {"id": name, "name": "N", "status": status, "timestamp": "t", "errorMessage": f"{name}!"}
        for name, status in checks
    ]
    (made / "checks.json").write_text(json.dumps(dumped), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("checks", "exit_code", "status", "complaints"),
    [
        ([("a", "SUCCESS"), ("b", "SKIPPED")], 0, "pass", {}),
        ([("a", "SUCCESS"), ("b", "WARNING")], 0, "warn", {"b": "b!"}),
        ([("a", "FAILURE"), ("b", "WARNING")], 1, "fail", {"a": "a!", "b": "b!"}),
        ([("a", "SKIPPED")], 0, "fail", {"run": "the suite checked nothing"}),
        ([], 0, "fail", {"run": "the suite checked nothing"}),
        (
            [("a", "SUCCESS")],
            1,
            "fail",
            {"run": "the suite ended with exit code 1 and without a failure"},
        ),
    ],
    ids=["good", "warned", "failed", "skipped", "empty", "crashed"],
)
def test_a_result_is_read_for_what_it_says(
    tmp_path: Path,
    checks: list[tuple[str, str]],
    exit_code: int,
    status: str,
    complaints: dict[str, str],
) -> None:
    read, problem = read_checks(written(tmp_path, *checks), exit_code)
    outcome = Outcome("Z", "s", 1.0, read, problem)
    assert (outcome.status, outcome.complaints) == (status, complaints)


@pytest.mark.parametrize("content", [None, "no JSON", '[{"status": "SUCCESS"}]'])
def test_a_result_that_is_not_there_or_not_readable_is_a_failure(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (written(tmp_path) / "server-some-scenario-2026" / "checks.json").write_text(content)
    read, problem = read_checks(tmp_path, 0)
    assert Outcome("Z", "s", 1.0, read, problem).status == "fail"


def test_a_complaint_that_is_not_listed_is_unexpected() -> None:
    warned = (Check(id="sep-2322-ignore-unexpected-params", status="WARNING", errorMessage="no"),)
    assert unexpected([Outcome("J", IGNORE, 1.0, warned)]) == []
    assert unexpected([Outcome("E", IGNORE, 1.0, warned)]) == [
        f"E {IGNORE}: sep-2322-ignore-unexpected-params: no"
    ]


def test_an_expected_complaint_that_does_not_come_is_unexpected() -> None:
    (line,) = unexpected([Outcome("J", IGNORE, 1.0, (Check(id="x", status="SUCCESS"),))])
    assert "take it off the list" in line


def test_no_failure_of_the_suite_is_expected() -> None:
    for (name, scenario, _), why in EXPECTED.items():
        assert report.read().results[name][scenario] == "warn"
        assert len(why) > 40


def test_tasks_are_run_without_a_version() -> None:
    assert {spec_version(scenario) for scenario in TASKS} == {None}
    assert {spec_version(scenario) for scenario in (*MRTR, *SHARED, *CLIENT)} == {"2026-07-28"}


# --- the tables ---------------------------------------------------------------------------------


def outcomes(columns: list[Column]) -> list[Outcome]:
    """A full run in which everything goes well and takes its time."""
    good = (Check(id="x", status="SUCCESS"),)
    return [
        Outcome(column.name, scenario, cannot=column.cannot[scenario])
        if scenario in column.cannot
        else Outcome(column.name, scenario, 12.34, good)
        for column in columns
        for scenario in column.scenarios
    ]


def test_the_table_has_every_scenario_and_fits_the_terminal() -> None:
    console = Console(width=PIPED_COLUMNS, file=io.StringIO())
    with console.capture() as captured:
        for table in report.tables(outcomes(all_columns())):
            console.print(table)
    shown = captured.get()
    for scenario in (*MRTR, *TASKS, *SHARED, *CLIENT):
        assert f" {report.short(scenario)} " in f" {shown} ".replace("\n", " "), scenario
    assert max(len(line) for line in shown.splitlines()) <= PIPED_COLUMNS
    assert "ok 12.3" in shown
    assert "14/14" in shown
    assert "9/9" in shown


def test_what_went_wrong_is_listed_by_the_check() -> None:
    failed = Outcome("E", MRTR[0], 1.0, (Check(id="sep-1", status="FAILURE", errorMessage="why"),))
    assert report.remarks([failed]) == ["E basic-elicitation: sep-1, why"]
    assert report.as_json([failed], ["x"])["outcomes"][0]["complaints"] == {"sep-1": "why"}


def test_the_kept_results_are_of_every_column_and_every_scenario() -> None:
    kept = report.read()
    assert kept.suite == SUITE
    assert list(kept.results) == [column.name for column in all_columns()]
    for column in all_columns():
        results = kept.results[column.name]
        assert list(results) == list(column.scenarios)
        cannot = {scenario for scenario, status in results.items() if status == "cannot"}
        assert cannot == column.cannot.keys()
        assert "fail" not in results.values()


def test_what_is_kept_can_be_read_again_and_has_no_timings(tmp_path: Path) -> None:
    kept = report.results_of(outcomes(all_columns()))
    report.write(kept, tmp_path / "kept.json")
    assert report.read(tmp_path / "kept.json") == kept
    assert "12.3" not in (tmp_path / "kept.json").read_text(encoding="utf-8")


def test_there_is_a_schedule_for_whatever_the_suite_does_not_check() -> None:
    for what, _, schedules in report.NOT_CHECKED:
        assert schedules
        assert set(schedules.split()) <= SCHEDULES.keys(), what


# --- the command --------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the command ends in exit code 2."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def test_without_npm_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", missing)
    monkeypatch.setattr(suite, "PACKAGE", tmp_path)
    assert "node and npm" in refused(capsys, "--style", "E")


def test_outside_a_clone_the_command_says_where_to_run_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    assert "in a clone of the repository" in refused(capsys, "--style", "E")


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_an_installation_that_is_interrupted_ends_npm_and_says_nothing(
    stop: signal.Signals, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    script = f"#!/bin/sh\nexec 3> {held}\necho begun >&3\nexec sleep {SECONDS}\n"
    for name in ("node", "npm"):
        (tmp_path / name).write_text(script, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from mrtr_options.conformance import __main__, suite;"
        f"suite.FOLDER = suite.PACKAGE = Path({str(tmp_path)!r}); sys.exit(__main__.main([]))"
    )
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    with anyio.fail_after(SECONDS):
        process = await anyio.open_process([*python(), "-c", code], env=environment)
        try:
            async with await anyio.open_file(held) as npm:
                assert await npm.readline() == "begun\n"
                process.send_signal(stop)
                assert await process.wait() == 130
                assert await npm.read() == ""  # its end of the pipe is closed, so it has ended
            assert process.stderr is not None
            said = [each async for each in process.stderr]
        finally:
            if process.returncode is None:
                process.kill()
            await process.aclose()
    assert said == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--style", "Q"], "there is no style 'Q'; there are E, F, G"),
        (["--scenario", "multi-rounds"], "there are multi-round"),
        (["--style", "E", "--scenario", "caching"], "leave out --style"),
        (["--what"], "--help"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, *arguments)


# --- the servers --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
async def test_a_server_ends_whatever_happens_to_the_test_it_is_for(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        url = ""
        with suppress(ZeroDivisionError):
            async with served(COLUMNS["careless"], tmp_path / "log") as url:
                async with Client(url, mode=LATEST_MODERN_VERSION) as client:
                    assert (await client.list_tools()).tools
                raise ZeroDivisionError
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.slow
async def test_a_server_ends_with_whoever_started_it() -> None:
    with anyio.fail_after(SECONDS):
        process = await anyio.open_process(
            [*python(), "-m", "mrtr_options.conformance.columns", "careless"],
            cwd=suite.ROOT,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert (await process.stdout.receive()).startswith(b"http://127.0.0.1:")
            await process.stdin.aclose()  # as the system does for a process that was killed
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            await process.aclose()


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
async def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS), pytest.raises(DidNotStart, match="KeyError"):
        async with served(Column("Z", MRTR, {}), tmp_path / "log"):
            raise AssertionError("it started")
