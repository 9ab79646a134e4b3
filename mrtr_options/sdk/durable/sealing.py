"""The events of a durable call as JSON, and the seal that hides them in the engine's database.

Only a holder of the server's keys can read or make a sealed text. Knows MCP's errors and
`effects`; nothing of engines.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, TypeVar, cast

from mcp import MCPError
from mcp.server.request_state import InvalidRequestState, RequestStateCodec
from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from mrtr_options.sdk.effects import meant_by

T = TypeVar("T")

MAX_BYTES = 2**20
"""The most bytes, as JSON, of a call with its answers, and of one step's outcome.

Sealed this is a third longer; Temporal takes 2 MiB.
"""


# --- errors as JSON -----------------------------------------------------------------------------


def recordable(error: BaseException) -> Exception:
    """Return an error that another process can read; a RuntimeError where it cannot read this one.

    Of a group of outcomes it is the one that counts; see `meant_by`. An MCPError loses its class,
    whose constructor may take other arguments than it keeps.
    """
    if isinstance(error, Exception):
        error = meant_by(error)
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
                    # Its constructor may take other arguments.
                    error = of_class.__new__(of_class, *arguments)
                    error.args = tuple(arguments)
                    error.__dict__.update(attributes)
                    return error
            return RuntimeError(f"{module}:{name}: {arguments}")
        case _:
            raise ValueError("this is no error")


Error = Annotated[Exception, PlainValidator(_read), PlainSerializer(_written)]


# --- messages as text ---------------------------------------------------------------------------


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
            message: An event, or the record of a call.
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


def length(message: object) -> int:
    """Return how many bytes a message takes as JSON, unsealed."""
    return len(Seal(None).write(message, ""))


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)
