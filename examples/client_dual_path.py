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
from mrtr_options.sdk.resuming.kept import KeptCall, read, write
from mrtr_options.terminal import Parser, run
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger, which_place

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
        """The one callback: show the user a form, and return what was filled in."""
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")  # this app has no browser to open a page in
        self.asked.append(params.message)
        fields = params.requested_schema["properties"]
        if not fields.keys() <= self.preferences.keys():
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(
            action="accept", content={each: self.preferences[each] for each in fields}
        )

    async def weather(self, client: Client, location: str) -> str:
        """The one call."""
        return text_of(await client.call_tool("weather", {"location": location}))


def text_of(result: types.CallToolResult) -> str:
    """A result as the user reads it."""
    text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
    return f"Failed:\n{text}" if result.is_error else text


# --- the connection -----------------------------------------------------------------------------


@asynccontextmanager
async def connect(
    server: AnyServer | str, app: App, *, mode: str = "auto", mrtr_only: bool = False
) -> AsyncGenerator[Client]:
    """Connect to a server and find out what it speaks.

    A client that is `mrtr_only` takes questions as results and never as pushes. On a legacy
    connection it declares no elicitation, so a server that keeps to the protocol does not push;
    should one push anyway, the SDK answers with an error and the user is not bothered.

    Args:
        server: A URL, or a server in this process.
        app: Asked each question, in either era.
        mode: "auto", or "legacy" to treat a server that speaks both as an old one.
        mrtr_only: Refuse the legacy push path.
    """
    ask = app.fill_in
    if not mrtr_only:
        async with Client(server, mode=mode, elicitation_callback=ask) as client:
            yield client
        return
    # The SDK declares elicitation for any client with a callback, in the very handshake in which it
    # finds out the era. So a client without one finds out first, and is good enough for a legacy
    # server.
    async with Client(server, mode=mode) as silent:
        found, version = silent.session.discover_result, silent.protocol_version
        if found is None:
            yield silent
            return
    async with Client(
        server, mode=version, prior_discover=found, elicitation_callback=ask
    ) as client:
        yield client


# --- between two rounds -------------------------------------------------------------------------


async def one_round(server: AnyServer, call: KeptCall) -> KeptCall | str:
    """Play one round of a call: the call as it stands then, or the text that it ended with."""
    # Not "auto": only a modern call can be left between two rounds. The callback is never called;
    # it is there for what the SDK declares because of it.
    modern = partial(
        Client, server, mode=LATEST_MODERN_VERSION, elicitation_callback=App({}).fill_in
    )
    async with ResumingClient(modern) as client:
        response, call, _ = await client.deliver(call)
    return (
        call.asked(response)
        if isinstance(response, types.InputRequiredResult)
        else text_of(response)
    )


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
    "Springfield": ([], f"Failed:\n{which_place('Springfield').unasked}"),
}
"""The same where the server is legacy and the client is `mrtr_only`."""


def option_a() -> AnyServer:
    """A server that speaks both eras."""
    return load(option_named("A").path, Settings(MemoryLedger()))


def show(app: App, text: str) -> tuple[list[str], str]:
    """Print what the user saw."""
    print("".join(f"  question  {question}\n" for question in app.asked), end="")
    print(textwrap.fill(text, 100, initial_indent="  result    ", subsequent_indent=" " * 12))
    return app.asked, text


async def demonstrate(*, mrtr_only: bool) -> None:
    """Both eras and then, unless `mrtr_only`, a call that goes on from a file; may raise
    `Surprise`.
    """
    for era, mode in (("modern", "auto"), ("legacy", "legacy")):
        for location, must_see in (
            SEEN_UNASKED if mrtr_only and mode == "legacy" else SEEN
        ).items():
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
    """Play a call with a client for each round; only the server and the file outlive one."""
    server, app = option_a(), App(PREFERENCES)
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
    """The command line; returns the exit code."""
    parser = Parser("python -m examples.client_dual_path", description="One callback, both eras.")
    says = "a client that takes no pushes: what a legacy server then answers"
    parser.add_argument("--mrtr-only", action="store_true", help=says)
    mrtr_only = parser.parse_args(arguments).mrtr_only
    return anyio.run(as_expected, partial(demonstrate, mrtr_only=mrtr_only))


if __name__ == "__main__":
    sys.exit(run(main))
