"""The fixtures in every style: for each, how its author gets from a fixture's questions to the answers.

Besides the styles there is `careless`, which is none: the worst server that the suite has nothing
against. It ignores the answers, and its state is a number in plain text that anyone can write. The
suite passes it in every scenario; `report.NOT_CHECKED` says which schedules of the review do not.
Knows the stand-ins.
"""

from __future__ import annotations

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
    ListRootsRequest,
)
from pydantic import BaseModel, Field

from mrtr_options.conformance.fixtures import (
    FIXTURES,
    PREFIX,
    PROMPT,
    Asked,
    Context,
    Fixture,
    fixture_server,
)
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.questions import (
    Inquiry,
    answer_to,
    can_ask,
    kind_of,
    kinds,
    load_state,
    request_for,
)
from mrtr_options.sdk.replay import keyed_replay
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.sdk.tool_builder import ToolBuilder
from mrtr_options.tool.settings import database_url

# --- E and F: rounds by hand --------------------------------------------------------------------


class State(Markers):
    """What a later round needs: the answers so far, by key, and F's markers."""

    answers: dict[str, Any] = Field(default_factory=dict[str, Any])


async def _effect() -> None:
    """What F has above its questions. The suite sees no effects, so this does nothing."""


def guard_first(fixture: Fixture, *, marked: bool = False) -> Any:
    """E; with a marked effect above the questions, F."""

    async def handle(ctx: Context, params: InputResponseRequestParams) -> Any:
        if fixture.needs_state and params.request_state is None:
            params = params.model_copy(update={"input_responses": None})
        state = load_state(params, State)
        if marked:
            await state.once("effect", _effect)
        answers: list[BaseModel] = []
        for questions in fixture.rounds:
            missing: list[Asked] = []
            for question in questions:
                kept = state.answers.get(question.key)
                answer = question.answer.model_validate(kept) if kept else None
                answer = answer or answer_to(question, ctx, params)
                if answer is None:
                    missing.append(question)
                else:
                    state.answers[question.key] = answer.model_dump(mode="json", by_alias=True)
                    answers.append(answer)
            if missing:
                return InputRequiredResult(
                    input_requests={question.key: request_for(question) for question in missing},
                    request_state=state.model_dump_json(),
                )
        return fixture.result(answers)

    return handle


# --- G: steps -----------------------------------------------------------------------------------


def steps(fixture: Fixture) -> Any:
    """G: a step for each question, and an end step."""

    def asks(question: Asked) -> Callable[..., Asked]:
        return lambda *_: question

    def end(ctx: Any, params: Any, values: Any) -> Any:
        return fixture.result([values.get(each.key, each.answer) for each in fixture.questions])

    builder = ToolBuilder[Any, Any, Any]().end(end)
    for questions in fixture.rounds:
        builder.together({question.key: asks(question) for question in questions})
    return builder.build()


# --- H, J and L: linear -------------------------------------------------------------------------


def linear(fixture: Fixture) -> Any:
    """The one body of every style whose author awaits the answers."""

    async def handle(ctx: Any, params: object) -> Any:
        answers: list[BaseModel] = []
        for first, *others in fixture.rounds:
            if others:
                answers += await ctx.elicit_all(first, *others)
            else:
                answers.append(await ctx.elicit(first))
        return fixture.result(answers)

    handle.__qualname__ = fixture.name  # a durable handler's calls are found by it
    return handle


def continuation_store() -> Server[None]:
    """H."""
    store = ContinuationStore()
    return fixture_server("h", lambda each: store.linear(linear(each)), resource=lambda: store)


def durable() -> Server[None]:
    """L. Needs the extra."""
    from mrtr_options.sdk.durable import DurableStore

    store, database = DurableStore(), database_url()
    return fixture_server(
        "l",
        lambda each: store.linear(linear(each)),
        sealed=True,
        resource=lambda: store.serving(None, database=database),
    )


# --- I: the SDK's resolvers ---------------------------------------------------------------------


def resolvers() -> MCPServer[Any]:
    """I, on the SDK's high tier. It has no prompts that ask."""
    server = MCPServer[Any]("conformance-i", version="1", log_level="WARNING")
    for fixture in FIXTURES:
        if PREFIX + fixture.name != PROMPT:
            server.add_tool(_resolved(fixture), PREFIX + fixture.name, structured_output=False)
    return server


def _resolved(fixture: Fixture) -> Any:
    """A tool with a parameter for each question; a later round's resolvers have an earlier answer."""
    parameters: dict[str, Any] = {}
    for questions in fixture.rounds:
        before = dict(list(parameters.items())[-1:])
        for question in questions:
            resolve = _with_parameters(_resolver(question), before | {"ctx": ResolverContext})
            parameters[question.key] = Annotated[question.answer, Resolve(resolve)]

    async def call(**answers: BaseModel) -> Any:
        return fixture.result([answers[question.key] for question in fixture.questions])

    return _with_parameters(call, parameters)


def _resolver(question: Asked) -> Any:
    async def resolve(ctx: Any, **before: BaseModel) -> Any:
        match question:
            case Inquiry(request=CreateMessageRequest(params=params)):
                return Sample(params.messages, max_tokens=params.max_tokens)
            case Inquiry(request=ListRootsRequest()):
                return ListRoots()
            case Inquiry():
                raise NotImplementedError(question.key)
            case _:
                assumes = question.assumed is not None and not can_ask(ctx.request_context)
                return question.assumed if assumes else Elicit(question.message, question.answer)

    resolve.__qualname__ = question.key  # the SDK makes the question's key of it
    return resolve


def _with_parameters(function: Any, parameters: dict[str, Any]) -> Any:
    """The function as if its parameters had been written out."""
    written = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=of) for name, of in parameters.items()]
    function.__annotations__, function.__signature__ = parameters, Signature(written)
    return function


# --- careless -----------------------------------------------------------------------------------


def ignores_answers(fixture: Fixture) -> Any:
    """Asks round by round, and looks at no answer."""

    async def handle(ctx: Context, params: InputResponseRequestParams) -> Any:
        number = params.request_state or "0"
        if number not in "012":
            raise MCPError(INVALID_PARAMS, "Invalid requestState")
        for index, questions in enumerate(fixture.rounds[int(number) :], int(number)):
            if not any(question.key in (params.input_responses or {}) for question in questions):
                wanted = [question for question in questions if kind_of(question) in kinds(ctx)]
                requests = {question.key: request_for(question) for question in wanted}
                return InputRequiredResult(input_requests=requests, request_state=str(index))
        return Fixture(fixture.name, (), "Done.").result(())

    return handle


def careless() -> Server[None]:
    """The careless server, without the boundary that protects the state."""
    server = fixture_server("careless", ignores_answers)
    server.middleware.pop()
    return server


STYLES: dict[str, Callable[[], Server[None] | MCPServer[Any]]] = {
    "E": lambda: fixture_server("e", guard_first),
    "F": lambda: fixture_server("f", lambda each: guard_first(each, marked=True)),
    "G": lambda: fixture_server("g", steps),
    "H": continuation_store,
    "I": resolvers,
    "J": lambda: fixture_server("j", lambda each: keyed_replay(linear(each)), sealed=True),
    "L": durable,
    "careless": careless,
}
"""Makes a fresh server, by the letter of the option."""
