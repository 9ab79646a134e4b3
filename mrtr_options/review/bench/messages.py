"""The messages on the wire: a client's request and its response, as the client sees them.

Knows MCP's types; nothing of what was played.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, cast

import mcp_types as types
from pydantic import TypeAdapter

from mrtr_options.demo.call import ERAS as ERAS
from mrtr_options.demo.call import Era
from mrtr_options.sdk.handler import JsonObject as JsonObject
from mrtr_options.tool.server import TOOL

Declares = Literal["empty", "form", "url"]
"""A client's declaration of elicitation, if it differs from the SDK's.

It is `{}`, which means forms; by form only; or by URL only.
"""

Method = Literal["tools/list", "tools/call", "tasks/get", "tasks/update", "tasks/cancel"]

LOST = "lost"
"""The end of a request whose response never reaches its client: the response is lost.

The network loses a response that the server has sent: the history has it with its content, and
`lost` is set. That flag has this one meaning in a fault's request, in a step, in the
history and in a row that is shown. If the connection or the instance ends before the response, the
history has a reply with nothing in it but this word (`Reply.nothing`).

Other things are lost elsewhere: the outcome "lost" is that of a call whose client gets no result
(`judge.observation`), and the anomaly "call lost" is a correct client that has to start over.
"""

HUNG = "hung"
"""The end of a request that got no response in the time that the deployment gives it."""

Form = tuple[str, JsonObject]
"""A question as the user sees it: its message, and the choices in each field of its form."""


Tools = dict[str, JsonObject]
"""The tools of a server's listing as they are on the wire, by name."""


@dataclass(frozen=True)
class Request:
    """One request of a client's.

    Attributes:
        location: The tool's argument.
        answers: The answers, by key.
        state: The token.
        principal: The caller; None for a caller without a name.
        asks: Whether the client declares that it can ask by forms.
        declares: The way it declares elicitation, if not as the SDK's client does.
        version: The version of its handshake, if not the newest of the legacy era.
        method: `tools/call`, `tools/list`, or a method for tasks (SEP-2663).
        task: The id of the task that the request is about.
        takes_tasks: Whether the client declares the Tasks extension.
        era: The client's era.
        tool: The name of the tool.
        arguments: The arguments, valid or not; None for the location alone, `...` for none.
        forged: The way the state was made, if the client made it.
        key: The call key; None for a client that makes none.
        named: The name that the server gives the call, which the client does not send; None if it
            gives none.
        session: The name of the session in which an old client sends it; empty for one of its own.
    """

    location: str = ""
    answers: types.InputResponses | None = None
    state: str | None = None
    principal: str | None = "alice"
    asks: bool = True
    declares: Declares | None = None
    method: Method = "tools/call"
    task: str = ""
    takes_tasks: bool = False
    era: Era = "modern"
    tool: str = TOOL
    arguments: Any = None
    forged: str | None = None
    key: str | None = None
    version: str | None = None
    named: str | None = None
    session: str = ""

    @property
    def call_name(self) -> str | None:
        """The name that first requests of one call share: the client's or the server's."""
        return self.key or self.named

    @property
    def sent_arguments(self) -> Any:
        """The arguments as they go over the wire."""
        return {"location": self.location} if self.arguments is None else self.arguments


@dataclass(frozen=True)
class Reply:
    """One response, as the client sees it.

    Attributes:
        text: The text of a result.
        is_error: Whether that result is a tool error.
        blocks: The kinds of that result's content blocks, in order.
        structured: Its structured content.
        code, message, data: The parts of a JSON-RPC error. Where a request hangs, `message` is the
            author's lines at which the server waits, if they can be seen.
        questions: The messages of the questions that it asks, by key.
        schemas: The JSON schemas of their forms, by key.
        others: The methods of requests for input other than forms, by key.
        state: The token that came with the questions.
        later: Whether this is a state-only response: the client retries with the state.
        nothing: The reason why there is no response at all: `LOST` or `HUNG`.
        malformed: The fault of a response that does not follow the protocol.
        task, status, status_message: The description of a task.
        tools: The tools of a listing.
        texts: Every string that the server sent with the response, but not the state: in the whole
            result, in its handshake and in notifications.
        unknown_type: A `resultType` that the protocol does not have.
        astray: What is wrong with the progress that came before it.
    """

    text: str | None = None
    is_error: bool = False
    blocks: tuple[str, ...] = ()
    structured: Any = None
    code: int | None = None
    message: str | None = None
    data: Any = None
    questions: dict[str, str] = field(default_factory=dict[str, str])
    schemas: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    others: dict[str, str] = field(default_factory=dict[str, str])
    state: str | None = None
    later: bool = False
    nothing: Literal["lost", "hung"] | None = None
    malformed: str | None = None
    task: str | None = None
    status: str | None = None
    status_message: str | None = None
    tools: Tools = field(default_factory=Tools)
    texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    unknown_type: str = ""
    astray: str = ""

    @property
    def is_result(self) -> bool:
        """Return whether this ends the call."""
        return self.text is not None

    @property
    def failed(self) -> bool:
        """Return whether the client got nothing that it can continue with."""
        return self.code is not None or self.nothing is not None or self.malformed is not None

    @property
    def is_refusal(self) -> bool:
        """Return whether this is an error: of the protocol, or of the tool."""
        return self.code is not None or self.is_error

    @property
    def reason(self) -> str | None:
        """The reason of an error in one word, if its data name one."""
        match self.data:
            case {"reason": str(reason)}:
                return reason
            case _:
                return None

    def name_of(self, key: str) -> str:
        """Return the schedule's name for a question, which is its form's first field.

        Its key is the server's.
        """
        return next(iter(fields_of(self.schemas.get(key, {}))), key)

    def same_as(self, other: Reply) -> bool:
        """Return whether two responses are equal but for the state, which is sealed each time."""
        return _compared(self) == _compared(other)


def checked_reply(**fields: Any) -> Reply:
    """Return a reply with these fields, which a server may have filled with anything.

    Raises:
        ValidationError: One is of another type than the protocol's.
    """
    return _REPLY.validate_python(fields)


_REPLY = TypeAdapter(Reply)


_compared = attrgetter("text", "is_error", "structured", "code", "questions", "schemas", "status")


def as_json(answer: types.InputResponse) -> JsonObject:
    """Return a client's answer to a question as JSON; it may not fit the SDK's models."""
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True, warnings=False)


def form_of(message: str, schema: JsonObject) -> Form:
    """Return a question as the user sees it, from its message and its form's JSON schema."""
    return message, {name: part.get("enum") for name, part in fields_of(schema).items()}


def fields_of(schema: JsonObject) -> dict[str, JsonObject]:
    """Return the fields of an object's schema, each with its own schema.

    A field that takes anything, `true` in JSON Schema, has an empty one.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    fields = cast("dict[str, Any]", properties).items()
    return {name: part if isinstance(part, dict) else {} for name, part in fields}


def form_in_words(schema: JsonObject) -> str:
    """Return the fields of a form with their choices, and those that need no value."""
    fields = fields_of(schema)
    parts = [
        f"{name}: {', '.join(_texts_in(part.get('enum'))) or '?'}" for name, part in fields.items()
    ]
    required = _texts_in(schema.get("required"))
    missing = [name for name in fields if name not in required]
    return "; ".join(parts + [f"{name} is not required" for name in missing])


def _texts_in(found: object) -> list[str]:
    """Return the values of a list as texts; none of what is no list."""
    return [str(each) for each in cast("list[object]", found)] if isinstance(found, list) else []


_DECLARED: dict[Declares, types.ElicitationCapability] = {
    "empty": types.ElicitationCapability(),
    "form": types.ElicitationCapability(form=types.FormElicitationCapability()),
    "url": types.ElicitationCapability(url=types.UrlElicitationCapability()),
}


def declared_by(request: Request, all_of_it: types.ClientCapabilities) -> types.ClientCapabilities:
    """Return the capabilities of the client that sends a request.

    A client that declares no elicitation still records pushed questions, so that we can report
    them. Half of the modern clients declare sampling and roots as well.
    """
    if (
        request.era == "modern"
        and zlib.crc32(repr((request.answers, request.location)).encode()) % 2
    ):
        more = {"sampling": types.SamplingCapability(), "roots": types.RootsCapability()}
        all_of_it = all_of_it.model_copy(update=more)
    if request.declares is not None:
        return all_of_it.model_copy(update={"elicitation": _DECLARED[request.declares]})
    return all_of_it if request.asks else all_of_it.model_copy(update={"elicitation": None})
