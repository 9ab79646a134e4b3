"""One generated tool that asks N questions, in every style: by hand, E to J, and L.

Each question names the answer before it, so that it cannot be asked earlier. One effect stands above
the first question where the style lets it, one below the last. Each style is written as its author
would write it for N questions, on that style's stand-in, with the SDK's own sealed state boundary
around all of them: what differs is the style. Knows the styles only by what their authors write.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

import mcp_types as types
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Elicit, Resolve
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from pydantic import BaseModel, Field

from mrtr_options.cost.floor import FLOOR
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.suspended import Call, ContinuationStore, LinearContext
from mrtr_options.sdk.tool_builder import ToolBuilder, Values
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import Question

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult
Effect = Callable[[str], Awaitable[None]]
"""Does the effect of this name; the author's only way to touch the world."""


class Answer(BaseModel):
    """Answer to each of the questions."""

    answer: str


@dataclass(frozen=True)
class Chain:
    """The tool in one style.

    Attributes:
        server: Not yet serving.
        authors: The functions that its author wrote.
    """

    server: Server[Any] | MCPServer[Any]
    authors: tuple[Callable[..., Any], ...]


Style = Callable[[int, Effect], Chain]
"""Makes the tool, with so many questions."""


# --- by hand ------------------------------------------------------------------------------------


def by_hand(questions: int, effect: Effect) -> Chain:
    """The floor: nothing but the SDK."""

    async def call(ctx: Context, params: Params) -> Result:
        answers: list[str] = json.loads(params.request_state) if params.request_state else []
        await effect("first")
        given = (params.input_responses or {}).get(_key(len(answers) + 1))
        if given is not None:
            if not isinstance(given, types.ElicitResult) or given.action != "accept":
                return _text("Nothing was done.")
            answers.append(Answer.model_validate(given.content).answer)
        if len(answers) < questions:
            return types.InputRequiredResult(
                input_requests={_key(len(answers) + 1): _form(_message(answers))},
                request_state=json.dumps(answers),
            )
        await effect("last")
        return _text(" ".join(answers))

    return Chain(_server(FLOOR, call), (call,))


# --- guard first --------------------------------------------------------------------------------


class Answers(BaseModel):
    """What a later round needs."""

    answers: list[str] = Field(default_factory=list[str])


class MarkedAnswers(Markers):
    """What a later round needs, and the markers of the effects that have run."""

    answers: list[str] = Field(default_factory=list[str])


def mrtr_native(questions: int, effect: Effect) -> Chain:
    """E."""

    async def call(ctx: Context, params: Params) -> Result:
        state = load_state(params, Answers)
        await effect("first")
        while len(state.answers) < questions:
            question = _question(state.answers)
            answer = answer_to(question, ctx, params)
            if answer is None:
                return ask(question, state)
            state.answers.append(answer.answer)
        await effect("last")
        return _text(" ".join(state.answers))

    return Chain(_server("e", call), (call,))


def once(questions: int, effect: Effect) -> Chain:
    """F."""

    async def call(ctx: Context, params: Params) -> Result:
        state = load_state(params, MarkedAnswers)
        await state.once("first", lambda: effect("first"))
        while len(state.answers) < questions:
            question = _question(state.answers)
            answer = answer_to(question, ctx, params)
            if answer is None:
                return ask(question, state)
            state.answers.append(answer.answer)
        await state.once("last", lambda: effect("last"))
        return _text(" ".join(state.answers))

    return Chain(_server("f", call), (call,))


def tool_builder(questions: int, effect: Effect) -> Chain:
    """G: one step for each question."""

    def step(number: int) -> Callable[[Context, Params, Values], Question[Answer]]:
        def asks(ctx: Context, params: Params, values: Values) -> Question[Answer]:
            before = [values.get(_key(number - 1), Answer).answer] if number > 1 else []
            return _question(before, number)

        return asks

    async def end(ctx: Context, params: Params, values: Values) -> types.CallToolResult:
        await effect("first")
        answers = [values.get(_key(number), Answer).answer for number in range(1, questions + 1)]
        await effect("last")
        return _text(" ".join(answers))

    builder = ToolBuilder[Any]().end(end)
    for number in range(1, questions + 1):
        builder.step(_key(number), step(number))
    return Chain(_server("g", builder.build()), (step(1), end))


# --- linear -------------------------------------------------------------------------------------


def continuation_store(questions: int, effect: Effect) -> Chain:
    """H."""

    async def call(ctx: LinearContext[Any], params: Call) -> types.CallToolResult:
        answers: list[str] = []
        await effect("first")
        while len(answers) < questions:
            answer = await ctx.elicit(_question(answers))
            answers.append(answer.answer)
        await effect("last")
        return _text(" ".join(answers))

    store = ContinuationStore()
    return Chain(_server("h", store.linear(call), lambda _: store), (call,))


def replay(questions: int, effect: Effect) -> Chain:
    """J."""

    async def call(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        answers: list[str] = []
        await ctx.once("first", lambda key: effect("first"))
        while len(answers) < questions:
            answer = await ctx.elicit(_question(answers))
            answers.append(answer.answer)
        ctx.on_commit(lambda key: effect("last"), key="last")
        return _text(" ".join(answers))

    return Chain(_server("j", keyed_replay(call)), (call,))


def durable(questions: int, effect: Effect) -> Chain:
    """L, on the engine of this process. Needs the extra."""
    from mrtr_options.sdk import durable as engine

    async def call(ctx: engine.DurableContext[Any], params: engine.Call) -> types.CallToolResult:
        answers: list[str] = []
        await ctx.step("first", lambda key: effect("first"))
        while len(answers) < questions:
            answer = await ctx.elicit(_question(answers))
            answers.append(answer.answer)
        await ctx.step("last", lambda key: effect("last"))
        return _text(" ".join(answers))

    store = engine.DurableStore()
    return Chain(_server("l", store.linear(call), store.serving), (call,))


# --- the SDK's resolver -------------------------------------------------------------------------


def resolver(questions: int, effect: Effect) -> Chain:
    """I: a resolver for each question."""

    def resolver_of(number: int) -> Callable[..., Awaitable[Elicit[Answer]]]:
        async def resolve(**before: Answer) -> Elicit[Answer]:
            return Elicit(_message([answer.answer for answer in before.values()], number), Answer)

        return resolve

    parameters: dict[str, Any] = {}
    for number in range(1, questions + 1):
        before = {name: kind for name, kind in parameters.items() if name == _key(number - 1)}
        resolve = _with_parameters(resolver_of(number), before, Elicit[Answer])
        parameters[_key(number)] = Annotated[Answer, Resolve(resolve)]

    async def chain(**answers: Answer) -> str:
        await effect("first")
        await effect("last")
        return " ".join(answer.answer for answer in answers.values())

    server: MCPServer[Any] = MCPServer("chain-i", log_level="WARNING")
    server.add_tool(_with_parameters(chain, parameters, str), TOOL, structured_output=False)
    return Chain(server, (resolver_of(1), chain))


def _with_parameters(function: Callable[..., Any], parameters: dict[str, Any], result: Any) -> Any:
    """The function as if its parameters had been written out."""
    written = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in parameters.items()
    ]
    function.__annotations__ = {**parameters, "return": result}
    vars(function)["__signature__"] = Signature(written, return_annotation=result)
    return function


# --- what the styles share ----------------------------------------------------------------------

STYLES: dict[str, Style] = {
    FLOOR: by_hand,
    "E": mrtr_native,
    "F": once,
    "G": tool_builder,
    "H": continuation_store,
    "I": resolver,
    "J": replay,
}
"""Those that keep no database, by the letter of their option."""


def _key(number: int) -> str:
    return f"answer_{number}"


def _message(answers: list[str], number: int | None = None) -> str:
    number = number or len(answers) + 1
    return f"Question {number}?" if not answers else f"Question {number}, after {answers[-1]!r}?"


def _question(answers: list[str], number: int | None = None) -> Question[Answer]:
    return Question(_key(number or len(answers) + 1), _message(answers, number), Answer)


def _form(message: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


@asynccontextmanager
async def _nothing(_: object) -> AsyncGenerator[None]:
    yield None


def _server(
    name: str,
    handler: Callable[[Context, Params], Awaitable[Result]],
    resource: Callable[[Any], AbstractAsyncContextManager[Any]] = _nothing,
) -> Server[Any]:
    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])

    server: Server[Any] = Server(
        f"chain-{name}", on_list_tools=list_tools, on_call_tool=handler, lifespan=resource
    )
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server
