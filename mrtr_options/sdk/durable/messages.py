"""What a durable call records, what it publishes and what is sent to it; and all of it as JSON.

Nothing is a pickle: who can write a row cannot have code run. A `Seal` keeps what users said from who
can read the database.

Knows MCP's types and `questions`; nothing of the engine.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

import mcp_types as types
from mcp import MCPError
from mcp.server.request_state import InvalidRequestState, RequestStateCodec
from pydantic import BaseModel, PlainSerializer, PlainValidator, TypeAdapter

from mrtr_options.sdk.questions import Kinds

T = TypeVar("T")

# --- errors and MCP's types as JSON --------------------------------------------------------------


def recordable(error: Exception) -> Exception:
    """An error that another process can read; a RuntimeError where it cannot read this one.

    An MCPError loses its class, whose constructor may take other arguments than it keeps.
    """
    if isinstance(error, MCPError):
        return MCPError(error.code, error.message, error.data)
    try:
        if _class_named(_name_of(error)) is type(error):
            json.dumps([error.args, error.__dict__])
            return error
    except (LookupError, TypeError, ValueError):
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")


def _name_of(error: Exception) -> str:
    return f"{type(error).__module__}:{type(error).__qualname__}"


def _class_named(name: str) -> type[Exception]:
    """A class of exceptions by its module and name. Nothing is imported for it, and nothing runs.

    Raises:
        LookupError: There is none.
    """
    module, _, path = name.partition(":")
    found: object = sys.modules[module]
    for part in path.split("."):
        found = cast("object", vars(found)[part])
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    raise LookupError(name)


def _written(value: types.Result | types.Request[Any, Any] | Exception) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        kind = next(each for each in type(value).__mro__ if getattr(types, each.__name__, None) is each)
        return {kind.__name__: value.model_dump(mode="json", by_alias=True, exclude_none=True)}
    error = recordable(value)
    if isinstance(error, MCPError):
        return {"error": [error.code, error.message, error.data]}
    return {"exception": [_name_of(error), error.args, error.__dict__]}


def _read(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "error":
        return MCPError(*content)
    if kind == "exception":
        name, arguments, attributes = content
        try:
            of_class = _class_named(name)
        except LookupError:
            return RuntimeError(f"{name}: {arguments}")
        error = of_class.__new__(of_class, *arguments)  # its constructor may take other arguments
        error.args = tuple(arguments)
        error.__dict__.update(attributes)
        return error
    model = cast("type[BaseModel]", getattr(types, kind))
    return model.model_validate(content, by_name=False)


def _all_written(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _written(value) for key, value in values.items()}


def _all_read(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _read(value) for key, value in values.items()}


_One = PlainValidator(_read), PlainSerializer(_written)
_Some = PlainValidator(_all_read), PlainSerializer(_all_written)

# --- the messages --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """What the handler gets in place of a request's parameters: the part that all rounds share.

    Attributes:
        name: The tool, or the prompt.
        arguments: Its arguments.
    """

    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True)
class Caller:
    """The client that sent a call's latest round.

    Attributes:
        askable: What it can be asked.
        takes_tasks: Whether it can be given a task (see `tasks`).
        principal: Who it is; None for an anonymous client.
    """

    askable: Kinds
    takes_tasks: bool = False
    principal: str | None = None


@dataclass(frozen=True)
class Begun:
    """What a call begins with: itself, and the client of its first round."""

    call: Call
    caller: Caller


@dataclass(frozen=True)
class Answers:
    """A message to a call.

    Attributes:
        responses: What the user said, by the question's key.
        caller: The client that brought them.
    """

    responses: Annotated[types.InputResponses, *_Some]
    caller: Caller

    @property
    def digest(self) -> str:
        said = [
            f"{key} {type(response).__name__} {response.model_dump_json()}"
            for key, response in sorted(self.responses.items())
        ]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()


@dataclass(frozen=True)
class Stepped:
    """What is recorded of a step: what its effect returned, or how it failed."""

    value: Any = None
    error: Annotated[Exception, *_One] | None = None


class Interrupted(BaseException):
    """Raised in a handler where this process may not go on with the call, or cannot record it.

    Not an `Exception`, so that the author's `except Exception` does not take it for a failure.
    """


@dataclass(frozen=True)
class Output:
    """What a call publishes as event n+1: what the answers to the questions under n led to.

    Attributes:
        after: The digest of those answers, None where there were none.
    """

    after: str | None


@dataclass(frozen=True)
class Asked(Output):
    """The call asks, by key."""

    requests: Annotated[types.InputRequests, *_Some]


@dataclass(frozen=True)
class Ended(Output):
    """The call is over."""

    outcome: Annotated[types.Result | Exception, *_One]


@dataclass(frozen=True)
class Refused(Output):
    """Answers that did not fit; the questions stay open.

    Attributes:
        error: What is wrong with them.
        count: How many answers to these questions did not fit, these included.
    """

    error: Annotated[MCPError, *_One]
    count: int


def unknown_call() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        "This call is not waiting for an answer: it was given up after too long a pause, was "
        "cancelled, or is on another database. Call the tool again.",
        {"reason": "unknown_call"},
    )


def gave_up() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        "This call was given up: the servers that worked at it ended in the middle, several times. What "
        "it was doing may have happened. Look before you call the tool again.",
        {"reason": "gave_up"},
    )


def other_version() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        "This call began on another version of this tool, and no server of that version is left to "
        "finish it. Call the tool again.",
        {"reason": "other_version"},
    )


def still_at_work(seconds: float) -> MCPError:
    return MCPError(
        types.REQUEST_TIMEOUT,
        f"This call is still at work after {seconds:g} s of waiting, and goes on. Send the same request "
        "with the same state to wait further. A call without a state would begin another one.",
        {"reason": "still_at_work"},
    )


def not_answered(seconds: float) -> MCPError:
    return MCPError(
        types.REQUEST_TIMEOUT,
        f"The task's database did not answer for {seconds:g} s. The task goes on when it does. Send the "
        "same request again.",
        {"reason": "still_at_work"},
    )


def answered_differently(key: str) -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        f"The question {key!r} of this call has been answered differently before.",
        {"reason": "answered_differently", "question": key},
    )


# --- how they are kept ---------------------------------------------------------------------------


class Unreadable(Exception):
    """What is in the database was not written by this server, or was changed."""


class Seal:
    """Writes messages so that only a holder of the keys can read or make them.

    Args:
        codec: Seals under the server's keys; None to leave everything readable.
    """

    def __init__(self, codec: RequestStateCodec | None) -> None:
        self._codec = codec

    def write(self, message: object, place: str) -> str:
        """A message as text.

        Args:
            message: One of this module's.
            place: Where it is kept; it can be read there only.

        Raises:
            ValueError, TypeError: It has no JSON.
        """
        said = _adapter(type(message)).dump_python(message, mode="json")
        text = json.dumps([type(message).__name__, place, said], separators=(",", ":"))
        return text if self._codec is None else self._codec.seal(text.encode())

    def read(self, kind: type[T], text: str, place: str) -> T:
        """The message that `write` made the text of.

        Args:
            kind: Its class, or a base of its class.
            text: As it was kept.
            place: Where.

        Raises:
            Unreadable: It was not made by a holder of the keys, of this kind, for this place.
        """
        try:
            content = text if self._codec is None else self._codec.unseal(text)
            name, of_place, said = json.loads(content)
            (found,) = (each for each in _kinds_of(kind) if each.__name__ == name)
            if of_place != place:
                raise ValueError(f"it is for {of_place!r}")
            return _adapter(found).validate_python(said)
        except (InvalidRequestState, LookupError, TypeError, ValueError) as error:
            raise Unreadable(f"what is kept at {place!r} cannot be read: {error!r}") from error


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return _adapters.get(kind) or _adapters.setdefault(kind, TypeAdapter(kind))


def _kinds_of(kind: type[T]) -> list[type[T]]:
    return [kind, *kind.__subclasses__()]
