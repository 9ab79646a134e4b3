"""The app developer's end: one callback and one tool call, whatever era the server speaks.

In four parts:

- *The app.* What an app developer writes. There is no line about eras in it: the SDK finds out what
  the server speaks, plays the rounds on a modern connection, answers the server's pushes on a legacy
  one, and calls the same callback for both.
- *The connection.* One line, unless the app wants to take no pushes at all (`--mrtr-only`).
- *Between two rounds.* A modern call is nothing but data there. `begin` plays the first round and writes
  the questions and the state to a file; `resume` is another process, another day perhaps, and goes on
  from there. A round whose response is lost is sent again by the next `resume` (`sdk/resuming`).
- *The demonstration*, which runs both against option A and checks what it sees.

Run it:

    python -m mrtr_options.examples.client_dual_path [--mrtr-only]
    python -m mrtr_options.examples.client_dual_path begin FILE [--location NAME] [--url URL]
    python -m mrtr_options.examples.client_dual_path resume FILE --answer place='Springfield, Illinois'

Exit code: 0 as it must be, 1 the tool failed or the demonstration saw something unexpected, 2 bad
input. Knows the SDK's client, and what resumes a call; the demonstration also knows how to load and
serve an option.
"""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.server import MCPServer, Server
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, Field, ValidationError

from mrtr_options.examples.expect import as_it_must, expect, quiet_logs
from mrtr_options.sdk.resuming import BadResponse, Call, CannotKeep, ResumingClient, Unanswered
from mrtr_options.sdk.resuming.kept import read, write
from mrtr_options.show.terminal import Parser, refuse, run
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger

DEFAULT_URL = "http://127.0.0.1:8000/mcp"
READ_TIMEOUT_SECONDS = 30.0


# --- the app ------------------------------------------------------------------------------------


@dataclass
class App:
    """An app with a user in front of it.

    Attributes:
        preferences: What the user fills in, by the name of the form's field.
        asked: The questions the user saw, in order.
    """

    preferences: dict[str, str]
    asked: list[str] = field(default_factory=list[str])

    async def fill_in(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """The one callback: show the user a form, and return what was filled in."""
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")  # this app has no browser to open a page in
        self.asked.append(params.message)
        fields = params.requested_schema["properties"]
        if not fields.keys() <= self.preferences.keys():
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(
            action="accept", content={name: self.preferences[name] for name in fields}
        )

    async def weather(self, client: Client, location: str) -> str:
        """The one call."""
        return text_of(await client.call_tool(TOOL, {"location": location}))


def text_of(result: types.CallToolResult) -> str:
    """A result as the user reads it."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return "\n".join(["Failed:", *texts] if result.is_error else texts)


# --- the connection -----------------------------------------------------------------------------


@asynccontextmanager
async def connect(
    server: Server[Any] | MCPServer[Any] | str,
    callback: ElicitationFnT,
    *,
    mode: str = "auto",
    mrtr_only: bool = False,
) -> AsyncGenerator[Client]:
    """Connect to a server and find out what it speaks.

    A client that is `mrtr_only` takes questions as results and never as pushes. On a legacy connection
    it declares no elicitation, so a server that keeps to the protocol does not push; should one push
    all the same, the SDK answers with an error and the user is not bothered.

    Args:
        server: A URL, or a server in this process.
        callback: Called for each question, in either era.
        mode: "auto", or "legacy" to treat a server that speaks both as an old one.
        mrtr_only: Refuse the legacy push path.
    """
    if not mrtr_only:
        async with Client(server, mode=mode, elicitation_callback=callback) as client:
            yield client
        return

    # The SDK declares elicitation for any client with a callback, in the very handshake in which it
    # finds out the era. So a client without one finds out first, and is good enough for a legacy server.
    async with Client(server, mode=mode) as silent:
        found = silent.session.discover_result
        if found is None:
            yield silent
            return
        version = silent.protocol_version
    async with Client(
        server, mode=version, prior_discover=found, elicitation_callback=callback
    ) as client:
        yield client


# --- between two rounds -------------------------------------------------------------------------


class Unusable(Exception):
    """The command cannot do what it was told. The text is one line that says what to do."""


class Choices(BaseModel):
    """A form's field: what it may be filled in with, or nothing for free text."""

    enum: list[str] = []


class Form(BaseModel):
    """What this client can show of a question: a message and one field."""

    message: str
    properties: Annotated[dict[str, Choices], Field(min_length=1, max_length=1)]

    @property
    def field(self) -> str:
        """The name of the one field."""
        return next(iter(self.properties))


def forms_of(call: Call) -> dict[str, Form]:
    """The open questions of a call by their keys.

    Raises:
        Unusable: One is not a form of one field, and this client has no way to show it.
    """
    forms: dict[str, Form] = {}
    for key, request in call.open.items():
        if not isinstance(params := request.params, types.ElicitRequestFormParams):
            raise Unusable(f"{key!r} is not a form; use another client")
        shown = {**params.requested_schema, "message": params.message}
        try:
            forms[key] = Form.model_validate(shown)
        except ValidationError:
            raise Unusable(f"{key!r} is not a form of one field; use another client") from None
    return forms


async def play_round(call: Call) -> types.CallToolResult | types.InputRequiredResult:
    """One round, sent again if its response is lost.

    Raises:
        Unusable: The server cannot be reached, or refused.
    """
    url = call.server
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Unusable(f"{url!r} is not the URL of a server; it looks like {DEFAULT_URL}")

    async def never_called(context: ClientRequestContext, params: types.ElicitRequestParams) -> NoReturn:
        raise AssertionError("there is no push on a modern connection")

    def connect() -> Client:
        # Not "auto": only a modern call can be left between two rounds. The callback is there for what
        # the SDK declares because of it.
        return Client(url, mode=LATEST_MODERN_VERSION, elicitation_callback=never_called)

    try:
        async with ResumingClient(
            connect, server=url, attempts=2, round_seconds=READ_TIMEOUT_SECONDS
        ) as client:
            return (await client.deliver(call))[0]
    except MCPError as error:
        raise Unusable(f"the server refused: {error.message} ({error.code})") from error
    except Unanswered as error:
        again = "begin" if call.pending is None else "resume"
        raise Unusable(f"{url}: {error}; {again} again") from error
    except BadResponse as error:
        raise Unusable(str(error)) from error


async def begin(path: Path, url: str, location: str) -> int:
    """Play the first round of a call, and write it to a file if it asks something.

    Raises:
        Unusable, CannotKeep: The server or the file cannot be used.
    """
    call = Call(server=url, tool=TOOL, arguments={"location": location})
    return settle(path, call, await play_round(call))


async def resume(path: Path, given: Sequence[str]) -> int:
    """Play the next round of the call in a file. A round that goes wrong leaves the file as it is.

    Args:
        path: The file, which is removed when the call is over.
        given: The answers, each as KEY=VALUE. Unanswered questions are asked again.

    Raises:
        Unusable, CannotKeep: The file, an answer or the server cannot be used.
    """
    call = read(path)
    forms, seen = forms_of(call), set[str]()
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Unusable(f"{text!r} is not an answer; write it as KEY=VALUE, e.g. units=metric")
        if key in seen:
            raise Unusable(f"{key!r} is answered twice; answer it once")
        if key not in forms:
            raise Unusable(f"no question {key!r} is open; answer {', '.join(forms) or 'nothing'}")
        seen.add(key)
        answer = types.ElicitResult(action="accept", content={forms[key].field: value})
        call = call.answered(key, answer)
    result = await play_round(call)
    exit_code = settle(path, call, result)
    if isinstance(result, types.CallToolResult):
        try:
            await anyio.Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise Unusable(f"the call is over; remove {path} yourself ({error.strerror})") from error
    return exit_code


def settle(path: Path, call: Call, result: types.CallToolResult | types.InputRequiredResult) -> int:
    """Print what a round ended with, and put what it asks into the file; returns the exit code."""
    if isinstance(result, types.CallToolResult):
        print(text_of(result))
        return 1 if result.is_error else 0
    call = call.asked(result)
    forms = forms_of(call)
    write(path, call)
    for key, form in forms.items():
        print(f"{key}: {form.message}")
        for choice in form.properties[form.field].enum:
            print(f"  {choice}")
    return 0


# --- the demonstration --------------------------------------------------------------------------

PREFERENCES = {"place": "Springfield, Illinois", "units": "metric"}
SEEN = {
    "Tokyo": (["Which units for Tokyo, Japan?"], "Tokyo, Japan: 19 °C, clear."),
    "Springfield": (
        ["Which Springfield?", "Which units for Springfield, Illinois?"],
        "Springfield, Illinois: 22 °C, partly cloudy.",
    ),
}
"""The questions and the text that the user must see, by location."""
SEEN_UNASKED: dict[str, tuple[list[str], str]] = {
    "Tokyo": ([], "Tokyo, Japan: 19 °C, clear. (metric assumed: this client cannot be asked)"),
    "Springfield": (
        [],
        "Failed:\n'Springfield' is ambiguous. Call again with one of: "
        "Springfield, Illinois; Springfield, Massachusetts; Springfield, Missouri.",
    ),
}
"""The same where the server is legacy and the client is `mrtr_only`."""


async def demonstrate(*, mrtr_only: bool) -> None:
    """Both eras in this process and then, unless `mrtr_only`, one call over three client processes.

    Raises:
        Surprise: Something else happened.
    """
    for era, mode in (("modern", "auto"), ("legacy", "legacy")):
        unasked = mrtr_only and era == "legacy"
        for location, must_see in (SEEN_UNASKED if unasked else SEEN).items():
            await demonstrate_call(era, mode, mrtr_only, location, must_see)
    if not mrtr_only:
        await demonstrate_processes()


async def demonstrate_call(
    era: str, mode: str, mrtr_only: bool, location: str, must_see: tuple[list[str], str]
) -> None:
    """One call of the app to option A in this process, as a server of one era."""
    app = App(PREFERENCES)

    async def shown(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        answer = await app.fill_in(context, params)
        print(f"  question  {params.message}")
        print(f"  answer    {answer.action} {json.dumps(answer.content)}")
        return answer

    server = load(option_named("A").path, Settings(MemoryLedger()))
    async with connect(server, shown, mode=mode, mrtr_only=mrtr_only) as client:
        print(f"\nA {era} server ({client.protocol_version}): the weather in {location}")
        text = await app.weather(client, location)
    for line in text.splitlines():
        print(textwrap.fill(line, 100, initial_indent="  result    ", subsequent_indent=" " * 12))
    expect(f"{era} {location}", (app.asked, text), must_see)


async def demonstrate_processes() -> None:
    """Begin a call in one process and resume it in others, against a server in yet another."""
    print("\nOne call over three client processes: each ends before the next one starts")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "call.json")
        (which_place, which_units), report = SEEN["Springfield"]
        async with server_process() as url:
            await run_client("begin", path, f"place: {which_place}", "--url", url)
            show_file(path)
            place = "place=Springfield, Illinois"
            await run_client("resume", path, f"units: {which_units}", "--answer", place)
            show_file(path)
            await run_client("resume", path, report, "--answer", "units=metric")
        expect("the file of a finished call", await anyio.Path(path).exists(), False)


@asynccontextmanager
async def server_process() -> AsyncGenerator[str]:
    """Option A in a process of its own, on a free port of 127.0.0.1; yields its URL."""
    code = "from mrtr_options.examples.client_dual_path import serve; serve()"
    async with await anyio.open_process(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stderr=None
    ) as process:
        try:
            assert process.stdout is not None
            line = b""
            while not line.endswith(b"\n"):
                line += await process.stdout.receive()
            yield line.decode().strip()
        finally:
            process.terminate()


def serve() -> None:
    """Serve option A on a free port of 127.0.0.1 until terminated, and print the URL."""
    from mrtr_options.tool.serving import PATH, listen, serve_http

    listener = listen(0)
    host, port = listener.getsockname()
    print(f"http://{host}:{port}{PATH}", flush=True)
    serve_http(load(option_named("A").path, Settings(MemoryLedger())), listener)


async def run_client(command: str, path: Path, expected: str, *options: str) -> None:
    """Run a command of this module in a process, show what it prints, and check its first line."""
    print(f"\n  $ client_dual_path {shlex.join([command, path.name, *options])}")
    module = [sys.executable, "-X", "utf8", "-m", "mrtr_options.examples.client_dual_path"]
    ran = await anyio.run_process([*module, command, str(path), *options], check=False)
    lines = (ran.stdout + ran.stderr).decode().splitlines()
    for line in lines:
        print(f"  {line}")
    expect(f"{command}: exit code and first line", (ran.returncode, lines[:1]), (0, [expected]))


def show_file(path: Path) -> None:
    """Show what is in the file between two rounds, and check that only its owner can read it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    call = read(path)
    state = (call.pending and call.pending.request_state) or ""
    print(f"  [{path.name} {mode:o}] {call.arguments}, asks {', '.join(call.open)},")
    print(f"  {' ' * len(path.name)}       state {state[:20]}... ({len(state)} bytes)")
    expect("the file's mode", mode, 0o600)


# --- the command line ---------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.examples.client_dual_path",
        description="One callback, one tool call, both eras. Without a command: the demonstration.",
    )
    parser.add_argument(
        "--mrtr-only",
        action="store_true",
        help="demonstrate a client that takes no pushes: what a legacy server then answers",
    )
    commands = parser.add_subparsers(dest="command", metavar="begin|resume")
    beginning = commands.add_parser("begin", help="play the first round and write the call to FILE")
    beginning.add_argument("file", type=Path, metavar="FILE")
    beginning.add_argument("--location", default="Springfield", metavar="NAME")
    beginning.add_argument("--url", default=DEFAULT_URL, help=f"the server's (default: {DEFAULT_URL})")
    resuming = commands.add_parser("resume", help="play the next round of the call in FILE")
    resuming.add_argument("file", type=Path, metavar="FILE")
    resuming.add_argument("--answer", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    quiet_logs()
    try:
        if options.command == "begin":
            return anyio.run(begin, options.file, options.url, options.location)
        if options.command == "resume":
            return anyio.run(resume, options.file, options.answer)
        return anyio.run(as_it_must, partial(demonstrate, mrtr_only=options.mrtr_only))
    except (Unusable, CannotKeep) as problem:
        refuse(str(problem))


if __name__ == "__main__":
    sys.exit(run(main))
