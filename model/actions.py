"""The actions of the model: each leads from one state to the next, and `str` puts it into words."""

from dataclasses import dataclass
from typing import ClassVar

from model.world import Request, World


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a client; those of the servers and of time are below `OfServers`.

    Attributes:
        words: The action in words, with the names of its fields.
    """

    words: ClassVar[str]

    def __str__(self) -> str:
        return self.words.format(self)


@dataclass(frozen=True, slots=True)
class OfServers(Action):
    """An action of the servers, or of time."""


@dataclass(frozen=True, slots=True)
class OfInstance(OfServers):
    """An action of an instance, which is named by its place."""

    instance: int


@dataclass(frozen=True, slots=True)
class Takes(OfInstance):
    """An instance takes a request, and may answer it at once."""

    request: Request
    at_once: bool = False

    def __str__(self) -> str:
        more = ", answers at once" if self.at_once else ""
        return f"instance {self.instance} takes {self.request}{more}"


@dataclass(frozen=True, slots=True)
class GoesOn(OfInstance):
    """An instance goes on with a round that a crash has left behind."""

    words = "instance {0.instance} goes on with {0.request}"
    request: Request


@dataclass(frozen=True, slots=True)
class Works(OfInstance):
    """A round does its next step, or fails at it, which is an effect then."""

    step: str
    request: Request
    fails: bool = False

    def __str__(self) -> str:
        step = f"{self.step} fails" if self.fails else self.step
        return f"instance {self.instance}: {step} ({self.request})"


class Crashes(OfInstance):
    words = "instance {0.instance} crashes"


class IsReplaced(OfInstance):
    words = "instance {0.instance} is replaced by version 2"


@dataclass(frozen=True, slots=True)
class StatesAge(OfServers):
    """The states of an attempt are too old from now on, up to a round."""

    words = "time passes: states of attempt {0.attempt} up to round {0.last} are too old"
    attempt: int
    last: int


@dataclass(frozen=True, slots=True)
class KeyAges(OfServers):
    words = "time passes: the key of call {0.call} is too old"
    call: int


@dataclass(frozen=True, slots=True)
class Forgets(OfServers):
    words = "server forgets call {0.call}"
    call: int


class GetsResult(Action):
    words = "client gets the result"


@dataclass(frozen=True, slots=True)
class GetsError(Action):
    """The client gets an error. The answer that it gave first may stand."""

    error: str
    stands: bool = False

    def __str__(self) -> str:
        more = ", which stands" if self.stands else ""
        return f"client gets error: {self.error}{more}"


@dataclass(frozen=True, slots=True)
class Answers(Action):
    words = "user answers question {0.question}"
    question: int


class Keeps(Action):
    words = "client keeps the answer and sends it"


class Dies(Action):
    words = "client dies and resumes"


@dataclass(frozen=True, slots=True)
class Changes(Action):
    words = "user changes the answer of round {0.round}"
    round: int


class AnswersEarly(Action):
    words = "client answers before it is asked"


class Loses(Action):
    words = "client loses the response"


class WantsSecond(Action):
    words = "user wants a second call"


@dataclass(frozen=True, slots=True)
class Confirms(Action):
    words = "client says that it has the result of call {0.call}"
    call: int


@dataclass(frozen=True, slots=True)
class BeginsOther(Action):
    """Another call begins, perhaps with other answers."""

    changed: bool

    def __str__(self) -> str:
        return f"another call {'with other answers ' if self.changed else ''}begins"


@dataclass(frozen=True, slots=True)
class OfOther(Action):
    """An action of the client of the other call."""

    words = "other call: {0.action}"
    action: Action


Step = tuple[Action, World]
"""An action, and the state after it."""
