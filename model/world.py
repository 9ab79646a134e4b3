"""The state of the model: what the client, the network, the instances and the store hold."""

from typing import NamedTuple

ROUNDS = 3
INSTANCES = 2
ATTEMPTS = 2
SECOND_ERROR = "the round's outcome is unknown"
START_OVER = "start over"


class Request(NamedTuple):
    """A request: the attempt it belongs to, and its round. Rounds 2 and 3 carry an answer."""

    attempt: int
    round: int


class Response(NamedTuple):
    """A response: `asks` is the question (1 or 2), or 3 for the result, or 0 for an error."""

    request: Request
    asks: int
    error: str = ""


class Client(NamedTuple):
    """The client: its open request, and what the user saw. `told` is how the call ended."""

    waits_for: Request
    told: str = ""
    wanted: int = 1
    answered: tuple[int, int] = (0, 0)
    start_over: bool = False


class Work(NamedTuple):
    """A round at work on an instance: the steps that are still to do."""

    request: Request
    steps: tuple[str, ...]


class Destination(NamedTuple):
    """Where effects go: how many took place, and the keys of those it remembers."""

    audits: int = 0
    bills: int = 0
    keys: frozenset[tuple[str, int]] = frozenset()


class Instance(NamedTuple):
    """An instance: its round at work, and the frames in its memory as (attempt, last round)."""

    work: Work | None = None
    frames: frozenset[tuple[int, int]] = frozenset()


class World(NamedTuple):
    """Everything. `store` is what survives a crash and is shared by the instances."""

    client: Client = Client(Request(1, 1))
    requests: frozenset[Request] = frozenset({Request(1, 1)})
    responses: frozenset[Response] = frozenset()
    instances: tuple[Instance, ...] = (Instance(),) * INSTANCES
    store: frozenset[tuple[int, int, str]] = frozenset()
    destination: Destination = Destination()


Step = tuple[str, World]
"""An action's description, and the state after it."""
