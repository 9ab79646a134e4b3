"""Steps of a client that takes tasks (SEP-2663)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mrtr_options.review.bench.answers import RoundName, UserAnswer

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Create:
    """A call of the tool that returns a task.

    Attributes:
        lost: Whether the response is lost: the client never learns of the task.
        asks: Whether the client declares elicitation.
        fault: The fault at an effect of the work that begins.
    """

    lost: bool = False
    asks: bool = True
    fault: str | None = None


@dataclass(frozen=True)
class Look:
    """`tasks/get`, repeated until the task has a status.

    Attributes:
        until: The statuses that end it; with none, one request is sent.
        principal: The caller.
        takes_tasks: Whether this request declares the extension.
        guessed: Whether the id was never handed out.
    """

    until: tuple[Status, ...] = ()
    principal: str = "alice"
    takes_tasks: bool = True
    guessed: bool = False


@dataclass(frozen=True)
class Update:
    """`tasks/update`, with the client's answers.

    Attributes:
        answers: The user's answers, by the question's name; None to agree to every open question.
        extra: Answers to questions that were not asked, by key; each accepted with this content.
        lost: Whether the response is lost (`messages.LOST`).
        again: The network delivers the request twice: one after the other, or at once.
        principal: The caller.
        fault: The fault at an effect of the work that goes on.
    """

    answers: dict[RoundName, UserAnswer] | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    lost: bool = False
    again: Literal["later", "at once"] | None = None
    principal: str = "alice"
    fault: str | None = None


@dataclass(frozen=True)
class Stop:
    """`tasks/cancel`, sent by this principal."""

    principal: str = "alice"


TaskStep = Create | Look | Update | Stop
