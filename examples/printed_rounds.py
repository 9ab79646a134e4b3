"""A round of a call, played by hand and printed: the request and the response.

Knows the SDK's client; nothing of what the examples show.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from textwrap import shorten
from typing import Any, Literal

import mcp_types as types
from mcp import Client, MCPError
from mcp.server import Server
from mcp_types.version import LATEST_MODERN_VERSION

from examples.expect import expect

Result = types.CallToolResult | types.GetPromptResult | types.ReadResourceResult
Response = Result | types.InputRequiredResult | MCPError
Declared = Literal["elicitation", "sampling", "roots"]


@dataclass(frozen=True)
class Request:
    """The part of a call that is the same in every round; a resource's `name` is its address."""

    method: Literal["tools/call", "prompts/get", "resources/read"]
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


def connect(server: Server[Any], declares: Collection[Declared]) -> Client:
    """Return a client that declares these capabilities, and whose rounds are played by hand."""

    async def never_called(*_: Any, **__: Any) -> types.ErrorData:
        return types.ErrorData(code=types.INVALID_REQUEST, message="the rounds are played by hand")

    names = {"roots": "list_roots_callback"}  # the SDK declares each kind that has a callback
    callbacks: Any = {names.get(kind, f"{kind}_callback"): never_called for kind in declares}
    return Client(server, mode=LATEST_MODERN_VERSION, **callbacks)


async def play(
    server: Server[Any],
    request: Request,
    answers: types.InputResponses | None = None,
    asked: Response | None = None,
    *,
    says: str | None = None,
    at: str = "",
    declares: Collection[Declared] = ("elicitation",),
) -> Response:
    """Play and print one round, on a connection of its own.

    Args:
        server: The server that takes the round.
        request: The call.
        answers: The answers, by the question's key.
        asked: The response whose state this round carries.
        says: The expected response, as `seen` shows it; for another response, raise `Surprise`.
        at: A name for the server in what is printed.
        declares: The client's capabilities.
    """
    state = state_of(asked)
    arguments = f" {json.dumps(request.arguments)}" if request.arguments else ""
    print(f"  request   {at}{request.method} {request.name}{arguments}")
    for key, answer in (answers or {}).items():
        given = json.dumps(answer.model_dump(by_alias=True, mode="json", exclude_none=True))
        print(f"            with the answer {key}: {shorten(given, 58, placeholder=' ...')}")
    if state is not None:
        print(f"            with the state {state[:24]}... ({len(state)} bytes)")
    async with connect(server, declares) as client:
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
    session: Any = client.session
    send = {
        "tools/call": partial(session.call_tool, arguments=request.arguments),
        "prompts/get": partial(session.get_prompt, arguments=request.arguments),
        "resources/read": session.read_resource,
    }[request.method]
    return await send(
        request.name, input_responses=answers, request_state=state, allow_input_required=True
    )


def state_of(response: Response | None) -> str | None:
    """Return the state that a round handed out."""
    return response.request_state if isinstance(response, types.InputRequiredResult) else None


def seen(response: Response) -> str:
    """Return a response in one line: its text, the questions it asks, or the error."""
    match response:
        case MCPError():
            return f"error {response.code}: {response.message}"
        case types.InputRequiredResult():
            asked = (response.input_requests or {}).items()
            return "; ".join(f"question {key}: {_asks(request)}" for key, request in asked)
        case types.CallToolResult():
            kind = "isError result" if response.is_error else "result"
            return f"{kind}: {_text(response.content[0])}"
        case types.GetPromptResult():
            return f"prompt: {_text(response.messages[0].content)}"
        case types.ReadResourceResult():
            return f"content: {_text(response.contents[0])}"


def _asks(request: types.InputRequest) -> str:
    if isinstance(request, types.CreateMessageRequest):
        return _text(request.params.messages[0].content)
    return request.params.message if isinstance(request, types.ElicitRequest) else request.method


def _text(block: Any) -> str:
    return block.text


def accept(**content: Any) -> types.ElicitResult:
    """Return a form, filled in."""
    return types.ElicitResult(action="accept", content=content)


def tampered(token: str) -> str:
    """Return the token with one character in its middle changed."""
    middle = len(token) // 2
    other = "B" if token[middle] == "A" else "A"
    return token[:middle] + other + token[middle + 1 :]
