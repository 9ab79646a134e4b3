"""Tests of real serving: another process, a socket or a pipe, and the SDK's own client."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from mrtr_options.__main__ import main
from mrtr_options.demo.call import agree
from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.messages import ERAS, Era
from mrtr_options.review.bench.world.starting import program
from mrtr_options.sdk import serving
from mrtr_options.sdk.serving import LEGACY_UNLESS_TOLD
from mrtr_options.tool.server import build_server, text
from mrtr_options.tool.settings import Settings, configured
from mrtr_options.tool.weather import MemoryLedger, SqliteLedger
from tests.bounds import KEY, SECONDS
from tests.sdk.fakes import until
from tests.sending import connected, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SPRINGFIELD = "Springfield, Illinois: 22 °C, partly cloudy."


@dataclass
class Served:
    """A serving process that listens, its URL, and its standard error up to the URL."""

    process: subprocess.Popen[str]
    url: str
    said: str

    def end(self, number: signal.Signals) -> str:
        """Send a signal, check that the process ends with 0, and return its later messages."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0
        return said


@contextmanager
def served(letter: str, *flags: str, **environment: str) -> Generator[Served]:
    """Run `serve LETTER --http 0` in a process of its own, and kill it after the block."""
    # The tests may run in the background of a shell, which ignores Ctrl-C.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "mrtr_options", "serve", letter]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MRTR_")}
    command += ["--http", "0", *flags]
    env = {**inherited, **environment}
    with program(command, env=env, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = [*takewhile(f"{LEGACY_UNLESS_TOLD}\n".__ne__, process.stderr)]
        url = said.pop().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
        yield Served(process, url, "".join(said))


async def ask_about(client: Client, location: str) -> str:
    """Play one call, whose rounds the client drives, and return its text."""
    return text_of(await client.call_tool("weather", {"location": location}))


async def effects_in(ledger: Path) -> list[str]:
    """Return the kinds of the effects in a ledger file, oldest first."""
    return [effect.kind for effect in await SqliteLedger(ledger).effects()]


ROUNDS = ["round 1: input_required", "round 2: input_required", "round 3: complete"]


@pytest.mark.parametrize(
    ("letter", "effects", "flags", "logged"),
    [
        ("A", ["audit", "audit", "audit", "bill"], [], []),
        ("I", ["audit", "bill"], ["--log"], [*ROUNDS, "round 1: complete"]),
    ],
)
async def test_a_server_over_http_serves_both_eras_and_logs_their_rounds_if_told_to(
    letter: str, effects: list[str], flags: list[str], logged: list[str], tmp_path: Path
) -> None:
    """Call with both clients; the old one gets its questions by push, in one round."""
    ledger = tmp_path / "ledger"
    flags = [*flags, "--ledger", str(ledger)]
    with anyio.fail_after(SECONDS):
        with served(letter, *flags, MRTR_LEDGER="/nowhere/else") as server:
            assert server.said.startswith("warning: MRTR_STATE_KEYS is not set")
            assert server.said.count("warning") == 1
            for era in ERAS:
                async with connected(server.url, era) as client:
                    assert await ask_about(client, "Springfield") == SPRINGFIELD
            said = server.end(signal.SIGTERM).splitlines()
    assert await effects_in(ledger) == effects * 2
    assert [re.sub(r".* call \S+ (.*) in .*", r"\1", line) for line in said] == logged


@pytest.mark.parametrize(
    ("era", "letter", "effects"),
    [("legacy", "A", ["audit", "audit", "audit", "bill"]), ("modern", "I", ["audit", "bill"])],
)
async def test_a_server_over_stdio_says_nothing_but_the_protocol(
    era: Era, letter: str, effects: list[str], tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    errors = tmp_path / "errors"
    arguments = ["-m", "mrtr_options", "serve", letter, "--stdio", "--ledger", str(ledger)]
    parameters = StdioServerParameters(command=sys.executable, args=arguments)
    problems: list[Exception] = []

    async def note(message: object) -> None:
        if isinstance(message, Exception):  # a line that is no message arrives as an exception
            problems.append(message)

    with anyio.fail_after(SECONDS), errors.open("w+") as errlog:
        async with Client(
            stdio_client(parameters, errlog=errlog),
            mode=MODES[era],
            elicitation_callback=agree,
            message_handler=note,
        ) as client:
            assert await ask_about(client, "Springfield") == SPRINGFIELD
    assert problems == []
    assert errors.read_text(encoding="utf-8") == ""
    assert await effects_in(ledger) == effects


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "does-not-end"])
async def test_a_request_at_work_may_end_after_the_signal_and_is_cancelled_when_its_time_is_over(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ends:
        monkeypatch.setattr(serving, "GRACE_SECONDS", 0)
    outcome: list[str] = []
    at_work = anyio.Event()
    with anyio.fail_after(SECONDS), closing(serving.listen(0)) as listener:

        async def handler(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            at_work.set()
            try:
                await until(lambda: ends and listener.fileno() == -1)
            except anyio.get_cancelled_exc_class():
                outcome.append("cancelled")
                raise
            return text("done")

        async def call() -> None:
            try:
                async with Client(url, mode=MODES["modern"]) as client:
                    # Otherwise the client lists the tools after the call, which is too late.
                    await client.list_tools()
                    outcome.append(await ask_about(client, "Tokyo"))
            except* (MCPError, OSError) as errors:
                outcome.append(type(errors.exceptions[0]).__name__)

        host, port = listener.getsockname()
        url = f"http://{host}:{port}{serving.PATH}"
        with configured(Settings(MemoryLedger())):
            web = serving.web_server(build_server("weather-x", handler), listener)
        async with anyio.create_task_group() as group:
            group.start_soon(web.serve, [listener])
            group.start_soon(call)
            await at_work.wait()
            web.should_exit = True
    assert outcome == ["done"] if ends else outcome[0] == "cancelled" != outcome[1]


async def test_a_server_configured_by_its_environment_warns_of_nothing_and_ends_at_ctrl_c(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "ledger"
    with served("E", MRTR_STATE_KEYS=KEY, MRTR_LEDGER=str(ledger)) as server:
        async with connected(server.url) as client:
            await client.list_tools()  # the server is up, and handles its own end
        assert server.said == ""
        assert server.end(signal.SIGINT) == ""
    assert ledger.exists()


def test_ctrl_c_between_the_url_and_the_first_connection_ends_the_server_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(io.StringIO):
        def flush(self) -> None:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "stderr", Interrupted())
    try:
        assert main(["serve", "E", "--http", "0"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
