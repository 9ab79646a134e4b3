"""One call through the in-memory client, watched from both ends.

Drives the rounds by hand, so that each can be seen, and notes everything in the order in which it
happened: requests, questions, answers, effects, responses. A call that is to become a task is driven
by the Tasks extension of the client instead. Knows `options`, `server`, `weather` and that extension;
nothing of any option's machinery.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext

from mrtr_options.sdk.tasks_client import TasksClient
from mrtr_options.sdk.tasks_wire import TaskFields
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.protection import read_without_key
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.telemetry import without_name

Era = Literal["legacy", "modern"]
ERAS: tuple[Era, ...] = ("modern", "legacy")
MODES: dict[Era, str] = {"modern": "2026-07-28", "legacy": "legacy"}
MAX_ROUNDS = 10

Answerer = Callable[[types.ElicitRequestFormParams], Awaitable[types.ElicitResult]]


@dataclass(frozen=True)
class Asked:
    """A question as the user saw it: `schema` is the form's JSON schema."""

    message: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A request of the client's: the answers it carried by key, and the state token, if any."""

    answers: dict[str, Any]
    state: str | None

    @property
    def readable(self) -> str | None:
        """What the client can read of the state it carries: the author's part of a signed one."""
        payload = read_without_key(self.state) if self.state else None
        return None if payload is None else json.loads(without_name(payload))["s"]


@dataclass(frozen=True)
class Answered:
    """What the user did: accept, decline or cancel, and the form's content."""

    action: str
    content: dict[str, Any] | None


@dataclass(frozen=True)
class Received:
    """A response: a result, or the questions it asks, or an error with its code."""

    text: str | None = None
    is_error: bool = False
    questions: tuple[str, ...] = ()
    code: int | None = None


@dataclass(frozen=True)
class Stood:
    """How a task stood when the client looked and something had changed."""

    status: str
    message: str | None


Event = Sent | Asked | Answered | Received | Stood | weather.Effect


@dataclass
class Observation:
    """Everything seen during one call.

    Attributes:
        era: The client's.
        location: What was asked for.
        task: Whether the client took tasks.
        events: Everything, in the order in which it happened.
    """

    era: Era
    location: str
    task: bool = False
    events: list[Event] = field(default_factory=list[Event])

    @property
    def outcome(self) -> Received:
        """The last response."""
        return [event for event in self.events if isinstance(event, Received)][-1]

    @property
    def rounds(self) -> int:
        """How many requests the client sent for the call."""
        return sum(isinstance(event, Sent) for event in self.events)

    @property
    def questions(self) -> list[Asked]:
        """The questions the user saw, in order."""
        return [event for event in self.events if isinstance(event, Asked)]

    @property
    def effects(self) -> dict[weather.EffectKind, int]:
        """How often each effect took place."""
        return weather.count(tuple(event for event in self.events if isinstance(event, weather.Effect)))

    def as_json(self, letter: str) -> dict[str, Any]:
        """The observation as one JSON object."""
        outcome = self.outcome
        return {
            "option": letter,
            "era": self.era,
            "location": self.location,
            "task": self.task,
            "text": outcome.text,
            "is_error": outcome.is_error,
            "code": outcome.code,
            "rounds": self.rounds,
            "questions": [question.message for question in self.questions],
            "effects": self.effects,
        }


class WatchedLedger:
    """A ledger that tells somebody of each effect, after the ledger behind it has it."""

    def __init__(self, ledger: weather.Ledger, tell: Callable[[weather.Effect], None]) -> None:
        self._ledger = ledger
        self._tell = tell

    async def record(self, effect: weather.Effect) -> None:
        await self._ledger.record(effect)
        self._tell(effect)

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


async def agreeable(form: types.ElicitRequestFormParams) -> types.ElicitResult:
    """A user who answers every form: Springfield is in Illinois, units are metric."""
    wanted = ("Springfield, Illinois", "metric")
    content: dict[str, Any] = {}
    for name, schema in form.requested_schema["properties"].items():
        content[name] = next(
            (choice for choice in schema["enum"] if choice in wanted), schema["enum"][0]
        )
    return types.ElicitResult(action="accept", content=content)


async def observe(
    path: Path,
    era: Era,
    location: str,
    *,
    answer: Answerer | None = agreeable,
    task: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Observation:
    """Load the option in a file and make one call of its tool.

    Args:
        path: The option file.
        era: The client's.
        location: The tool's argument.
        answer: The user; None for a client without the elicitation capability.
        task: Whether the client takes tasks.
        on_event: Told of each event as it happens.

    Raises:
        CannotLoad: The file is not an option.
    """
    seen = Observation(era, location, task)

    def note(event: Event) -> None:
        seen.events.append(event)
        on_event(event)

    async def user(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        if answer is None or not isinstance(params, types.ElicitRequestFormParams):
            return types.ErrorData(code=types.INVALID_REQUEST, message="this client takes forms only")
        note(Asked(params.message, params.requested_schema))
        given = await answer(params)
        note(Answered(given.action, given.content))
        return given

    def stood(task: TaskFields) -> None:
        note(Stood(task.status, task.status_message))

    server = load(path, Settings(WatchedLedger(weather.MemoryLedger(), note)))
    async with Client(
        server,
        mode=MODES[era],
        elicitation_callback=None if answer is None else user,
        extensions=[TasksClient(stood)] if task else None,
    ) as client:
        try:
            if task:
                note(Sent({}, None))
                note(_received(await client.call_tool(TOOL, {"location": location})))
            else:
                await _call(client, location, answer, note)
        except MCPError as error:
            note(Received(text=error.message, is_error=True, code=error.code))
    return seen


async def _call(
    client: Client, location: str, answer: Answerer | None, note: Callable[[Event], None]
) -> None:
    answers: types.InputResponses | None = None
    state: str | None = None
    for _ in range(MAX_ROUNDS):
        note(Sent({key: _shown(given) for key, given in (answers or {}).items()}, state))
        result = await client.session.call_tool(
            TOOL,
            {"location": location},
            input_responses=answers,
            request_state=state,
            allow_input_required=True,
        )
        if isinstance(result, types.CallToolResult):
            note(_received(result))
            return
        requests = result.input_requests or {}
        note(Received(questions=tuple(requests)))
        answers, state = {}, result.request_state
        for key, request in requests.items():
            form = request.params
            assert isinstance(form, types.ElicitRequestFormParams)
            assert answer is not None
            note(Asked(form.message, form.requested_schema))
            given = await answer(form)
            note(Answered(given.action, given.content))
            answers[key] = given


def _received(result: types.CallToolResult) -> Received:
    texts = (block.text for block in result.content if isinstance(block, types.TextContent))
    return Received("\n".join(texts), is_error=result.is_error)


def _shown(response: types.InputResponse) -> Any:
    return response.model_dump(by_alias=True, mode="json", exclude_none=True)
