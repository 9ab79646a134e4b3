"""The showing half of the examples: plays rounds, prints them, and goes on only after what was expected.

Knows the SDK's client and how this package's commands read arguments; nothing of what the examples show.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, NoReturn

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.server import Server
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.show.terminal import Parser, run

SECONDS = 60.0
"""How long a demonstration may take."""

Response = (
    types.CallToolResult
    | types.GetPromptResult
    | types.ReadResourceResult
    | types.InputRequiredResult
    | MCPError
)
Declared = Literal["elicitation", "sampling", "roots"]


class Surprise(Exception):
    """The demonstration saw something else than it expected. The text says what."""


def expect(what: str, seen: object, expected: object) -> None:
    """Go on only if this is what was expected.

    Raises:
        Surprise: It is not.
    """
    if seen != expected:
        raise Surprise(f"{what}: expected {expected!r}, saw {seen!r}")


# --- rounds -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What stays the same in every round of a call.

    Attributes:
        method: One of the three that a server may answer with a question.
        name: Of the tool or the prompt; the address of a resource.
        arguments: Of the tool or the prompt.
    """

    method: Literal["tools/call", "prompts/get", "resources/read"]
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        arguments = f" {json.dumps(self.arguments)}" if self.arguments else ""
        return f"{self.method} {self.name}{arguments}"


def connect(
    server: Server[Any],
    declares: Collection[Declared] = ("elicitation",),
    mode: str = LATEST_MODERN_VERSION,
) -> Client:
    """A client that declares these capabilities and whose rounds are played by hand."""

    # The SDK declares what has a callback.
    async def never_called(*_: Any, **__: Any) -> types.ErrorData:
        return types.ErrorData(code=types.INVALID_REQUEST, message="the rounds are played by hand")

    return Client(
        server,
        mode=mode,
        elicitation_callback=never_called if "elicitation" in declares else None,
        sampling_callback=never_called if "sampling" in declares else None,
        list_roots_callback=never_called if "roots" in declares else None,
    )


async def play(
    server: Server[Any],
    request: Request,
    answers: types.InputResponses | None = None,
    asked: Response | None = None,
    *,
    says: str | None = None,
    at: str = "",
    declares: Collection[Declared] = ("elicitation",),
    mode: str = LATEST_MODERN_VERSION,
) -> Response:
    """Play and print one round, on a connection of its own.

    Args:
        server: Takes the round.
        request: What is called.
        answers: What this round carries, by the question's key.
        asked: The response whose state this round carries.
        says: What the response must be, as `seen` shows it.
        at: What to call the server.
        declares: The client's capabilities.
        mode: A modern version, or "legacy".

    Raises:
        Surprise: The response is another.
    """
    state = state_of(asked)
    print(f"  request   {at}{request}")
    for key, answer in (answers or {}).items():
        given = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        print(f"            with the answer {key}: {shorten(json.dumps(given), 58, placeholder=' ...')}")
    if state is not None:
        print(f"            with the state {state[:24]}... ({len(state)} bytes)")
    async with connect(server, declares, mode) as client:
        try:
            response = await _send(client, request, answers, state)
        except MCPError as error:
            response = error
    print(f"  response  {seen(response)}")
    if says is not None:
        expect("the response", seen(response), says)
    return response


async def _send(
    client: Client, request: Request, answers: types.InputResponses | None, state: str | None
) -> Response:
    session, name, arguments = client.session, request.name, request.arguments
    match request.method:
        case "tools/call":
            return await session.call_tool(
                name, arguments, input_responses=answers, request_state=state, allow_input_required=True
            )
        case "prompts/get":
            return await session.get_prompt(
                name, arguments, input_responses=answers, request_state=state, allow_input_required=True
            )
        case "resources/read":
            return await session.read_resource(
                name, input_responses=answers, request_state=state, allow_input_required=True
            )


def state_of(response: Response | None) -> str | None:
    """The state that a round handed out."""
    return response.request_state if isinstance(response, types.InputRequiredResult) else None


def seen(response: Response) -> str:
    """A response in one line: its text, the questions it asks, or the error.

    Raises:
        Surprise: It is none of these.
    """
    match response:
        case types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed):
            return f"{'isError result' if failed else 'result'}: {text}"
        case types.GetPromptResult(messages=[types.PromptMessage(content=types.TextContent(text=text))]):
            return f"prompt: {text}"
        case types.ReadResourceResult(contents=[types.TextResourceContents(text=text)]):
            return f"content: {text}"
        case types.InputRequiredResult(input_requests=dict(requests)):
            return "; ".join(f"question {key}: {_asks(asked)}" for key, asked in requests.items())
        case MCPError():
            return f"error {response.code}: {response.message}"
        case _:
            raise Surprise(f"neither a text nor a question: {response}")


def _asks(request: types.InputRequest) -> str:
    match request:
        case types.ElicitRequest():
            return request.params.message
        case types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[types.SamplingMessage(content=types.TextContent(text=text))]
            )
        ):
            return text
        case _:
            return request.method


def accept(**content: Any) -> types.ElicitResult:
    """A form filled in."""
    return types.ElicitResult(action="accept", content=content)


def tampered(token: str) -> str:
    """The token with one character in its middle changed."""
    middle = len(token) // 2
    return token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]


# --- the program --------------------------------------------------------------------------------


def quiet_logs() -> None:
    """Keep the log lines of a server in this process out of the transcript."""
    logging.getLogger().addHandler(logging.NullHandler())


def start(demonstrate: Callable[[], Awaitable[None]], about: str | None) -> NoReturn:
    """Run an example as a program that takes no arguments but `--help`.

    Args:
        demonstrate: The example; raises `Surprise`.
        about: The module's docstring, whose first line is the help.
    """
    title = (about or "").partition("\n")[0]
    program = f"python -m mrtr_options.examples.{Path(sys.argv[0]).stem}"
    Parser(prog=program, description=title).parse_args()
    quiet_logs()
    sys.exit(run(lambda: anyio.run(as_it_must, demonstrate)))


async def as_it_must(demonstrate: Callable[[], Awaitable[None]]) -> int:
    """Run a demonstration and say how it went; 0 if it saw what it expected, else 1."""
    try:
        with anyio.fail_after(SECONDS):
            await demonstrate()
    except Surprise as surprise:
        print(f"\nSURPRISE  {surprise}")
    except TimeoutError:
        print(f"\nSURPRISE  it did not end within {SECONDS:.0f} s")
    else:
        print("\nAll went as it must.")
        return 0
    return 1
