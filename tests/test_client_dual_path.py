"""The app's client: one callback for both eras, and a call that is resumed by another process."""

from __future__ import annotations

import json
import select
import shlex
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import MCPServer, Server, ServerRequestContext

from mrtr_options.examples import client_dual_path
from mrtr_options.examples.client_dual_path import PREFERENCES, App, connect
from mrtr_options.sdk.resuming.kept import read, write
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
from tests import commands
from tests.bounds import SECONDS
from tests.warm import python


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the module as a process of its own."""
    module = "mrtr_options.examples.client_dual_path"
    return commands.run(shlex.join(["python", "-m", module, *arguments]), folder)


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """The URL of option A in a process of its own."""
    process = subprocess.Popen(
        [*python(), "-c", "from mrtr_options.examples.client_dual_path import serve; serve()"],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], 60)
            assert ready, "the server did not come up"
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            try:
                process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def option_a() -> tuple[Server[Any] | MCPServer[Any], MemoryLedger]:
    ledger = MemoryLedger()
    return load(option_named("A").path, Settings(ledger)), ledger


# --- the app ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.anyio
async def test_one_callback_and_one_call_serve_both_eras(mode: str) -> None:
    server, _ = option_a()
    app = App(PREFERENCES)
    with anyio.fail_after(SECONDS):
        async with connect(server, app.fill_in, mode=mode) as client:
            text = await app.weather(client, "Springfield")
    assert app.asked == ["Which Springfield?", "Which units for Springfield, Illinois?"]
    assert text == "Springfield, Illinois: 22 °C, partly cloudy."


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.anyio
async def test_a_form_the_user_cannot_fill_in_is_cancelled_in_both_eras(mode: str) -> None:
    server, ledger = option_a()
    app = App({"place": "Springfield, Illinois"})
    with anyio.fail_after(SECONDS):
        async with connect(server, app.fill_in, mode=mode) as client:
            text = await app.weather(client, "Springfield")
    assert text == "No lookup was made: the question 'units' was cancelled."
    assert "bill" not in [effect.kind for effect in await ledger.effects()]


@pytest.mark.anyio
async def test_mrtr_only_completes_on_a_modern_server() -> None:
    server, _ = option_a()
    app = App(PREFERENCES)
    with anyio.fail_after(SECONDS):
        async with connect(server, app.fill_in, mrtr_only=True) as client:
            assert client.session.discover_result is not None
            text = await app.weather(client, "Springfield")
    assert len(app.asked) == 2
    assert text == "Springfield, Illinois: 22 °C, partly cloudy."


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("Tokyo", "Tokyo, Japan: 19 °C, clear. (metric assumed: this client cannot be asked)"),
        ("Springfield", "Failed:\n'Springfield' is ambiguous. Call again with one of:"),
    ],
)
@pytest.mark.anyio
async def test_mrtr_only_is_never_pushed_to_and_legacy_servers_say_so(location: str, says: str) -> None:
    server, _ = option_a()
    app = App(PREFERENCES)
    with anyio.fail_after(SECONDS):
        async with connect(server, app.fill_in, mode="legacy", mrtr_only=True) as client:
            text = await app.weather(client, location)
    assert text.startswith(says)
    assert app.asked == []


@pytest.mark.anyio
async def test_mrtr_only_refuses_a_server_that_pushes_to_a_client_without_elicitation() -> None:
    async def pushes(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = await ctx.session.elicit_form("Your PIN?", {"type": "object", "properties": {}})
        raise AssertionError(f"the push was answered: {answer}")

    app = App(PREFERENCES)
    refusal = ""
    with anyio.fail_after(SECONDS):
        rude = Server("rude", version="1", on_call_tool=pushes)
        async with connect(rude, app.fill_in, mode="legacy", mrtr_only=True) as client:
            try:
                await app.weather(client, "Tokyo")
            except client_dual_path.MCPError as error:
                refusal = error.message
    assert refusal == "Elicitation not supported"
    assert app.asked == []


@pytest.mark.anyio
async def test_a_question_that_is_no_form_is_declined() -> None:
    page = types.ElicitRequestURLParams(
        message="Sign in", url="https://example.invalid/", elicitation_id="1"
    )
    unused: Any = None
    assert (await App({}).fill_in(unused, page)).action == "decline"


# --- between two rounds -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_call_is_begun_and_resumed_by_processes_of_their_own(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "call.json"
    path.write_text("something else")
    path.chmod(0o644)  # what was there before must not decide who can read the state

    begun = run(tmp_path, "begin", str(path), "--url", url)
    assert (begun.returncode, begun.stderr) == (0, "")
    assert begun.stdout.splitlines()[0] == "place: Which Springfield?"
    assert "  Springfield, Illinois" in begun.stdout.splitlines()
    assert path.stat().st_mode & 0o777 == 0o600

    held = json.loads(path.read_text())
    assert held["server"] == url
    assert held["arguments"] == {"location": "Springfield"}
    assert list(held["pending"]["inputRequests"]) == ["place"]
    first_state = held["pending"]["requestState"]

    with pytest.raises(SystemExit) as refused:
        client_dual_path.main(["resume", str(path), "--answer", "place=Paris"])
    assert refused.value.code == 2
    assert "'place' does not fit" in capsys.readouterr().err
    assert json.loads(path.read_text()) == held

    resumed = run(tmp_path, "resume", str(path), "--answer", "place=Springfield, Illinois")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert resumed.stdout.splitlines()[0] == "units: Which units for Springfield, Illinois?"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["pending"]["requestState"] != first_state

    assert client_dual_path.main(["resume", str(path), "--answer", "units=metric"]) == 0
    assert capsys.readouterr() == ("Springfield, Illinois: 22 °C, partly cloudy.\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_a_round_without_an_answer_is_asked_again(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "call.json"
    with anyio.fail_after(SECONDS):
        assert await client_dual_path.begin(path, url, "Tokyo") == 0
        begun = capsys.readouterr().out
        assert await client_dual_path.resume(path, []) == 0
        assert capsys.readouterr().out == begun
        assert await client_dual_path.resume(path, ["units=imperial"]) == 0
    assert capsys.readouterr().out == "Tokyo, Japan: 66 °F, clear.\n"


@pytest.mark.anyio
async def test_a_call_that_fails_at_once_leaves_every_file_as_it_was(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with anyio.fail_after(SECONDS):
        assert await client_dual_path.begin(path, url, "Atlantis") == 1
    assert capsys.readouterr().out == "Failed:\nUnknown location: 'Atlantis'.\n"
    assert path.read_text() == "mine"


@pytest.mark.anyio
async def test_a_state_that_was_changed_is_refused_and_the_file_kept(url: str, tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    with anyio.fail_after(SECONDS):
        await client_dual_path.begin(path, url, "Springfield")
        write(path, read(path).model_copy(update={"arguments": {"location": "Portland"}}))
        before = path.read_bytes()
        with pytest.raises(client_dual_path.Unusable, match="Invalid or expired requestState"):
            await client_dual_path.resume(path, ["place=Portland, Maine"])
    assert path.read_bytes() == before


# --- bad input ----------------------------------------------------------------------------------

NOWHERE = "http://127.0.0.1:1/mcp"
PLACE = {
    "method": "elicitation/create",
    "params": {
        "message": "Which Springfield?",
        "requestedSchema": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


def held(**changes: Any) -> str:
    """The contents of a good file, with changes."""
    pending = {"resultType": "input_required", "inputRequests": {"place": PLACE}, "requestState": "s"}
    call = {"server": NOWHERE, "tool": "weather", "arguments": {"location": "x"}, "pending": pending}
    return json.dumps({**call, **changes})


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command line says about bad input: one line, and exit code 2."""
    try:
        code = client_dual_path.main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("mrtr-options: ")
    return printed.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot read"),
        ("", "does not hold an interrupted call"),
        ("not JSON", "does not hold an interrupted call"),
        ("[]", "does not hold an interrupted call"),
        ('{"server": "http://127.0.0.1:1/mcp"}', "does not hold an interrupted call"),
        (held(pending={}), "does not hold an interrupted call"),
        (held(arguments=[]), "does not hold an interrupted call"),
        (held(server="nonsense"), "is not the URL of a server"),
        (held(server="http://[nonsense"), "is not the URL of a server"),
        (held(pending={"inputRequests": {"r": {"method": "roots/list"}}}), "'r' is not a form;"),
    ],
)
def test_a_file_that_holds_no_call_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    path = tmp_path / "call.json"
    if text is not None:
        path.write_text(text)
    assert says in refusal(capsys, "resume", str(path), "--answer", "place=x")


@pytest.mark.parametrize(
    "properties", [{}, {"a": {"type": "string"}, "b": {"type": "string"}}, {"a": {"enum": 5}}, 5]
)
def test_a_form_this_client_cannot_show_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], properties: object
) -> None:
    path = tmp_path / "call.json"
    params = {"message": "?", "requestedSchema": {"type": "object", "properties": properties}}
    path.write_text(held(pending={"inputRequests": {"place": {**PLACE, "params": params}}}))
    assert "not a form of one field" in refusal(capsys, "resume", str(path), "--answer", "place=x")


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (["place"], "'place' is not an answer"),
        (["=x"], "'=x' is not an answer"),
        (["units=metric"], "no question 'units' is open; answer place"),
        (["place=x", "place=y"], "'place' is answered twice"),
        (["place=x"], "cannot connect: ConnectError: All connection attempts failed; resume again"),
    ],
)
def test_a_bad_answer_or_an_unreachable_server_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answers: list[str], says: str
) -> None:
    path = tmp_path / "call.json"
    path.write_text(held())
    options = [part for answer in answers for part in ("--answer", answer)]
    assert says in refusal(capsys, "resume", str(path), *options)
    assert path.read_text() == held()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["begin"], "required: FILE"),
        (["resume"], "required: FILE"),
        (["frobnicate"], "invalid choice"),
        (["--nonsense"], "unrecognized arguments"),
        (["begin", "FILE", "--url", NOWHERE], f"{NOWHERE}: no response from 'weather'"),
        (["begin", "FILE", "--url", "nonsense"], "is not the URL of a server"),
        (["begin", "FILE", "--url", "http://127.0.0.1:99999/mcp"], "is not the URL of a server"),
    ],
)
def test_a_bad_command_line_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    path = str(tmp_path / "call.json")
    assert says in refusal(capsys, *[path if part == "FILE" else part for part in arguments])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["a folder", "missing/call.json"])
def test_a_file_that_cannot_be_written_is_one_line_and_leaves_nothing(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    (tmp_path / "a folder").mkdir()
    assert "cannot write" in refusal(capsys, "begin", str(tmp_path / where), "--url", url)
    assert [path.name for path in tmp_path.rglob("*")] == ["a folder"]


# --- the demonstration --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_the_demonstration_sees_what_it_expects(capsys: pytest.CaptureFixture[str]) -> None:
    ended = client_dual_path.main([])
    printed = capsys.readouterr()
    assert (ended, printed.err) == (0, ""), printed.out
    assert printed.out.count("  $ client_dual_path") == 3
    assert "[call.json 600]" in printed.out
    assert max(len(line) for line in printed.out.splitlines()) <= 100


@pytest.mark.slow
def test_the_demonstration_of_mrtr_only_sees_what_it_expects(tmp_path: Path) -> None:
    ran = run(tmp_path, "--mrtr-only")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert "metric assumed: this client cannot be asked" in ran.stdout
    assert max(len(line) for line in ran.stdout.splitlines()) <= 100


def test_the_demonstration_fails_on_a_surprise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(client_dual_path.PREFERENCES, "units", "imperial")
    assert client_dual_path.main([]) == 1
    assert "SURPRISE" in capsys.readouterr().out
