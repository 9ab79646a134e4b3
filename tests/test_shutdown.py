"""The end of a serving process: every request gets an answer, and the process ends in bounded time."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import anyio
import mcp_types as types
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext

from mrtr_options.__main__ import main
from mrtr_options.bench.client import MODES
from mrtr_options.tool import connections, shutdown
from tests.bounds import KEY, SECONDS
from tests.commands import REPOSITORY
from tests.warm import python

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVE = """
import signal, sys, threading
import anyio, anyio.to_thread
from mrtr_options.tool import shutdown
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.server import build_server, text
from mrtr_options.tool.serving import PATH, listen, serve_http
from mrtr_options.tool.settings import Settings

kind, grace, bound = sys.argv[1:]
shutdown.GRACE_SECONDS, shutdown.EXIT_SECONDS = float(grace), float(bound)

def say(line):
    print(line, file=sys.stderr, flush=True)

async def handler(ctx, params):
    say("at work")
    if kind == "finishes":
        await anyio.to_thread.run_sync(sys.stdin.readline)
    elif kind == "waits":
        await anyio.sleep_forever()
    elif kind == "thread":
        threading.Thread(target=threading.Event().wait).start()
    while kind == "deaf":
        try:
            await anyio.sleep_forever()
        except BaseException:
            pass
    return text("done")

server = load(option_named(kind).path, Settings.from_environment()) if len(kind) == 1 else (
    build_server("weather-x", handler))
listener = listen(0)
say(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}")
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line does
try:
    serve_http(server, listener)
except KeyboardInterrupt:
    pass
"""


@dataclass
class Served:
    """A serving process and what it says on standard error."""

    process: Process
    url: str
    lines: BufferedByteReceiveStream

    async def line(self) -> str:
        return (await self.lines.receive_until(b"\n", 10_000)).decode()

    async def ended(self) -> tuple[int, str]:
        """The exit code, and all that is left on standard error."""
        rest = b"".join([chunk async for chunk in self.lines]).decode()
        return await self.process.wait(), rest


@asynccontextmanager
async def served(kind: str, grace: float = 0.2, bound: float = SECONDS) -> AsyncGenerator[Served]:
    """A process that serves an option or a handler of a kind, with these bounds."""
    command = [*python(), "-c", SERVE, kind, str(grace), str(bound)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MRTR_")}
    environment["MRTR_STATE_KEYS"] = KEY
    with anyio.fail_after(SECONDS):
        async with await anyio.open_process(command, env=environment) as process:
            try:
                assert process.stderr is not None
                server = Served(process, "", BufferedByteReceiveStream(process.stderr))
                server.url = await server.line()
                yield server
            finally:
                if process.returncode is None:
                    process.kill()


def _leaves(errors: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for each in errors.exceptions:
        yield from _leaves(each) if isinstance(each, BaseExceptionGroup) else (each,)


@asynccontextmanager
async def calling(
    server: Served, mode: str, outcome: list[object], asked: Callable[[], None] = lambda: None
) -> AsyncGenerator[None]:
    """A call while the block runs; its result, or the error that it ended in, is noted after it."""

    async def user(context: ClientRequestContext, params: object) -> types.ElicitResult:
        asked()
        await anyio.sleep_forever()
        raise AssertionError

    async def call() -> None:
        try:
            async with Client(server.url, mode=mode, elicitation_callback=user) as client:
                await client.list_tools()  # else the client does so after the call, and may be too late
                outcome.append(await client.call_tool("weather", {"location": "Tokyo"}))
        except* Exception as errors:  # of the client's task groups
            outcome.extend(_leaves(cast("BaseExceptionGroup[Exception]", errors)))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        yield


async def test_a_request_that_ends_in_the_grace_time_is_answered() -> None:
    outcome: list[object] = []
    async with served("finishes", grace=SECONDS) as server:
        async with calling(server, MODES["modern"], outcome):
            assert await server.line() == "at work"
            server.process.send_signal(signal.SIGTERM)
            assert server.process.stdin is not None
            await server.process.stdin.send(b"go on\n")
        assert await server.ended() == (0, "")
    assert isinstance(outcome[0], types.CallToolResult)


def is_told_to_retry(outcome: list[object]) -> bool:
    """Whether a call ended in the one error that a server gives while it shuts down."""
    (error,) = outcome
    assert isinstance(error, MCPError), outcome
    return error.data == {"reason": "shutting_down"} and "Send the same request again" in error.message


async def test_a_request_that_does_not_is_told_to_retry() -> None:
    outcome: list[object] = []
    async with served("waits") as server:
        async with calling(server, MODES["modern"], outcome):
            assert await server.line() == "at work"
            server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == (0, "")
    assert is_told_to_retry(outcome)


async def test_a_call_of_a_legacy_client_that_waits_for_its_user_is_told_to_retry() -> None:
    outcome: list[object] = []
    asked = anyio.Event()
    async with served("A") as server:
        async with calling(server, MODES["legacy"], outcome, asked.set):
            await asked.wait()
            server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == (0, "")
    assert is_told_to_retry(outcome)


@pytest.mark.parametrize(
    ("kind", "left"), [("deaf", "requests of 'weather': 1, "), ("thread", "tasks: 0, threads: 1")]
)
async def test_a_process_ends_in_bounded_time_and_says_what_was_left(kind: str, left: str) -> None:
    outcome: list[object] = []
    async with served(kind, bound=2) as server, calling(server, MODES["modern"], outcome):
        assert await server.line() == "at work"
        server.process.send_signal(signal.SIGTERM)
        code, said = await server.ended()
    assert code == 1
    assert (last := said.splitlines()[-1]).startswith("mrtr-options: ended 2 s after the signal")
    assert left in last


def test_the_bounds_are_as_they_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"ends {shutdown.EXIT_SECONDS:g} s after a signal at the latest" in said
    document = " ".join((REPOSITORY / "docs" / "OPERATIONS.md").read_text(encoding="utf-8").split())
    assert f"The process ends {shutdown.EXIT_SECONDS:g} s after the signal at the latest" in document
    assert f"gives requests at work {shutdown.GRACE_SECONDS:g} s" in document
    assert f"not there in whole after {connections.REQUEST_SECONDS:g} s is closed" in document
    assert f"{connections.MAX_CONNECTIONS:,} at most" in document
