"""The messages of a durable call: what it is told, what it says, what is recorded; and their JSON.

A `Seal` hides them from anyone who can read the engine's database. Knows MCP's types and
`questions`; nothing of engines.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar, cast

import mcp_types as types
from mcp import MCPError
from mcp.server.request_state import InvalidRequestState, RequestStateCodec
from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter

from mrtr_options.sdk.handlers import Call
from mrtr_options.sdk.questions import Kinds

T = TypeVar("T")

MAX_BYTES = 2**20
"""The most bytes, as JSON, of a call with its answers, and of one step's outcome.

Sealed this is a third longer; Temporal takes 2 MiB.
"""

# --- errors as JSON -----------------------------------------------------------------------------


def recordable(error: BaseException) -> Exception:
    """Return an error that another process can read; a RuntimeError where it cannot read this one.

    An MCPError loses its class, whose constructor may take other arguments than it keeps.
    """
    if isinstance(error, MCPError):
        error = MCPError(error.code, error.message, error.data)
    with suppress(TypeError, ValueError, RecursionError):
        if isinstance(error, Exception):
            again = _read(json.loads(json.dumps(_written(error))))
            if type(again) is type(error):
                return error
    return RuntimeError(f"{type(error).__name__}: {_text_of(error)}")


def _text_of(error: BaseException) -> str:
    if not isinstance(error, BaseExceptionGroup):
        return str(error)
    every = cast("BaseExceptionGroup[Any]", error).exceptions
    texts = [f"{type(each).__name__}: {_text_of(each)}" for each in every]
    return f"{error.message}: {'; '.join(texts)}"


def _written(error: Exception) -> dict[str, Any]:
    if isinstance(error, MCPError):
        return {"error": [error.code, error.message, error.data]}
    kind = type(error)
    return {"exception": [kind.__module__, kind.__qualname__, error.args, error.__dict__]}


def _read(value: Any) -> Exception:
    match value:
        case {"error": [code, message, data]}:
            return MCPError(code, message, data)
        case {"exception": [module, name, arguments, attributes]}:
            with suppress(AttributeError, LookupError, TypeError):
                of_class: Any = attrgetter(name)(sys.modules[module])  # nothing is imported or run
                if issubclass(of_class, Exception):
                    error = of_class.__new__(
                        of_class, *arguments
                    )  # its constructor may take others
                    error.args = tuple(arguments)
                    error.__dict__.update(attributes)
                    return error
            return RuntimeError(f"{module}:{name}: {arguments}")
        case _:
            raise ValueError("this is no error")


Error = Annotated[Exception, PlainValidator(_read), PlainSerializer(_written)]
Outcome = types.CallToolResult | types.GetPromptResult | Error
"""The end of a handler."""

# --- the messages --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caller:
    """The client that sent a call's latest round.

    Attributes:
        askable: The kinds of questions that it can be asked.
        takes_tasks: Whether it can be given a task (see `tasks`).
        principal: The authenticated user; None for an anonymous client.
    """

    askable: Kinds
    takes_tasks: bool = False
    principal: str | None = None


@dataclass(frozen=True)
class Begun:
    """The beginning of a call. All times are seconds since 1970.

    Attributes:
        call: The call.
        caller: The client of its first round.
        at: The time.
        ttl_ms: How long its task is kept, in milliseconds; None for ever, or if it is no task.
    """

    call: Call
    caller: Caller
    at: float
    ttl_ms: int | None = None


@dataclass(frozen=True)
class Answers:
    """The answers that a round brings.

    Attributes:
        responses: The user's answers, by the question's key.
        caller: The client that brought them.
        asked: The digest of the questions that the user saw.
    """

    responses: dict[str, types.InputResponse]
    caller: Caller
    asked: str = ""


@dataclass(frozen=True)
class Stepped:
    """The outcome of a step.

    Attributes:
        value, error: The effect's result, or its failure.
        gave_up: Whether the step was abandoned, since it ended its process several times.
    """

    value: Any = None
    error: Error | None = None
    gave_up: bool = False


@dataclass(frozen=True)
class Asked:
    """Questions of the call, by key."""

    requests: dict[str, types.InputRequest]
    kind: Literal["asked"] = "asked"

    @property
    def digest(self) -> str:
        """The digest that tells these questions from others."""
        return hashlib.sha256(Seal(None).write(self, "").encode()).hexdigest()[:16]

    def left_by(self, answers: Answers) -> list[Asked]:
        """Return the unanswered questions, which are asked again; none if the user said no."""
        said = answers.responses
        is_no = any(getattr(each, "action", "accept") != "accept" for each in said.values())
        left = {key: request for key, request in self.requests.items() if key not in said}
        return [Asked(left)] if left and not is_no else []


@dataclass(frozen=True)
class Handed:
    """The moment from which the call is a task."""

    at: float
    kind: Literal["handed"] = "handed"


@dataclass(frozen=True)
class Ended:
    """The end of the call.

    Attributes:
        outcome: The handler's outcome; None for a call that was cancelled.
        frees: Whether the call ended without its user's consent, so that its name is free.
    """

    outcome: Outcome | None
    kind: Literal["ended"] = "ended"
    frees: bool = False


Output = Annotated[Asked | Handed | Ended, Field(discriminator="kind")]
"""One output of a call. The first output has the number 0."""


@dataclass(frozen=True)
class Reply:
    """The reply to a round: an output, and its number."""

    number: int
    output: Output


# --- what is refused -----------------------------------------------------------------------------

_WHY = {
    "unknown_call": "This call is not waiting for an answer: it was given up after too long a"
    " pause, was cancelled, or is kept elsewhere. Its effects may have happened. Look before you"
    " call the tool again.",
    "gave_up": "This call was given up: the servers that worked at it ended in the middle, several "
    "times, or its tool did not do the same when it began again. Its effects may have happened. "
    "Look before you call the tool again.",
    "other_version": "This call began on another version of this tool, and no server of that"
    " version is left to finish it. Its effects may have happened. Look before you call the tool"
    " again.",
    "answered_differently": "The question {question!r} of this call has been answered differently "
    "before.",
    "name_lost": "Another server has taken the name of this one, and goes on with its calls. Send"
    " the same request with the same state there.",
    "unknown_task": "There is no such task.",
    "number_out_of_range": "This request has a number that JSON cannot carry: one that is"
    " infinite, or none. Send another one.",
    "too_long": f"A call is {MAX_BYTES} bytes at most with its answers. Send shorter ones.",
}


def refused(reason: str, **more: str) -> MCPError:
    """Return the refusal of a round: an error with a reason of `_WHY` and its text."""
    return MCPError(types.INVALID_PARAMS, _WHY[reason].format(**more), {"reason": reason, **more})


def still_at_work(seconds: float) -> MCPError:
    return MCPError(
        types.REQUEST_TIMEOUT,
        f"This call is still at work after {seconds:g} s of waiting, and goes on. Send the same"
        " request with the same state to wait further. A call without a state would begin another"
        " one.",
        {"reason": "still_at_work"},
    )


def stopped() -> MCPError:
    """Return the end of a call whose user does not want to wait for it."""
    return MCPError(
        types.INVALID_REQUEST,
        "This call was stopped, as its user did not want to wait further. Its effects may have "
        "happened. Look before you call the tool again.",
        {"reason": "stopped"},
    )


def reason_of(error: MCPError) -> str | None:
    """Return the reason of a refusal, if the error has one."""
    match error.data:
        case {"reason": str(reason)}:
            return reason
        case _:
            return None


# --- how they are kept ---------------------------------------------------------------------------


class Unreadable(Exception):
    """A text in the database that was not written by this server, or was changed."""


class Seal:
    """A sealer of messages: only a holder of the keys can read or make them.

    Args:
        codec: Seals under the server's keys; None to leave everything readable.
    """

    def __init__(self, codec: RequestStateCodec | None) -> None:
        self._codec = codec

    def write(self, message: object, place: str) -> str:
        """Return a message as text.

        Args:
            message: One of this module's.
            place: Where it is kept; it can be read there only.

        Raises:
            ValueError, TypeError: It has no JSON.
        """
        said = _adapter(type(message)).dump_python(message, mode="json", by_alias=True)
        text = json.dumps([type(message).__name__, place, said], separators=(",", ":"))
        return text if self._codec is None else self._codec.seal(text.encode())

    def read(self, kind: type[T], text: str, place: str) -> T:
        """Return the message that `write` made the text of.

        Args:
            kind: Its class.
            text: As it was kept.
            place: Where.

        Raises:
            Unreadable: It was not made by a holder of the keys, of this kind, for this place.
        """
        try:
            content = text if self._codec is None else self._codec.unseal(text)
            name, of_place, said = json.loads(content)
            if (name, of_place) != (kind.__name__, place):
                raise ValueError(f"it is a {name} for {of_place!r}")
            return _adapter(kind).validate_python(said)
        except (InvalidRequestState, LookupError, TypeError, ValueError) as error:
            raise Unreadable(f"what is kept at {place!r} cannot be read: {error!r}") from error


def has_json(value: object) -> bool:
    """Return whether JSON can hold a value of its kinds: it has no infinite number or NaN."""
    try:
        json.dumps(value, allow_nan=False, default=str)
    except (ValueError, RecursionError):
        return False
    return True


def length(message: object) -> int:
    """Return how many bytes a message takes as JSON, unsealed."""
    return len(Seal(None).write(message, ""))


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)
