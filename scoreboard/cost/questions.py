"""The cost of a call with many questions: a generated tool in each way to move between questions.

Each question names the answer before it, so that it cannot be asked earlier. Each way is written as
its author would write it, on that option's stand-in. F stands for guards (E, F and their wrappers),
H for a frame that waits, J for re-execution, and I for the SDK's resolver. Knows the author's code
of each.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Annotated, Any

import mcp_types as types
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from pydantic import BaseModel, Field

from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.protection import ProtectedRounds
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.sdk.replay import keyed_replay
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.tool.server import TOOL, text
from mrtr_options.tool.weather import Question
from scoreboard.conformance.styles import with_parameters
from scoreboard.cost.calls import AnyServer, time_servers
from scoreboard.cost.floor import list_one_tool
from scoreboard.cost.report import FLOOR, QUESTIONS, Cost
from scoreboard.cost.timing import Progress

CALLS = 2
TURNS = 40

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult


async def time_questions(progress: Progress) -> list[Cost]:
    """Time one call with `QUESTIONS` questions in each way, beside the floor.

    Args:
        progress: Called `TURNS` times.
    """
    servers = {name: make(QUESTIONS) for name, make in WAYS.items()}
    return await time_servers(servers, CALLS, TURNS, progress)


class Answer(BaseModel):
    """The answer to each of the questions."""

    answer: str


class Answers(Markers):
    """The facts that a later round needs."""

    answers: list[str] = Field(default_factory=list[str])


def by_hand(questions: int) -> AnyServer:
    """Build the floor: nothing but the SDK."""
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    }

    async def call(ctx: Context, params: Params) -> Result:
        answers: list[str] = json.loads(params.request_state) if params.request_state else []
        given = (params.input_responses or {}).get(_key(len(answers) + 1))
        if given is not None:
            assert isinstance(given, types.ElicitResult)
            answers.append(Answer.model_validate(given.content).answer)
        if len(answers) == questions:
            return text(" ".join(answers))
        message = _message(len(answers) + 1, *answers)
        form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        asked: types.InputRequests = {_key(len(answers) + 1): types.ElicitRequest(params=form)}
        return types.InputRequiredResult(input_requests=asked, request_state=json.dumps(answers))

    return _server(call)


def guards(questions: int) -> AnyServer:
    """Build the tool as F: a guard for each question."""

    async def call(ctx: Context, params: Params) -> Result:
        state = load_state(params, Answers)
        while len(state.answers) < questions:
            question = _question(state.answers)
            answer = answer_to(question, ctx, params)
            if answer is None:
                return ask(question, state)
            state.answers.append(answer.answer)
        return text(" ".join(state.answers))

    return _server(call)


def linear(questions: int) -> Any:
    """Return the body of H and J: their author awaits the answers."""

    async def call(ctx: Any, params: object) -> types.CallToolResult:
        answers: list[str] = []
        while len(answers) < questions:
            answers.append((await ctx.elicit(_question(answers))).answer)
        return text(" ".join(answers))

    return call


def frame(questions: int) -> AnyServer:
    """Build the tool as H: the handler waits."""
    store = ContinuationStore()
    return _server(store.linear(linear(questions)), lambda _: store)


def replay(questions: int) -> AnyServer:
    """Build the tool as J: the handler begins again in each round."""
    return _server(keyed_replay(linear(questions)))


def resolver(questions: int) -> AnyServer:
    """Build the tool as I: a resolver for each question, as a parameter of the tool."""

    def resolver_of(number: int, before: dict[str, Any]) -> Any:
        async def resolve(**answers: Answer) -> Elicit[Answer]:
            return Elicit(_message(number, *(each.answer for each in answers.values())), Answer)

        return with_parameters(resolve, before)

    parameters: dict[str, Any] = {}
    for number in range(1, questions + 1):
        before = {name: kind for name, kind in parameters.items() if name == _key(number - 1)}
        parameters[_key(number)] = Annotated[Answer, Resolve(resolver_of(number, before))]

    async def chain(**answers: Answer) -> str:
        return " ".join(each.answer for each in answers.values())

    server: MCPServer[Any] = MCPServer("questions", log_level="WARNING")
    server.add_tool(with_parameters(chain, parameters), TOOL, structured_output=False)
    return server


WAYS: dict[str, Callable[[int], AnyServer]] = {
    FLOOR: by_hand,
    "F": guards,
    "H": frame,
    "I": resolver,
    "J": replay,
}
"""The functions that build the tool with a number of questions, by the option's letter."""


def _key(number: int) -> str:
    return f"answer_{number}"


def _message(number: int, *before: str) -> str:
    return f"Question {number}, after {before[-1]!r}?" if before else f"Question {number}?"


def _question(answers: list[str]) -> Question[Answer]:
    number = len(answers) + 1
    return Question(_key(number), _message(number, *answers), Answer)


def _server(
    handler: Callable[[Context, Params], Awaitable[Result]],
    resource: Callable[[Any], AbstractAsyncContextManager[Any]] = nullcontext,
) -> AnyServer:
    server: Server[Any] = Server(
        "questions", on_list_tools=list_one_tool, on_call_tool=handler, lifespan=resource
    )
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(ProtectedRounds(security, server=server.name))
    return server
