"""The state of the model: what the client, the network, the instances and the store hold."""

from typing import NamedTuple

ROUNDS = 3
INSTANCES = 2
ATTEMPTS = 2
TWIN = 8
"""The attempt of a second call of the same user, made while the first is open."""
STRANGER = 9
"""The attempt of another user's call."""
CONSENT = 4
"""The question that version 2 has in addition, asked before the units."""
CONSENT_LAST = 5
"""The same question, where the state has kept the answer about the units."""
WITH_CONSENT = 10
"""What a question is raised by when a call that is made again gets it with a state of version 2."""
RENEWED = 20
"""What the number of a state is raised by when the server hands it out again."""
SECOND_ERROR = "the round's outcome is unknown"
START_OVER = "start over"
TOO_OLD = "the state is too old"
FAILED = "an effect failed"
ENDED = "the call ended in an error"
SPENT = "the round has another answer"
DIFFERS = "divergent replies"
TAKES_OLD = "forged state"
REFUSED_AS_ONE = "wanted call swallowed"


class Request(NamedTuple):
    """A request: the attempt it belongs to, and its round. Rounds 2 and 3 carry an answer.

    `changed`: its answer is another one than the user gave at first. `early`: a first request that
    answers every question. `consented`: it carries the answer to version 2's additional question.
    `renewed`: it carries the state that the server handed out again, as the first was too old.
    """

    attempt: int
    round: int
    changed: bool = False
    early: bool = False
    consented: bool = False
    renewed: bool = False

    def __str__(self) -> str:
        marks = {
            " with the changed answer": self.changed,
            " with every answer": self.early,
            " with consent": self.consented,
            " with a renewed state": self.renewed,
        }
        more = "".join(mark for mark, is_so in marks.items() if is_so)
        return f"attempt {self.attempt} round {self.round}{more}"

    @property
    def number(self) -> int:
        """The number of its round in the order in which rounds follow each other."""
        return self.round + 10 if self.consented else self.round

    @property
    def state(self) -> int:
        """The number of the state that it carries, among those of its attempt."""
        return self.round + RENEWED if self.renewed else self.round


class Response(NamedTuple):
    """A response: `asks` is the question, or 3 for the result, or 0 for an error.

    Questions are 1, 2 and, of version 2, `CONSENT` and `CONSENT_LAST`. `WITH_CONSENT` is added if a
    first request gets a state that has kept the answer to version 2's additional question.
    """

    request: Request
    asks: int
    error: str = ""


class Client(NamedTuple):
    """The client: its open request, and what the user saw. `told` is how the call ended.

    `changes` counts changed answers, `unsaved` is an answer that the client has not kept yet, and
    `went_back` is the latest round whose state was too old, so that it
    sent the first request again.
    """

    waits_for: Request
    told: str = ""
    wanted: int = 1
    answered: tuple[int, int] = (0, 0)
    start_over: bool = False
    changes: int = 0
    unsaved: int = 0
    went_back: int = 0

    @property
    def awaited(self) -> Request | None:
        """The request whose response it waits for; None when the call has ended."""
        return None if self.told else self.waits_for


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
    """An instance: its round at work, and the frames in its memory as (attempt, last round).

    `changed` holds the rounds that a frame took with a changed answer, as (attempt, round), and
    `failed` the attempts whose frame ended in an error.
    """

    work: Work | None = None
    frames: frozenset[tuple[int, int]] = frozenset()
    version: int = 1
    changed: frozenset[tuple[int, int]] = frozenset()
    failed: frozenset[int] = frozenset()


class World(NamedTuple):
    """Everything. `store` is what survives a crash and is shared by the instances.

    Used by extras alone: `old` holds (attempt, state) of states that are too old, and (call, 0) for
    a call's key that is; `other` is the client of another call; `confirmed` holds the calls whose
    client said that it has the result; `noticed` holds what only the step that makes it shows.
    """

    client: Client = Client(Request(1, 1))
    requests: frozenset[Request] = frozenset({Request(1, 1)})
    responses: frozenset[Response] = frozenset()
    instances: tuple[Instance, ...] = (Instance(),) * INSTANCES
    store: frozenset[tuple[int, int, str]] = frozenset()
    destination: Destination = Destination()
    old: frozenset[tuple[int, int]] = frozenset()
    other: Client | None = None
    confirmed: frozenset[int] = frozenset()
    noticed: frozenset[str] = frozenset()


def reply(world: World, response: Response) -> World:
    """Put a response into the set of messages. A request may not both fail and succeed."""
    others = {each.error for each in world.responses if each.request == response.request}
    is_divergent = {"", FAILED} <= others | {response.error}
    if is_divergent:
        world = world._replace(noticed=world.noticed | {DIFFERS})
    return world._replace(responses=world.responses | {response})


def put(world: World, index: int, instance: Instance) -> World:
    """Replace one instance."""
    instances = list(world.instances)
    instances[index] = instance
    return world._replace(instances=tuple(instances))
