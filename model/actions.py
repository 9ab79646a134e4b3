"""The actions of the model: each leads from one state to the next, and `str` puts it into words."""

from dataclasses import dataclass

from model.world import Request, World


@dataclass(frozen=True, slots=True)
class OfInstance:
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

    request: Request

    def __str__(self) -> str:
        return f"instance {self.instance} goes on with {self.request}"


@dataclass(frozen=True, slots=True)
class Works(OfInstance):
    """A round does its next step, or fails at it, which is an effect then."""

    step: str
    request: Request
    fails: bool = False

    def __str__(self) -> str:
        step = f"{self.step} fails" if self.fails else self.step
        return f"instance {self.instance}: {step} ({self.request})"


@dataclass(frozen=True, slots=True)
class Crashes(OfInstance):
    """An instance crashes."""

    def __str__(self) -> str:
        return f"instance {self.instance} crashes"


@dataclass(frozen=True, slots=True)
class IsReplaced(OfInstance):
    """An instance is replaced by one with newer code."""

    def __str__(self) -> str:
        return f"instance {self.instance} is replaced by version 2"


@dataclass(frozen=True, slots=True)
class StatesAge:
    """The states of an attempt are too old from now on, up to a round."""

    attempt: int
    last: int

    def __str__(self) -> str:
        return f"time passes: states of attempt {self.attempt} up to round {self.last} are too old"


@dataclass(frozen=True, slots=True)
class KeyAges:
    """The key of a call is too old from now on."""

    call: int

    def __str__(self) -> str:
        return f"time passes: the key of call {self.call} is too old"


@dataclass(frozen=True, slots=True)
class Forgets:
    """The server forgets a call."""

    call: int

    def __str__(self) -> str:
        return f"server forgets call {self.call}"


@dataclass(frozen=True, slots=True)
class GetsResult:
    """The client gets the result."""

    def __str__(self) -> str:
        return "client gets the result"


@dataclass(frozen=True, slots=True)
class GetsError:
    """The client gets an error. The answer that it gave first may stand."""

    error: str
    stands: bool = False

    def __str__(self) -> str:
        more = ", which stands" if self.stands else ""
        return f"client gets error: {self.error}{more}"


@dataclass(frozen=True, slots=True)
class Answers:
    """The user answers a question."""

    question: int

    def __str__(self) -> str:
        return f"user answers question {self.question}"


@dataclass(frozen=True, slots=True)
class Keeps:
    """The client keeps an answer, and sends it."""

    def __str__(self) -> str:
        return "client keeps the answer and sends it"


@dataclass(frozen=True, slots=True)
class Dies:
    """The client dies before it has kept an answer, and resumes."""

    def __str__(self) -> str:
        return "client dies and resumes"


@dataclass(frozen=True, slots=True)
class Changes:
    """The user changes an answer."""

    round: int

    def __str__(self) -> str:
        return f"user changes the answer of round {self.round}"


@dataclass(frozen=True, slots=True)
class AnswersEarly:
    """The client answers in its first request."""

    def __str__(self) -> str:
        return "client answers before it is asked"


@dataclass(frozen=True, slots=True)
class Loses:
    """The client loses a response."""

    def __str__(self) -> str:
        return "client loses the response"


@dataclass(frozen=True, slots=True)
class WantsSecond:
    """The user wants a second call."""

    def __str__(self) -> str:
        return "user wants a second call"


@dataclass(frozen=True, slots=True)
class Confirms:
    """The client says that it has a call's result."""

    call: int

    def __str__(self) -> str:
        return f"client says that it has the result of call {self.call}"


@dataclass(frozen=True, slots=True)
class BeginsOther:
    """Another call begins, perhaps with other answers."""

    changed: bool

    def __str__(self) -> str:
        return f"another call {'with other answers ' if self.changed else ''}begins"


@dataclass(frozen=True, slots=True)
class OfOther:
    """An action of the client of the other call."""

    action: "Action"

    def __str__(self) -> str:
        return f"other call: {self.action}"


OfServers = OfInstance | StatesAge | KeyAges | Forgets
"""An action of the servers, or of time."""

OfClient = (
    GetsResult
    | GetsError
    | Answers
    | Keeps
    | Dies
    | Changes
    | AnswersEarly
    | Loses
    | WantsSecond
    | Confirms
)
"""An action of a client."""

Action = OfServers | OfClient | BeginsOther | OfOther

Step = tuple[Action, World]
"""An action, and the state after it."""
