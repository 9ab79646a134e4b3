"""What a durable call records, what it publishes and what is sent to it.

Knows MCP's types and `questions`; nothing of the engine.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.questions import Kinds


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
class Answers:
    """A message to a call.

    Attributes:
        responses: What the user said, by the question's key.
        caller: The client that brought them.
    """

    responses: types.InputResponses
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
    error: Exception | None = None


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

    requests: types.InputRequests


@dataclass(frozen=True)
class Ended(Output):
    """The call is over."""

    outcome: types.Result | Exception


@dataclass(frozen=True)
class Refused(Output):
    """Answers that did not fit; the questions stay open.

    Attributes:
        error: What is wrong with them.
        count: How many answers to these questions did not fit, these included.
    """

    error: MCPError
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


def answered_differently(key: str) -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        f"The question {key!r} of this call has been answered differently before.",
        {"reason": "answered_differently", "question": key},
    )


def as_mcp_error(error: MCPError) -> MCPError:
    """The error without its class, whose constructor may take other arguments than it keeps."""
    return MCPError(error.code, error.message, error.data)


def recordable(error: Exception) -> Exception:
    """An error that another process can read; a RuntimeError where it cannot read this one."""
    if isinstance(error, MCPError):
        return as_mcp_error(error)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
