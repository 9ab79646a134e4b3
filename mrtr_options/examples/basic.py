"""Read this first: a tool that needs an answer from the user, and no machinery at all.

A modern server (MCP 2026-07-28) cannot send the client a request, so a tool cannot wait for the user.
Every multi-round tool is made of two moves, and the handler below makes each of them once:

1. *The answer is missing: return the question.* An `InputRequiredResult` is an ordinary result. The
   round is over, the handler has returned, and the server remembers nothing.
2. *The answer is there: read it.* The client sends a brand-new `tools/call` with the same name and
   arguments, and with the answer in `params.input_responses`, under the key the server chose. The
   handler starts at its first line, perhaps on another instance.

So the handler has no "before" and "after" the question. It is one function of one request, and the
only thing it may ask is: *do I have what I need?* `multiround` adds a second question.

Knows the `mcp` SDK, and `expect` to be run. Run it: `python -m mrtr_options.examples.basic`.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types.version import LATEST_MODERN_VERSION, is_version_at_least

from mrtr_options.examples.expect import start

NAME = "name"
"""The question's key: the server's choice, and the only link between a question and its answer."""

WHAT_NAME = types.ElicitRequest(
    params=types.ElicitRequestFormParams(
        message="What is your name?",
        requested_schema={
            "type": "object",
            "properties": {"name": {"type": "string", "title": "Name", "minLength": 1}},
            "required": ["name"],
        },
    )
)


async def call_greet(
    ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """The tool `greet(word)`: greets the user by name.

    Raises:
        MCPError: -32602, for another tool, arguments that do not fit, or an answer that does not fit.
    """
    if params.name != "greet":
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
    word = (params.arguments or {}).get("word")
    if not isinstance(word, str):
        raise MCPError(types.INVALID_PARAMS, "The arguments do not fit 'greet': word: not a string.")

    # Every line up to here runs once per round. Whatever must not happen twice (a bill, a mail) belongs
    # below the question, and even there it happens twice if the client sends its last round again.

    answer = (params.input_responses or {}).get(NAME)

    # Move one. The answer is missing, because this is the first round or because the client came back
    # without it (it may, at any time). Either way the question is asked: the handler cannot tell the
    # two apart and has no need to.
    if answer is None:
        if not can_ask(ctx):
            return text("Nobody was greeted: this client cannot be asked for a name.", is_error=True)
        return types.InputRequiredResult(input_requests={NAME: WHAT_NAME})

    # Move two. The answer is the client's word and nothing more. It may be of the wrong kind, it may
    # not fit the schema, and it may come without any question having been asked: it is read with the
    # same suspicion as the arguments.
    if not isinstance(answer, types.ElicitResult):
        raise bad_answer("it is not the result of an elicitation")

    # "No" and "not now" are answers. They end the call and are not asked again, and content that comes
    # along with them is not looked at.
    if answer.action == "decline":
        return text(f"Nobody was greeted: the question {NAME!r} was declined.")
    if answer.action == "cancel":
        return text(f"Nobody was greeted: the question {NAME!r} was cancelled.")

    # An answer that does not fit is refused, not asked again: a client that always sends the same
    # wrong answer would otherwise go round for ever.
    name = (answer.content or {}).get("name")
    if not isinstance(name, str) or not name:
        raise bad_answer("there is no name in it")

    return text(f"{word}, {name}!")


def can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this request may be answered with a question.

    The client must be of the modern era, and must have declared that it can show forms. An empty
    `elicitation` capability means forms. `check_client_capability` does not tell forms from URLs.
    """
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    return (
        is_version_at_least(ctx.protocol_version, LATEST_MODERN_VERSION)
        and elicitation is not None
        and (elicitation.form is not None or elicitation.url is None)
    )


def bad_answer(why: str) -> MCPError:
    """-32602, naming the question."""
    return MCPError(
        types.INVALID_PARAMS,
        f"The answer to {NAME!r} does not fit the question: {why}",
        {"reason": "invalid_answer", "question": NAME},
    )


def text(content: str, *, is_error: bool = False) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=content)], is_error=is_error)


async def list_tools(
    ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """The server's one tool."""
    greet = types.Tool(
        name="greet",
        description="Greets the user by name. Asks for the name.",
        input_schema={
            "type": "object",
            "properties": {"word": {"type": "string", "description": 'How to greet, e.g. "Hello".'}},
            "required": ["word"],
        },
    )
    return types.ListToolsResult(tools=[greet])


# No state travels here: the second round needs nothing that the arguments and the answer do not say.
server = Server("basic", version="1", on_list_tools=list_tools, on_call_tool=call_greet)


# --- the other end ------------------------------------------------------------------------------
#
# An app calls `client.call_tool` once, and the SDK plays the rounds and calls the app's elicitation
# callback for each question. Here they are played by hand, so that each can be seen.

SCENES: dict[str, tuple[types.ElicitResult | None, list[str]]] = {
    "The user answers": (
        types.ElicitResult(action="accept", content={"name": "Ada"}),
        ["question name: What is your name?", "result: Hello, Ada!"],
    ),
    "The user declines": (
        types.ElicitResult(action="decline"),
        [
            "question name: What is your name?",
            "result: Nobody was greeted: the question 'name' was declined.",
        ],
    ),
    "The user cancels": (
        types.ElicitResult(action="cancel"),
        [
            "question name: What is your name?",
            "result: Nobody was greeted: the question 'name' was cancelled.",
        ],
    ),
    "The answer does not fit": (
        types.ElicitResult(action="accept", content={"name": 7}),
        [
            "question name: What is your name?",
            "error -32602: The answer to 'name' does not fit the question: there is no name in it",
        ],
    ),
    "The client did not declare elicitation": (
        None,
        ["isError result: Nobody was greeted: this client cannot be asked for a name."],
    ),
}
"""What the user does (None: cannot be asked), and what the client must receive, round by round."""


async def forms(context: Any, params: types.ElicitRequestParams) -> types.ErrorData:
    """Declares elicitation: the SDK does it for a client that has a callback. Never called here."""
    return types.ErrorData(code=types.INVALID_REQUEST, message="the rounds are played by hand")


async def play(answer: types.ElicitResult | None) -> list[str]:
    """One call of the tool, round by round.

    Args:
        answer: What the user does with the question; None for a client that declares no elicitation.

    Returns:
        What the client received, one entry per round.
    """
    received: list[str] = []
    answers: types.InputResponses | None = None
    async with Client(
        server, mode=LATEST_MODERN_VERSION, elicitation_callback=None if answer is None else forms
    ) as client:
        while True:
            print('  request   tools/call greet {"word": "Hello"}')
            for key, given in (answers or {}).items():
                print(f"            with the answer {key}: {shown(given)}")
            try:
                result = await client.session.call_tool(
                    "greet", {"word": "Hello"}, input_responses=answers, allow_input_required=True
                )
            except MCPError as error:
                received.append(f"error {error.code}: {error.message}")
                print(f"  response  {received[-1]}")
                return received
            if isinstance(result, types.CallToolResult):
                [block] = result.content
                assert isinstance(block, types.TextContent)
                kind = "isError result" if result.is_error else "result"
                received.append(f"{kind}: {block.text}")
                print(f"  response  {received[-1]}")
                return received
            assert answer is not None, "the server sent a question that the client did not declare"
            answers = {}
            for key, request in (result.input_requests or {}).items():
                assert isinstance(request.params, types.ElicitRequestFormParams)
                received.append(f"question {key}: {request.params.message}")
                print(f"  response  {received[-1]}")
                print(f"  the user  {shown(answer)}")
                answers[key] = answer


def shown(answer: types.InputResponse) -> str:
    """An answer as it goes over the wire."""
    return json.dumps(answer.model_dump(by_alias=True, mode="json", exclude_none=True))


async def main() -> int:
    """Play every scene; 0 if each went as it must, else 1."""
    surprises = 0
    for title, (answer, expected) in SCENES.items():
        print(f"\n{title}")
        with anyio.fail_after(30):
            received = await play(answer)
        if received != expected:
            surprises += 1
            print(f"  SURPRISE  expected {expected}")
    print(f"\n{len(SCENES) - surprises} of {len(SCENES)} scenes went as they must.")
    return 1 if surprises else 0


if __name__ == "__main__":
    start(main, __doc__)
