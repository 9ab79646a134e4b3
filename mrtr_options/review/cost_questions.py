"""What a call costs by the number of its questions, each of which depends on the answer before it.

One tool with N questions, generated for each style: the SDK's resolver (I) and keyed replay (J). They
are timed in turns, in one run, and what each of them executes for one call is counted.
Knows the styles only by what their authors write.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Elicit, Resolve
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from pydantic import BaseModel

from mrtr_options.observe import MODES
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.weather import Question

TOOL = "chain"
QUESTIONS = 3
CALLS = 20
"""Calls in one timing."""
REPEATS = 15
"""Timings of each style, taken in turns."""

Count = Callable[[str], None]


class Answer(BaseModel):
    """Answer to each of the questions."""

    answer: str


@dataclass(frozen=True)
class QuestionsTiming:
    """Time of one call of the generated tool, in memory.

    Attributes:
        option: A letter.
        questions: How many the call asks.
        milliseconds: Median over the repeats.
        ratio: Median of the ratio to I's timing in the same repeat.
        low, high: The middle half of those ratios.
        executed: How often one call executes each piece of the author's code.
    """

    option: str
    questions: int
    milliseconds: float
    ratio: float
    low: float
    high: float
    executed: dict[str, int]


def resolver_server(questions: int, count: Count) -> MCPServer[Any]:
    """The tool with a resolver for each question.

    Args:
        questions: How many.
        count: Told the name of each function that is entered.
    """

    def resolver(number: int) -> Callable[..., Awaitable[Elicit[Answer]]]:
        async def resolve(**before: Answer) -> Elicit[Answer]:
            count(f"resolver {number}")
            last = before[f"answer_{number - 1}"].answer if before else None
            return Elicit(_message(number, last), Answer)

        return resolve

    parameters: dict[str, Any] = {}
    for number in range(1, questions + 1):
        before = {name: kind for name, kind in parameters.items() if name == f"answer_{number - 1}"}
        resolve = _with_parameters(resolver(number), before, Elicit[Answer])
        parameters[f"answer_{number}"] = Annotated[Answer, Resolve(resolve)]

    async def chain(**answers: Answer) -> str:
        count("body")
        return " ".join(answer.answer for answer in answers.values())

    server: MCPServer[Any] = MCPServer("chain-i", log_level="WARNING")
    server.add_tool(_with_parameters(chain, parameters, str), TOOL, structured_output=False)
    return server


def _with_parameters(function: Callable[..., Any], parameters: dict[str, Any], result: Any) -> Any:
    """The function as if its parameters had been written out."""
    written = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in parameters.items()
    ]
    function.__annotations__ = {**parameters, "return": result}
    vars(function)["__signature__"] = Signature(written, return_annotation=result)
    return function


def replay_server(questions: int, count: Count) -> Server[Any]:
    """The tool as one linear handler, with an effect in `once` above its questions and a `memo` below.

    Args:
        questions: How many.
        count: Told the name of each piece of code that is entered.
    """

    async def effect(key: str) -> None:
        count("once")

    async def value() -> int:
        count("memo")
        return questions

    async def call(ctx: ReplayContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        count("handler")
        await ctx.once("effect", effect)
        answers: list[str] = []
        for number in range(1, questions + 1):
            message = _message(number, answers[-1] if answers else None)
            answer = await ctx.elicit(Question(f"answer_{number}", message, Answer))
            answers.append(answer.answer)
        await ctx.memo("value", value)
        return types.CallToolResult(content=[types.TextContent(text=" ".join(answers))])

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])

    server: Server[Any] = Server("chain-j", on_list_tools=list_tools, on_call_tool=keyed_replay(call))
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


def _message(number: int, last: str | None) -> str:
    return f"Question {number}?" if last is None else f"Question {number}, after {last!r}?"


async def time_per_question_count(
    counts: Sequence[int], progress: Callable[[], None]
) -> list[QuestionsTiming]:
    """Time one call of each style, for each number of questions.

    Args:
        counts: The numbers of questions.
        progress: Called `REPEATS` times for each of them.
    """
    return [each for questions in counts for each in await _time_per_call(questions, progress)]


async def _time_per_call(questions: int, progress: Callable[[], None]) -> list[QuestionsTiming]:
    executed: dict[str, Counter[str]] = {"I": Counter(), "J": Counter()}
    seconds: dict[str, list[float]] = {name: [] for name in executed}
    async with _clients(questions, executed) as clients:
        for name, client in clients.items():
            await client.call_tool(TOOL)
            executed[name].clear()
            await client.call_tool(TOOL)
        once = {name: dict(counted) for name, counted in executed.items()}
        for _ in range(REPEATS):
            for name, client in clients.items():
                gc.collect()
                start = time.perf_counter()
                for _ in range(CALLS):
                    await client.call_tool(TOOL)
                seconds[name].append((time.perf_counter() - start) / CALLS)
            progress()
    timings: list[QuestionsTiming] = []
    for name, own in seconds.items():
        ratios = [mine / base for mine, base in zip(own, seconds["I"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        milliseconds = statistics.median(own) * 1000
        timings.append(QuestionsTiming(name, questions, milliseconds, middle, low, high, once[name]))
    return timings


@asynccontextmanager
async def _clients(
    questions: int, executed: dict[str, Counter[str]]
) -> AsyncGenerator[dict[str, Client]]:
    servers: dict[str, Server[Any] | MCPServer[Any]] = {
        "I": resolver_server(questions, lambda name: executed["I"].update([name])),
        "J": replay_server(questions, lambda name: executed["J"].update([name])),
    }
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(
                Client(server, mode=MODES["modern"], elicitation_callback=_answer)
            )
            for name, server in servers.items()
        }


async def _answer(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": "yes"})
