"""What the suite's fixtures ask and say, the same in every style; and the server around them.

The suite fixes the names of the tools and of the prompt, the keys of the questions, and no more. A
style writes what is between a question and a text in its own way, and in no more lines than that way
needs. Knows the SDK, what can be asked and how a text is sent; no stand-in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from pydantic import BaseModel

from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined, roots, sampling
from mrtr_options.tool.protection import keys_from_environment, make_codec, new_key
from mrtr_options.tool.server import text
from mrtr_options.tool.weather import Question

PREFIX = "test_input_required_result_"
PROMPT = PREFIX + "prompt"

Context = ServerRequestContext[None, Any]
ToolParams = types.CallToolRequestParams
PromptParams = types.GetPromptRequestParams
ToolResult = types.CallToolResult | types.InputRequiredResult
PromptResult = types.GetPromptResult | types.InputRequiredResult
Tool = Callable[[Context, ToolParams], Awaitable[ToolResult]]
Prompt = Callable[[Context, PromptParams], Awaitable[PromptResult]]


# --- what is asked ------------------------------------------------------------------------------


class Name(BaseModel):
    """Answer to `NAME`, `ANY_NAME` and `STEP1`."""

    name: str


class Confirmation(BaseModel):
    """Answer to `CONFIRM`."""

    ok: bool


class Colour(BaseModel):
    """Answer to `STEP2`."""

    color: str


class Topic(BaseModel):
    """Answer to `TOPIC`."""

    context: str


def _message(text: str) -> types.CreateMessageRequestParams:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequestParams(messages=[message], max_tokens=100)


UNASKED = "This client cannot be asked."

NAME = Question("user_name", "What is your name?", Name, unasked=UNASKED)
ANY_NAME = Question("user_name", "What is your name?", Name, assumed=Name(name="stranger"))
CONFIRM = Question("confirm", "Please confirm", Confirmation, unasked=UNASKED)
STEP1 = Question("step1", "Step 1: What is your name?", Name, unasked=UNASKED)
STEP2 = Question("step2", "Step 2: What is your favourite colour?", Colour, unasked=UNASKED)
TOPIC = Question("user_context", "What context should the prompt use?", Topic, unasked=UNASKED)
CAPITAL = sampling("capital_question", _message("What is the capital of France?"), unasked=UNASKED)
GREETING = sampling("greeting", _message("Generate a greeting"), unasked=UNASKED)
ROOTS = roots("client_roots", unasked=UNASKED)


# --- what is said -------------------------------------------------------------------------------


def _said(message: types.CreateMessageResult) -> str:
    return message.content.text if isinstance(message.content, types.TextContent) else "(no text)"


def _listed(folders: types.ListRootsResult) -> str:
    return ", ".join(str(root.uri) for root in folders.roots)


def hello(name: Name) -> types.CallToolResult:
    """The result of `elicitation`."""
    return text(f"Hello, {name.name}!")


def capital(message: types.CreateMessageResult) -> types.CallToolResult:
    """The result of `sampling`."""
    return text(_said(message))


def folders(listed: types.ListRootsResult) -> types.CallToolResult:
    """The result of `list_roots`."""
    return text(f"Working on {_listed(listed)}.")


def confirmed(answer: Confirmation) -> types.CallToolResult:
    """The result of `request_state` and `tampered_state`."""
    return text(f"state-ok, {'confirmed' if answer.ok else 'not confirmed'}")


def welcome(
    name: Name, greeting: types.CreateMessageResult, listed: types.ListRootsResult
) -> types.CallToolResult:
    """The result of `multiple_inputs`."""
    return text(f"{_said(greeting)} {name.name} works on {_listed(listed)}.")


def likes(name: Name, colour: Colour) -> types.CallToolResult:
    """The result of `multi_round`."""
    return text(f"{name.name} likes {colour.color}.")


def greeted(name: Name, greeting: types.CreateMessageResult) -> types.CallToolResult:
    """The result of `capabilities`."""
    return text(f"{_said(greeting)} ({name.name})")


def prompt(topic: Topic) -> types.GetPromptResult:
    """The prompt."""
    content = types.TextContent(text=f"Tell me about {topic.context}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


# --- the server ---------------------------------------------------------------------------------


def fixture_server(
    style: str,
    tools: Mapping[str, Tool],
    get_prompt: Prompt | None = None,
    *,
    sealed: bool = False,
    resource: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Server[None]:
    """A fresh server with a style's fixtures.

    Args:
        style: The style's name.
        tools: By what comes after `PREFIX` in the tool's name.
        get_prompt: The prompt, if the style has prompts.
        sealed: As for an option's server.
        resource: Kept open while the server serves.
    """

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return types.ListToolsResult(
            tools=[types.Tool(name=PREFIX + name, input_schema=schema) for name in tools]
        )

    async def list_prompts(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT)])

    async def call_tool(ctx: Context, params: ToolParams) -> ToolResult:
        tool = tools.get(params.name.removeprefix(PREFIX))
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
        try:
            return await tool(ctx, params)
        except (Declined, Cancelled) as outcome:
            return text(f"No answer to {outcome.key!r}.")
        except CannotAsk as outcome:
            return text(str(outcome), is_error=True)

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None]:
        async with resource():
            yield None

    name = f"conformance-{style}"
    server = Server(
        name,
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts if get_prompt else None,
        on_get_prompt=get_prompt,
        lifespan=lifespan,
    )
    keys = keys_from_environment() or [new_key()]
    security = RequestStateSecurity(codec=make_codec(keys, sealed=sealed))
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server
