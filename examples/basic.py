"""Read this first: a tool that needs an answer from the user, and no machinery at all.

A modern server (MCP 2026-07-28) cannot send the client a request, so a tool cannot wait for the
user. Every multi-round tool is made of two moves, and the handler below makes each of them once:

1. *The answer is missing: return the question.* An `InputRequiredResult` is an ordinary result. The
   round is over, the handler has returned, and the server remembers nothing.
2. *The answer is there: read it.* The client sends a brand-new `tools/call` with the same name and
   arguments, and with the answer in `params.input_responses`, under the key the server chose. The
   handler starts at its first line, perhaps on another instance.

So the handler has no "before" and "after" the question. It is one function of one request, and the
only thing it may ask is: *do I have what I need?* `multiround` adds a second question.

Knows the `mcp` SDK, `printed_rounds` and `expect` to be run. Run it: `python -m examples.basic`.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types.version import LATEST_MODERN_VERSION, is_version_at_least

from examples.expect import start
from examples.printed_rounds import Request, accept, play

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
    """Greet the user by name: the tool `greet(word)`.

    Raises:
        MCPError: -32602, for another tool, arguments that do not fit, or an answer that does not
            fit.
    """
    if params.name != "greet":
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
    word = (params.arguments or {}).get("word")
    if not isinstance(word, str):
        raise MCPError(
            types.INVALID_PARAMS, "The arguments do not fit 'greet': word: not a string."
        )

    # Every line up to here runs once per round. Whatever must not happen twice (a bill, a mail)
    # belongs below the question, and even there it happens twice if the client sends its last round
    # again.

    answer = (params.input_responses or {}).get(NAME)

    # Move one. The answer is missing, because this is the first round or because the client came
    # back without it (it may, at any time). Either way the question is asked: the handler cannot
    # tell the two apart and has no need to.
    if answer is None:
        if not can_ask(ctx):
            return text("No greeting: this client cannot be asked for a name.", is_error=True)
        return types.InputRequiredResult(input_requests={NAME: WHAT_NAME})

    # Move two. The answer is the client's word and nothing more. It may be of the wrong kind, it
    # may not fit the schema, and it may come without any question having been asked: it is read
    # with the same suspicion as the arguments.
    if not isinstance(answer, types.ElicitResult):
        raise bad_answer(NAME, "it is not the result of an elicitation")

    # "No" and "not now" are answers. They end the call and are not asked again, and content that
    # comes along with them is not looked at.
    if answer.action == "decline":
        return text(f"No greeting: the question {NAME!r} was declined.")
    if answer.action == "cancel":
        return text(f"No greeting: the question {NAME!r} was cancelled.")

    # An answer that does not fit is refused, not asked again: a client that always sends the same
    # wrong answer would otherwise go round for ever.
    name = (answer.content or {}).get("name")
    if not isinstance(name, str) or not name:
        raise bad_answer(NAME, "there is no name in it")

    return text(f"{word}, {name}!")


def can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether this request may be answered with a question.

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


def bad_answer(key: str, why: str) -> MCPError:
    """Return the error -32602, which names the question."""
    return MCPError(
        types.INVALID_PARAMS,
        f"The answer to {key!r} does not fit the question: {why}",
        {"reason": "invalid_answer", "question": key},
    )


def text(content: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=content)], is_error=is_error)


async def list_tools(
    ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List the server's one tool."""
    greet = types.Tool(
        name="greet",
        description="Greets the user by name. Asks for the name.",
        input_schema={
            "type": "object",
            "properties": {
                "word": {"type": "string", "description": 'How to greet, e.g. "Hello".'}
            },
            "required": ["word"],
        },
    )
    return types.ListToolsResult(tools=[greet])


# No state travels here: the arguments and the answer are all that the second round needs.
server = Server("basic", version="1", on_list_tools=list_tools, on_call_tool=call_greet)


# --- the other end ------------------------------------------------------------------------------
#
# An app calls `client.call_tool` once, and the SDK plays the rounds and calls the app's elicitation
# callback for each question. Here they are played by hand, so that each can be seen.

HELLO = Request("tools/call", "greet", {"word": "Hello"})
SCENES: dict[str, tuple[types.ElicitResult, str]] = {
    "The user answers": (accept(name="Ada"), "result: Hello, Ada!"),
    "The user declines": (
        types.ElicitResult(action="decline"),
        "result: No greeting: the question 'name' was declined.",
    ),
    "The user cancels": (
        types.ElicitResult(action="cancel"),
        "result: No greeting: the question 'name' was cancelled.",
    ),
    "The answer does not fit": (
        accept(name=7),
        "error -32602: The answer to 'name' does not fit the question: there is no name in it",
    ),
}
"""The user's answer in each scene, and the response that the client must receive."""


async def demonstrate() -> None:
    """Play every scene, then a client that cannot be asked.

    Raises:
        Surprise: Something else happened.
    """
    for title, (answer, says) in SCENES.items():
        print(f"\n{title}")
        asked = await play(server, HELLO, says="question name: What is your name?")
        await play(server, HELLO, {NAME: answer}, asked, says=says)
    print("\nThe client did not declare elicitation")
    told = "isError result: No greeting: this client cannot be asked for a name."
    await play(server, HELLO, declares=(), says=told)


if __name__ == "__main__":
    start(demonstrate, __doc__)
