"""The questions of the suite's fixtures, as data for every style; and the server for the fixtures.

The suite fixes the names of the tools and of the prompt, the keys of the questions and their forms.
Knows the SDK, the questions that can be asked and how a text is sent; no stand-in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from pydantic import BaseModel, create_model

from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined, Inquiry, roots, sampling
from mrtr_options.sdk.server import protect, text
from mrtr_options.tool.weather import Question

PREFIX = "test_input_required_result_"
PROMPT = PREFIX + "prompt"

Context = ServerRequestContext[None, Any]
ToolParams = types.CallToolRequestParams
ToolResult = types.CallToolResult | types.InputRequiredResult
Asked = Question[Any] | Inquiry[Any]


def form(field: str, of: type = str) -> type[BaseModel]:
    """Return the form of an answer with one field."""
    fields: dict[str, Any] = {field: (of, ...)}
    return create_model(field.title(), **fields)


def _message(said: str) -> types.CreateMessageRequestParams:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=said))
    return types.CreateMessageRequestParams(messages=[message], max_tokens=100)


UNASKED = "This client cannot be asked."

_NAME = form("name")
NAME = Question("user_name", "What is your name?", _NAME, unasked=UNASKED)
ANY_NAME = Question("user_name", "What is your name?", _NAME, assumed=_NAME(name="stranger"))
CONFIRM = Question("confirm", "Please confirm", form("ok", bool), unasked=UNASKED)
STEP1 = Question("step1", "Step 1: What is your name?", _NAME, unasked=UNASKED)
STEP2 = Question("step2", "Step 2: Which colour?", form("color"), unasked=UNASKED)
TOPIC = Question("user_context", "Which context?", form("context"), unasked=UNASKED)
CAPITAL = sampling("capital_question", _message("What is the capital of France?"), unasked=UNASKED)
GREETING = sampling("greeting", _message("Generate a greeting"), unasked=UNASKED)
ROOTS = roots("client_roots", unasked=UNASKED)


@dataclass(frozen=True)
class Fixture:
    """A tool or a prompt of the suite.

    Attributes:
        name: Its name after `PREFIX`.
        rounds: Its questions, round by round.
        needs_state: Whether an answer counts only together with the state.
    """

    name: str
    rounds: tuple[tuple[Asked, ...], ...]
    needs_state: bool = False

    @property
    def questions(self) -> list[Asked]:
        """All of its questions, in order."""
        return [question for questions in self.rounds for question in questions]

    def result(self, answers: Sequence[BaseModel]) -> Any:
        """Return the answers to `questions` as JSON, after "state-ok", as the suite expects."""
        said = " ".join(
            ["state-ok", *(each.model_dump_json(exclude_none=True) for each in answers)]
        )
        if PREFIX + self.name != PROMPT:
            return text(said)
        message = types.PromptMessage(role="user", content=types.TextContent(text=said))
        return types.GetPromptResult(messages=[message])


FIXTURES = (
    Fixture("elicitation", ((NAME,),)),
    Fixture("sampling", ((CAPITAL,),)),
    Fixture("list_roots", ((ROOTS,),)),
    Fixture("request_state", ((CONFIRM,),), needs_state=True),
    Fixture("multiple_inputs", ((NAME, GREETING, ROOTS),)),
    Fixture("multi_round", ((STEP1,), (STEP2,))),
    Fixture("tampered_state", ((CONFIRM,),), needs_state=True),
    Fixture("capabilities", ((ANY_NAME, GREETING),)),
    Fixture("prompt", ((TOPIC,),)),
)


def every(make: Callable[[Fixture], Any]) -> dict[str, Any]:
    """Return the handlers of all fixtures by name, made in one style."""
    return {PREFIX + fixture.name: make(fixture) for fixture in FIXTURES}


def server_of(
    style: str,
    handlers: Mapping[str, Any],
    *,
    sealed: bool = False,
    resource: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Server[None]:
    """Build a new server.

    Args:
        style: The style's name.
        handlers: The tools by name, and `PROMPT`, if there is one.
        sealed: As for an option's server.
        resource: The context that is open while the server serves.
    """
    tools = {name: handler for name, handler in handlers.items() if name != PROMPT}

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return types.ListToolsResult(
            tools=[types.Tool(name=each, input_schema=schema) for each in tools]
        )

    async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT)])

    async def call_tool(ctx: Context, params: ToolParams) -> ToolResult:
        if params.name not in tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
        try:
            return await tools[params.name](ctx, params)
        except (Declined, Cancelled) as outcome:
            return text(f"No answer to {outcome.key!r}.")
        except CannotAsk as outcome:
            return text(str(outcome), is_error=True)

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None]:
        async with resource():
            yield None

    server = Server(
        f"conformance-{style}",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts if PROMPT in handlers else None,
        on_get_prompt=handlers.get(PROMPT),
        lifespan=lifespan,
    )
    protect(server, sealed=sealed)
    return server
