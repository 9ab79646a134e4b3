"""The events of a durable call, from its beginning to its end, as they are recorded.

Knows MCP's types, `capabilities` and `sealing`; nothing of engines.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import mcp_types as types
from pydantic import Field

from mrtr_options.sdk.capabilities import Kinds
from mrtr_options.sdk.durable.sealing import Error, Seal
from mrtr_options.sdk.handler import CallParams
from mrtr_options.sdk.writing import digest

Outcome = types.CallToolResult | types.GetPromptResult | Error
"""The end of a handler."""


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
class Attempt:
    """What an attempt at a call hands on to the next one, if it leaves something open.

    Attributes:
        steps: The steps that have begun: what each one returned, as JSON; None for one in doubt.
        values: What else was computed or waited for, as JSON.
        first: The handle of the first attempt; "" while that runs.
    """

    steps: dict[str, str | None] = field(default_factory=dict[str, str | None])
    values: dict[str, str] = field(default_factory=dict[str, str])
    first: str = ""


@dataclass(frozen=True)
class Begun:
    """The beginning of a call. All times are seconds since 1970.

    Attributes:
        call: The call.
        caller: The client of its first round.
        at: The time.
        ttl_ms: How long its task is kept, in milliseconds; None for ever, or if it is no task.
        same: A digest of the arguments that a call made again must have; "" without a name.
        before: The attempts before this one.
    """

    call: CallParams
    caller: Caller
    at: float
    ttl_ms: int | None = None
    same: str = ""
    before: Attempt = field(default_factory=Attempt)


@dataclass(frozen=True)
class Answers:
    """The answers that a round brings.

    Attributes:
        responses: The user's answers, by the question's key.
        caller: The client that brought them.
        asked: The digest of the questions that the user saw.
    """

    responses: types.InputResponses
    caller: Caller
    asked: str = ""


@dataclass(frozen=True)
class Stepped:
    """The outcome of a step.

    Attributes:
        value, error: The effect's result, or its failure.
        not_done: Whether the effect did not happen, as its author or its destination says.
        gave_up: Whether the step was abandoned, since it ended its process several times.
    """

    value: Any = None
    error: Error | None = None
    not_done: bool = False
    gave_up: bool = False


Run = Callable[[], Coroutine[Any, Any, Stepped]]
"""Runs a step."""


@dataclass(frozen=True)
class Asked:
    """Questions of the call, by key."""

    requests: types.InputRequests
    kind: Literal["asked"] = "asked"

    @property
    def digest(self) -> str:
        """The digest that tells these questions from others."""
        return digest(Seal(None).write(self, ""))[:16]

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
        effects: The steps that had begun.
        unknown: What is handed on to the next attempt; None if the call is not tried again.
    """

    outcome: Outcome | None
    kind: Literal["ended"] = "ended"
    frees: bool = False
    effects: list[str] = field(default_factory=list[str])
    unknown: Attempt | None = None


Output = Annotated[Asked | Handed | Ended, Field(discriminator="kind")]
"""One output of a call. The first output has the number 0."""


@dataclass(frozen=True)
class Reply:
    """The reply to a round: an output, and its number."""

    number: int
    output: Output
