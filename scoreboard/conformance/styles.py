"""The fixtures in every style: the way from a fixture's questions to the answers in each option.

Besides the styles there is `careless`, the worst server that passes the suite. It ignores the
answers, and its state is a number in plain text that anyone can write. Knows the stand-ins. `python
-m scoreboard.conformance.styles E` prints a URL, and serves one style until it is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context as ResolverContext
from mcp.server.mcpserver import Elicit, Resolve
from mcp.server.mcpserver.resolve import ListRoots, Sample
from mcp_types import (
    INVALID_PARAMS,
    CreateMessageRequest,
    InputRequiredResult,
    InputResponseRequestParams,
)
from pydantic import BaseModel, Field

from mrtr_options.sdk import questions as asks
from mrtr_options.sdk.capabilities import can_ask, kinds
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.replay import keyed_replay
from mrtr_options.sdk.serving import PATH, listen, serve_http
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.sdk.tool_builder import ToolBuilder
from scoreboard.conformance.fixtures import (
    FIXTURES,
    PREFIX,
    PROMPT,
    Asked,
    Context,
    Fixture,
    every,
    server_of,
)


class State(Markers):
    """The facts that a later round of E and F needs: the answers by key, and F's markers."""

    answers: dict[str, Any] = Field(default_factory=dict[str, Any])


async def _effect() -> None:
    """Do nothing: F has an effect above its questions, and the suite sees no effects."""


def guard_first(fixture: Fixture, *, marked: bool = False) -> Any:
    """Return a handler in the style of E; with a marked effect above the questions, of F."""

    async def handle(ctx: Context, params: InputResponseRequestParams) -> Any:
        if fixture.needs_state and params.request_state is None:
            params = params.model_copy(update={"input_responses": None})
        state = asks.load_state(params, State)
        if marked:
            await state.once("effect", _effect)
        answers: list[BaseModel] = []
        for questions in fixture.rounds:
            missing: list[Asked] = []
            for question in questions:
                kept = state.answers.get(question.key)
                answer = question.answer.model_validate(kept) if kept else None
                answer = answer or asks.answer_to(question, ctx, params)
                if answer is None:
                    missing.append(question)
                else:
                    state.answers[question.key] = answer.model_dump(mode="json", by_alias=True)
                    answers.append(answer)
            if missing:
                return InputRequiredResult(
                    input_requests={each.key: asks.request_for(each) for each in missing},
                    request_state=state.model_dump_json(),
                )
        return fixture.result(answers)

    return handle


def steps(fixture: Fixture) -> Any:
    """Return a handler in the style of G: a step for each question, and an end step."""

    def step(question: Asked) -> Callable[..., Asked]:
        return lambda *_: question

    def end(ctx: Any, params: Any, values: Any) -> Any:
        return fixture.result([values.get(each.key, each.answer) for each in fixture.questions])

    builder = ToolBuilder[Any, Any, Any]().end(end)
    for questions in fixture.rounds:
        builder.together({question.key: step(question) for question in questions})
    return builder.build()


def linear(fixture: Fixture) -> Any:
    """Return the body of H, J and L: their author awaits the answers."""

    async def handle(ctx: Any, params: object) -> Any:
        answers: list[BaseModel] = []
        for first, *others in fixture.rounds:
            answers += await ctx.elicit_all(first, *others) if others else [await ctx.elicit(first)]
        return fixture.result(answers)

    handle.__qualname__ = fixture.name  # a durable handler finds its calls by this name
    return handle


def continuation_store() -> Server[None]:
    """Build the server of H."""
    store = ContinuationStore()
    return server_of("h", every(lambda each: store.linear(linear(each))), resources=[store])


def resolvers() -> MCPServer[Any]:
    """Build the server of I, on the SDK's high tier, where no prompt can ask."""
    server = MCPServer[Any]("conformance-i", version="1", log_level="CRITICAL")
    for fixture in FIXTURES:
        if PREFIX + fixture.name != PROMPT:
            server.add_tool(_resolved(fixture), PREFIX + fixture.name, structured_output=False)
    return server


def _resolved(fixture: Fixture) -> Any:
    """Return a tool with a parameter for each question.

    The resolvers of a later round depend on an earlier answer.
    """
    parameters: dict[str, Any] = {}
    for questions in fixture.rounds:
        before = dict(list(parameters.items())[-1:])
        for question in questions:
            resolve = with_parameters(_resolver(question), before | {"ctx": ResolverContext})
            parameters[question.key] = Annotated[question.answer, Resolve(resolve)]

    async def call(**answers: BaseModel) -> Any:
        return fixture.result([answers[question.key] for question in fixture.questions])

    return with_parameters(call, parameters)


def _resolver(question: Asked) -> Any:
    async def resolve(ctx: Any, **before: BaseModel) -> Any:
        match question:
            case asks.Inquiry(request=CreateMessageRequest(params=params)):
                return Sample(params.messages, max_tokens=params.max_tokens)
            case asks.Inquiry():
                return ListRoots()
            case _:
                assumes = question.assumed is not None and not can_ask(ctx.request_context)
                return question.assumed if assumes else Elicit(question.message, question.answer)

    resolve.__qualname__ = question.key  # the SDK takes the question's key from this name
    return resolve


def with_parameters(function: Any, parameters: dict[str, Any]) -> Any:
    """Give a function the signature that it would have with these parameters."""
    written = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=of) for name, of in parameters.items()
    ]
    function.__annotations__ = parameters
    function.__signature__ = Signature(written)
    return function


def tasks() -> Server[None]:
    """Build the server of K, which needs the extra."""
    from scoreboard.conformance.tasks import server

    return server()


def durable() -> Server[None]:
    """Build the server of L, which needs the extra."""
    from mrtr_options.sdk.durable import DurableStore

    store = DurableStore()
    return server_of(
        "l",
        every(lambda each: store.linear(linear(each))),
        sealed=True,
        resources=[store.serving],
    )


def ignores_answers(fixture: Fixture) -> Any:
    """Return a handler that asks round by round, and ignores the content of every answer."""

    async def handle(ctx: Context, params: InputResponseRequestParams) -> Any:
        number = params.request_state or "0"
        if number not in "012":
            raise MCPError(INVALID_PARAMS, "Invalid requestState")
        for index, questions in enumerate(fixture.rounds[int(number) :], int(number)):
            if not any(question.key in (params.input_responses or {}) for question in questions):
                wanted = [each for each in questions if asks.kind_of(each) in kinds(ctx)]
                requests = {each.key: asks.request_for(each) for each in wanted}
                return InputRequiredResult(input_requests=requests, request_state=str(index))
        return fixture.result(())

    return handle


def careless() -> Server[None]:
    """Build the careless server, without the boundary that protects the state."""
    server = server_of("careless", every(ignores_answers))
    server.middleware.pop()
    return server


STYLES: dict[str, Callable[[], Server[None] | MCPServer[Any]]] = {
    "E": lambda: server_of("e", every(guard_first)),
    "F": lambda: server_of("f", every(lambda each: guard_first(each, marked=True))),
    "G": lambda: server_of("g", every(steps)),
    "H": continuation_store,
    "I": resolvers,
    "J": lambda: server_of("j", every(lambda each: keyed_replay(linear(each))), sealed=True),
    "K": tasks,
    "L": durable,
    "careless": careless,
}
"""The function that builds the server of a style, by the letter of the option."""


def serve(style: str) -> None:
    """Serve a style on a free port of 127.0.0.1, and print the URL."""
    listener = listen(0)
    host, port = listener.getsockname()
    print(f"http://{host}:{port}{PATH}", flush=True)  # the runner reads it
    serve_http(STYLES[style](), listener)


if __name__ == "__main__":
    serve(sys.argv[1])
