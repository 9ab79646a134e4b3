"""One call of the weather tool, made round by round with the SDK's own client.

A modern call is a loop (`converse`): send the request, answer the questions that come back, send
the next request with the answers and the state. Every client of this project is this loop. It
differs in how it sends a request, and in what follows a response. A legacy call is one request, in
which the server may push questions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server
from mcp.server.request_state import InvalidRequestState

from mrtr_options.sdk.protection import read_without_key
from mrtr_options.sdk.telemetry import without_name
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import Effect, EffectKind, Ledger, count

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

MAX_ROUNDS = 20
"""The most requests of a call before it counts as stuck."""


async def converse(
    request: RequestT,
    send: Callable[[RequestT], Awaitable[ResponseT]],
    following: Callable[[RequestT, ResponseT], Awaitable[RequestT | None]],
    most: int = MAX_ROUNDS,
) -> tuple[RequestT, ResponseT]:
    """Make a call: send requests until one has no following request.

    Args:
        request: The first request.
        send: Sends a request, and returns its response.
        following: Returns the request after a response; None if the call is done.
        most: The most requests.

    Returns:
        The last request and its response.
    """
    while True:
        response = await send(request)
        after = await following(request, response)
        most -= 1
        if after is None or most == 0:
            return request, response
        request = after


Era = Literal["modern", "legacy"]
ERAS: tuple[Era, ...] = ("modern", "legacy")
MODES: dict[Era, str] = {"modern": "2026-07-28", "legacy": "legacy"}

Form = types.ElicitRequestFormParams
User = Callable[[Form], Awaitable[types.ElicitResult]]
"""A user: fills in a form, or declines or cancels it."""

PREFERRED = ("Springfield, Illinois", "metric")
"""The choices that the agreeable user takes where a form has them."""


@dataclass(frozen=True)
class Round:
    """One request of a call: the answers and the state that it carries.

    Attributes:
        number: Its number in the call, from 1.
        answers: The answers, by the question's key.
        state: The state.
    """

    number: int = 1
    answers: types.InputResponses | None = None
    state: str | None = None


async def agreeable(form: Form) -> types.ElicitResult:
    """Answer each field of a form: a preferred choice, or its first one; "yes" where none is."""
    content: dict[str, Any] = {}
    for name, schema in form.requested_schema["properties"].items():
        choices: list[str] = schema.get("enum") or [schema.get("const", "yes")]
        preferred = [choice for choice in choices if choice in PREFERRED]
        content[name] = (preferred or choices)[0]
    return types.ElicitResult(action="accept", content=content)


async def agree(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    """Answer a form as the agreeable user does, as a callback of the SDK's client."""
    assert isinstance(params, Form)
    return await agreeable(params)


Kind = Literal["request", "response", "task", "question", "answer", "effect"]


@dataclass(frozen=True)
class Step:
    """One thing that happened in a call.

    Attributes:
        kind: The kind of thing.
        round: The round in which it happened, from 1.
        lines: What went over the wire, line by line; of an effect, its kind and subject.
        label: The same in a few words.
        lost: Whether the response did not arrive.
        again: Whether the request was sent before.
    """

    kind: Kind
    round: int
    lines: tuple[str, ...]
    label: str
    lost: bool = False
    again: bool = False


@dataclass
class Outcome:
    """A call as its user sees it.

    Attributes:
        era: The client's era.
        location: The tool's argument.
        takes_tasks: Whether the client declares the Tasks extension.
        steps: What happened, in order.
        questions: The messages that the user saw, in order.
        rounds: The number of rounds.
        text: The text of the result, or the message of the error.
        is_error: Whether the call ended in an error.
        code: The JSON-RPC code of the error, if it was one.
        effects: How often each effect took place.
    """

    era: Era
    location: str
    takes_tasks: bool = False
    steps: list[Step] = field(default_factory=list[Step])
    questions: list[str] = field(default_factory=list[str])
    rounds: int = 0
    text: str = ""
    is_error: bool = False
    code: int | None = None
    effects: dict[EffectKind, int] = field(default_factory=dict[EffectKind, int])


def _ignore(step: Step) -> None:
    return


@dataclass
class Call:
    """One call, from its first request to its result.

    Attributes:
        server: An option's server.
        ledger: The ledger of that server.
        era: The client's era.
        location: The tool's argument.
        user: Answers the questions.
        on_step: Called with each step as it happens.
        extensions: The extensions of the protocol that the client declares.
        last: The last request.
    """

    server: Server[Any] | MCPServer[Any]
    ledger: Ledger
    era: Era
    location: str
    user: User = agreeable
    on_step: Callable[[Step], None] = _ignore
    extensions: Sequence[ClientExtension] = ()

    def __post_init__(self) -> None:
        self.outcome = Outcome(self.era, self.location)
        self.client = Client(
            self.server,
            mode=MODES[self.era],
            elicitation_callback=self._pushed,
            extensions=self.extensions,
        )
        self._seen = 0
        self.last = Round()

    async def make(self) -> Outcome:
        """Connect, make the call, and return what the user saw."""
        async with self.connected():
            await self.play()
        return self.outcome

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Keep the client connected in this block, and count the effects that happen in it."""
        before = await self.ledger.effects()
        self._seen = len(before)
        async with self.client:
            yield
        after = await self.ledger.effects()
        self.outcome.effects = count(after[len(before) :])

    async def play(self, first: Round = Round()) -> None:
        """Play the call's rounds, from the first one or from one that was sent before."""
        _, last = await converse(first, self._send, self._following)
        if isinstance(last, types.InputRequiredResult):
            raise RuntimeError(f"the call has not ended after {MAX_ROUNDS} rounds")

    async def _following(self, sent: Round, response: types.Result | None) -> Round | None:
        """Return the round that answers the questions of a response; None at the end."""
        if not isinstance(response, types.InputRequiredResult):
            return None
        answers = await self.answers_to(response.input_requests or {})
        return Round(sent.number + 1, answers, response.request_state)

    async def _send(self, sent: Round) -> types.Result | None:
        """Send one request and return its response; None if that is a JSON-RPC error."""
        answers, state = sent.answers, sent.state
        is_repeated = sent.number > 1 and sent == self.last
        self.last = sent
        self.outcome.rounds = sent.number
        self._show_request(answers, state, is_repeated)
        try:
            response = await self.client.session.call_tool(
                TOOL,
                {"location": self.outcome.location},
                input_responses=answers,
                request_state=state,
                allow_input_required=True,
                allow_claimed=True,
            )
        except MCPError as error:
            await self.tell_effects()
            self.end(error.message, code=error.code)
            return None
        await self.tell_effects()
        await self.receive(response)
        return response

    async def receive(self, response: types.Result) -> None:
        """Show a response, and end the call with it unless it asks."""
        if isinstance(response, types.InputRequiredResult):
            keys = ", ".join(response.input_requests or {})
            if keys:
                self.tell("response", f"input required: {keys}", label=f"asks {keys}")
            else:
                self.tell("response", "a state and no question", label="a state and no question")
            return
        assert isinstance(response, types.CallToolResult)
        self.end_with(response)

    def end_with(self, result: types.CallToolResult) -> None:
        """End the call with a result."""
        blocks = [block for block in result.content if isinstance(block, types.TextContent)]
        text = "".join(block.text for block in blocks)
        self.end(text, is_error=bool(result.is_error))

    # --- what is shown ----------------------------------------------------------------------------

    def _show_request(
        self, answers: types.InputResponses | None, state: str | None, again: bool
    ) -> None:
        said = {
            key: answer.model_dump(exclude_none=True) for key, answer in (answers or {}).items()
        }
        what = f"{TOOL}(location={self.outcome.location!r})"
        lines = request_lines(what, said, state, _read)
        label = ", ".join(map(_chosen, (answers or {}).values()))
        label = label or f"{TOOL}({self.outcome.location})"
        self.tell("request", *lines, label=label, again=again)

    def end(self, text: str, *, is_error: bool = True, code: int | None = None) -> None:
        """Record how the call ended."""
        kind = "result" if not is_error else "error"
        number = "" if code is None else f" {code}"
        self.tell("response", f"{kind}{number}: {text}", label=text)
        self.outcome.text = text
        self.outcome.is_error = is_error
        self.outcome.code = code

    def tell(self, kind: Kind, *lines: str, label: str, again: bool = False) -> None:
        """Record a step and show it."""
        step = Step(kind, self.outcome.rounds, lines, label, again=again)
        self.outcome.steps.append(step)
        self.on_step(step)

    async def tell_effects(self) -> None:
        """Tell the effects that took place since the last look at the ledger."""
        effects = await self.ledger.effects()
        for effect in effects[self._seen :]:
            self.tell("effect", effect_line(effect), label=effect.kind)
        self._seen = len(effects)

    # --- the user ---------------------------------------------------------------------------------

    async def answers_to(self, requests: types.InputRequests) -> types.InputResponses:
        """Return the user's answers to the questions of a response."""
        answers: types.InputResponses = {}
        for key, request in requests.items():
            assert isinstance(request.params, Form)
            answers[key] = await self._answer(request.params)
        return answers

    async def _answer(self, form: Form) -> types.ElicitResult:
        self.outcome.questions.append(form.message)
        self.tell("question", form.message, label=form.message)
        answer = await self.user(form)
        said = "" if answer.content is None else f" {json.dumps(answer.content)}"
        self.tell("answer", f"{answer.action}{said}", label=_chosen(answer))
        return answer

    async def _pushed(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Answer a question that the server pushes inside a legacy call."""
        await self.tell_effects()
        assert isinstance(params, Form)
        return await self._answer(params)


def request_lines(
    what: str, answers: Mapping[str, Any], state: str | None, read: Callable[[str], str]
) -> list[str]:
    """Return a request as it goes over the wire; `read` says what a client can read of a state."""
    lines = [what]
    if answers:
        lines.append(f"answers {json.dumps(answers)}")
    if state is not None:
        lines.append(f"state of {len(state)} bytes, {read(state)}")
    return lines


def effect_line(effect: Effect) -> str:
    """Return an effect with its idempotency key, if it has one."""
    key = "" if effect.key is None else f" (idempotency key {effect.key!r})"
    return f"{effect.kind} {effect.subject!r}{key}"


def _chosen(answer: types.InputResponse) -> str:
    """Return the choices of an answer, or that it was declined or cancelled."""
    assert isinstance(answer, types.ElicitResult)
    if not answer.content:
        return answer.action
    return ", ".join(str(value) for value in answer.content.values())


def _read(state: str) -> str:
    """Return the part of a state that a client can read."""
    try:
        payload = read_without_key(state)
    except InvalidRequestState:
        return "of the server's own format"
    if payload is None:
        return "sealed"
    return f"signed, reads {json.loads(without_name(payload))['s']}"
