"""The app developer's end: one callback and one tool call, whatever era the server speaks.

In three parts:

- *The app.* What an app developer writes, with no line about eras: the SDK finds out what the
  server speaks, plays rounds or answers pushes, and calls the same callback for both.
- *The connection.* One line, unless the app wants to take no pushes at all (`--mrtr-only`).
- *Between two rounds.* A modern call is only data there. A client plays the first round and writes
  it to a file; another one, another day perhaps, goes on from there (`sdk/resuming`).

Run it: `python -m examples.client_dual_path [--mrtr-only]`. Exit code: 0 as expected, 1 otherwise.
Knows the SDK's client, what resumes a call, and, to show it, how to load an option.
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.server import MCPServer, Server
from mcp_types.version import LATEST_MODERN_VERSION

from examples.expect import as_expected, expect
from mrtr_options.sdk.resuming import ResumingClient
from mrtr_options.sdk.resuming.open_calls import KeptCall, read, write
from mrtr_options.terminal import Parser, run
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MUST_ASK, MemoryLedger

AnyServer = Server[Any] | MCPServer[Any]

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
        self, context: object, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Show the user a form, and return what was filled in. This is the one callback."""
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")  # this app cannot open a page
        self.asked.append(params.message)
        fields = params.requested_schema["properties"]
        if not fields.keys() <= self.preferences.keys():
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(
            action="accept", content={each: self.preferences[each] for each in fields}
        )

    async def weather(self, client: Client, location: str) -> str:
        """Call the tool. This is the one call."""
        return text_of(await client.call_tool("weather", {"location": location}))


def text_of(result: types.CallToolResult) -> str:
    """Return a result as the user reads it."""
    text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
    return f"Failed:\n{text}" if result.is_error else text


# --- the connection -----------------------------------------------------------------------------


@asynccontextmanager
async def connect(
    server: AnyServer | str, app: App, *, mode: str = "auto", mrtr_only: bool = False
) -> AsyncGenerator[Client]:
    """Connect to a server, and find out which era it speaks.

    A client that is `mrtr_only` takes questions as results and never as pushes. On a legacy
    connection it declares no elicitation, so a server that keeps to the protocol does not push;
    should one push anyway, the SDK answers with an error and the user is not bothered.

    Args:
        server: A URL, or a server in this process.
        app: The app that answers each question, in either era.
        mode: "auto", or "legacy" to treat a server that speaks both as an old one.
        mrtr_only: Refuse the legacy push path.
    """
    ask = app.fill_in
    if not mrtr_only:
        async with Client(server, mode=mode, elicitation_callback=ask) as client:
            yield client
        return
    # The SDK declares elicitation for any client with a callback, in the very handshake in which it
    # finds out the era. So a client without a callback finds out the era first. For a legacy server
    # that client is enough.
    async with Client(server, mode=mode) as silent:
        found = silent.session.discover_result
        version = silent.protocol_version
        if found is None:
            yield silent
            return
    async with Client(
        server, mode=version, prior_discover=found, elicitation_callback=ask
    ) as client:
        yield client


# --- between two rounds -------------------------------------------------------------------------


async def one_round(server: AnyServer, call: KeptCall) -> KeptCall | str:
    """Play one round of a call; return the call after it, or the text of its result."""
    # Not "auto": only a modern call can be left between two rounds. The callback is never called;
    # it is there because the SDK declares elicitation only for a client with a callback.
    modern = partial(
        Client, server, mode=LATEST_MODERN_VERSION, elicitation_callback=App({}).fill_in
    )
    async with ResumingClient(modern) as client:
        response, call, _ = await client.deliver(call)
    if isinstance(response, types.InputRequiredResult):
        return call.asked(response)
    return text_of(response)


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
    "Tokyo": ([], f"Failed:\n{MUST_ASK}"),
    "Springfield": ([], f"Failed:\n{MUST_ASK}"),
}
"""The same for a legacy server and a client that is `mrtr_only`."""


def option_a() -> AnyServer:
    """Return a server that speaks both eras."""
    return load(option_named("A").path, Settings(MemoryLedger()))


def show(app: App, text: str) -> tuple[list[str], str]:
    """Print what the user saw, and return it."""
    print("".join(f"  question  {question}\n" for question in app.asked), end="")
    print(textwrap.fill(text, 100, initial_indent="  result    ", subsequent_indent=" " * 12))
    return app.asked, text


async def demonstrate(*, mrtr_only: bool) -> None:
    """Play both eras and then, unless `mrtr_only`, a call that goes on from a file.

    Raises:
        Surprise: Something else happened.
    """
    for era, mode in (("modern", "auto"), ("legacy", "legacy")):
        is_asked = not (mrtr_only and mode == "legacy")
        expected = SEEN if is_asked else SEEN_UNASKED
        for location, must_see in expected.items():
            app = App(PREFERENCES)
            async with connect(option_a(), app, mode=mode, mrtr_only=mrtr_only) as client:
                print(f"\nA {era} server ({client.protocol_version}): the weather in {location}")
                seen = show(app, await app.weather(client, location))
            expect(f"{era} {location}", seen, must_see)
    if not mrtr_only:
        print("\nOne call over three clients: each goes on from the file that the last one wrote")
        with tempfile.TemporaryDirectory() as folder:
            await demonstrate_file(Path(folder, "call.json"))


async def demonstrate_file(path: Path) -> None:
    """Play a call with a new client for each round; only the server and the file stay."""
    server = option_a()
    app = App(PREFERENCES)
    arguments = {"location": "Springfield"}
    now = await one_round(
        server, KeptCall(server="", principal="", tool="weather", arguments=arguments)
    )
    while isinstance(now, KeptCall):
        write(path, now)
        call = read(path)
        print(f"  {path.name}  {call.arguments}")
        for key, request in call.open.items():
            params: Any = request.params  # of a form
            call = call.answered(key, await app.fill_in(None, params))
        now = await one_round(server, call)
    expect("the call over three clients", show(app, now), SEEN["Springfield"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser("python -m examples.client_dual_path", description="One callback, both eras.")
    says = "a client that takes no pushes: what a legacy server then answers"
    parser.add_argument("--mrtr-only", action="store_true", help=says)
    mrtr_only = parser.parse_args(arguments).mrtr_only
    return anyio.run(as_expected, partial(demonstrate, mrtr_only=mrtr_only))


if __name__ == "__main__":
    sys.exit(run(main))
