"""What the suite's fixtures ask and say, as data that every style is made from; and the server for them.

The suite fixes the names of the tools and of the prompt, the keys of the questions, and no more. Knows
the SDK, what can be asked and how a text is sent; no stand-in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from pydantic import BaseModel

from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined, Inquiry, roots, sampling
from mrtr_options.tool.protection import keys_from_environment, make_codec, new_key
from mrtr_options.tool.server import text
from mrtr_options.tool.weather import Question

PREFIX = "test_input_required_result_"
PROMPT = PREFIX + "prompt"

Context = ServerRequestContext[None, Any]
ToolParams = types.CallToolRequestParams
PromptParams = types.GetPromptRequestParams
ToolResult = types.CallToolResult | types.InputRequiredResult
Tool = Callable[[Context, ToolParams], Awaitable[ToolResult]]
Asked = Question[Any] | Inquiry[Any]


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


def _words(answer: BaseModel) -> str:
    """What an answer says, in a word or two."""
    match answer:
        case types.CreateMessageResult(content=types.TextContent(text=said)):
            return said
        case types.ListRootsResult():
            return ", ".join(str(root.uri) for root in answer.roots)
        case Confirmation():
            return "confirmed" if answer.ok else "not confirmed"
        case _:
            return ", ".join(map(str, answer.model_dump().values()))


@dataclass(frozen=True)
class Fixture:
    """A tool or a prompt of the suite's.

    Attributes:
        name: Its name after `PREFIX`.
        rounds: Its questions, round by round.
        says: Its text, with a place for each answer.
        needs_state: Whether an answer without the state is no answer.
    """

    name: str
    rounds: tuple[tuple[Asked, ...], ...]
    says: str
    needs_state: bool = False

    @property
    def questions(self) -> list[Asked]:
        """All of its questions, in order."""
        return [question for questions in self.rounds for question in questions]

    def result(self, answers: Sequence[BaseModel]) -> Any:
        """The result, from the answers to `questions`."""
        said = self.says.format(*map(_words, answers))
        if PREFIX + self.name != PROMPT:
            return text(said)
        message = types.PromptMessage(role="user", content=types.TextContent(text=said))
        return types.GetPromptResult(messages=[message])


FIXTURES = (
    Fixture("elicitation", ((NAME,),), "Hello, {}!"),
    Fixture("sampling", ((CAPITAL,),), "{}"),
    Fixture("list_roots", ((ROOTS,),), "Working on {}."),
    Fixture("request_state", ((CONFIRM,),), "state-ok, {}", needs_state=True),
    Fixture("multiple_inputs", ((NAME, GREETING, ROOTS),), "{1} {0} works on {2}."),
    Fixture("multi_round", ((STEP1,), (STEP2,)), "{} likes {}."),
    Fixture("tampered_state", ((CONFIRM,),), "state-ok, {}", needs_state=True),
    Fixture("capabilities", ((ANY_NAME, GREETING),), "{1} ({0})"),
    Fixture("prompt", ((TOPIC,),), "Tell me about {}."),
)


def fixture_server(
    style: str,
    make: Callable[[Fixture], Any],
    *,
    sealed: bool = False,
    resource: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Server[None]:
    """A fresh server with every fixture in one style.

    Args:
        style: The style's name.
        make: Makes a fixture's handler.
        sealed, resource: As for `server_of`.
    """
    handlers = {PREFIX + fixture.name: make(fixture) for fixture in FIXTURES}
    return server_of(style, handlers, handlers.pop(PROMPT), sealed=sealed, resource=resource)


def server_of(
    style: str,
    tools: Mapping[str, Tool],
    get_prompt: Any = None,
    *,
    sealed: bool = False,
    resource: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Server[None]:
    """A fresh server.

    Args:
        style: The style's name.
        tools: The tools by name.
        get_prompt: The prompt, if there is one.
        sealed: As for an option's server.
        resource: Kept open while the server serves.
    """

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema) for name in tools]
        )

    async def list_prompts(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT)])

    async def call_tool(ctx: Context, params: ToolParams) -> ToolResult:
        tool = tools.get(params.name)
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
