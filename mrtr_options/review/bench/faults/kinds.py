"""What a fault is: a function around a request, or around the arrival of an effect.

A fault around a request gets the request on its way and the way on, as middleware does in ASGI. It
may act before and after, change the request, and take the response away. It calls `send` once: what
the network delivers again is the same sending (`Outgoing.again`), what a client or somebody else
sends besides is another one (`Client.deliver`).

    @fault("lost", "the response is lost", phase="response", ...)
    async def lost(outgoing: Outgoing, send: SendOn) -> Reply:
        return await send(replace(outgoing, lost=True))

A fault at an effect gets the effect and its way to the destination (`fault_at_effects`). Sentence,
condition and behaviour of a fault stand together, in the module of its family.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn, Protocol, TypeAlias

import mcp_types as types
from pydantic.dataclasses import dataclass as checked

from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.tool.weather import EffectKind, only_place

Phase = Literal["before", "delivery", "response", "after"]
"""The part of a request that a fault concerns, in the order in which the parts happen.

A fault happens before the request, changes how often it is delivered, takes its response away,
or happens after it. At one request there is at most one fault of each phase.
"""

PHASES: tuple[Phase, ...] = ("before", "delivery", "response", "after")

NESTING: tuple[Phase, ...] = ("after", "before", "delivery", "response")
"""The order in which the faults of one request nest, the outermost first."""

Need = Literal[
    "restart",
    "time",
    "versions",
    "crash",
    "disconnect",
    "one try of an effect",
    "callers",
    "tasks",
]
"""The abilities that a deployment needs.

They are to replace its instances, let time pass, deploy another version, end an instance, cancel
a request at an effect, make one try of an effect fail or wait, tell callers apart, and serve
tasks. Every deployment can make an effect fail.
"""


def rounds_of(location: str) -> int:
    """Return how many rounds a call takes in which nothing goes wrong."""
    return 2 if only_place(location) else 3


# --- when a fault can happen --------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    """The facts about a request that decide whether a fault can happen at it.

    Attributes:
        first: Whether it is the first request of the run.
        can_go_elsewhere: Whether there is another instance than the one that asked.
        answers: Whether it carries an answer to a question that every version asks.
        asks: Whether such a question follows.
        effects: The kinds of effects that took place while it was at work.
        has_next_version: Whether there is a later version to deploy.
    """

    first: bool
    can_go_elsewhere: bool
    answers: bool
    asks: bool
    effects: frozenset[str]
    has_next_version: bool


@dataclass(frozen=True)
class Condition:
    """A condition on the request at which a fault can show.

    Attributes:
        says: Such a request in words, as in "a request that answers a question".
        holds: Returns whether a request is one.
    """

    says: str
    holds: Callable[[Situation], bool]


ANY_REQUEST = Condition("any request", lambda situation: True)
LATER = Condition("a request after the first", lambda situation: not situation.first)
LATER_OF_TWO = Condition(
    "a request after the first, and two instances",
    lambda situation: not situation.first and situation.can_go_elsewhere,
)
ANSWERS = Condition("a request that answers a question", lambda situation: situation.answers)


# --- around a request ---------------------------------------------------------------------------

Version = Literal["inserted"]
"""The version of the file that a fault deploys: one with one more question."""

BACK_OFF_SECONDS = 61.0
"""The time after which a client retries a server's failure and a dead instance is replaced.

It is longer than the single-use guard waits for its rounds.
"""


class OtherCall(Protocol):
    """Another call of the same user for the same location."""

    async def begin(self) -> None:
        """Send the first round."""
        ...

    async def finish(self) -> None:
        """Send the rounds after the first."""
        ...


class Client(Protocol):
    """The usual client and the world around it, as a fault uses them.

    Attributes:
        last_request: The client's last request, as it was sent.
    """

    last_request: Request | None

    async def restart(self) -> None:
        """Replace every instance."""
        ...

    async def redeploy(self, version: Version) -> None:
        """Deploy another version of the file."""
        ...

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def crash(self) -> None:
        """End the instance of the last request."""
        ...

    async def deliver(
        self, request: Request, *, elsewhere: bool = False, lost: bool = True
    ) -> Reply:
        """Deliver one more request, to the instance that asked or to another one.

        Args:
            request: The request.
            elsewhere: Whether it goes to another instance than the one that asked.
            lost: Whether its response is lost.
        """
        ...

    @property
    def questions(self) -> list[str]:
        """The names of the call's questions, in order."""
        ...

    @property
    def next_question(self) -> str | None:
        """The name of the question after this request; None after the last."""
        ...

    def answer(self, question: str, *, otherwise: bool = False) -> types.InputResponse:
        """Have the user answer a question, as usual or otherwise; see `CHANGED_ANSWERS`."""
        ...

    def other_call(self, *, otherwise: bool = False) -> OtherCall:
        """Return another call of the user, with the same answers or with others."""
        ...


@dataclass(frozen=True)
class Outgoing:
    """One request of the usual client on its way. A fault may send another one on.

    Attributes:
        client: The client that sends it.
        request: The request.
        previous: The request before it; None for the first.
        elsewhere: Whether it goes to another instance than the one that asked.
        again: The time at which the network delivers it a second time: after the response, or at
            the same moment.
        lost: Whether the network loses the response (`messages.LOST`).
        at_effect: The name of the fault that happens at an effect of it.
    """

    client: Client
    request: Request
    previous: Request | None
    elsewhere: bool = False
    again: Literal["later", "at once"] | None = None
    lost: bool = False
    at_effect: str | None = None


SendOn: TypeAlias = Callable[[Outgoing], Awaitable[Reply]]
Around: TypeAlias = Callable[[Outgoing, SendOn], Awaitable[Reply]]


def nest(faults: Sequence[Kind], send: SendOn) -> SendOn:
    """Return the way of a request through its faults."""
    for phase in reversed(NESTING):
        for kind in faults:
            if kind.phase == phase:
                send = partial(_pass_through, kind.around, send)
    return send


async def _pass_through(around: Around, send: SendOn, outgoing: Outgoing) -> Reply:
    return await around(outgoing, send)


# --- at an effect -------------------------------------------------------------------------------


class Struck(Protocol):
    """The instance that an effect came from, and its client."""

    async def end_instance(self) -> None:
        """End the instance. In the instance this never returns."""
        ...

    async def let_client_leave(self) -> None:
        """Make the client leave, and wait until it has."""
        ...


class ArrivingEffect(Struck, Protocol):
    """An effect on its way to its destination, and what can go wrong there.

    It goes to a ledger of ours (`ledger`), or to a ledger's file that a server of any kind writes
    to (`ledger_file`).
    """

    def fail(self) -> NoReturn:
        """Report that the effect failed."""
        ...

    async def take_long(self, seconds: float) -> None:
        """Take some time. A ledger of ours takes none."""
        ...

    async def wait_for_lock(self, seconds: float) -> None:
        """Wait while somebody else writes. A ledger of ours has no other writer."""
        ...


Arrive: TypeAlias = Callable[[], Awaitable[None]]
AtEffect: TypeAlias = Callable[[ArrivingEffect, Arrive], Coroutine[Any, Any, None]]


# --- a fault ------------------------------------------------------------------------------------

RAREST = 100
"""The rarity of a fault that only happens if something is broken."""

LACKED = "lacked"
"""The search of a fault that the model lacks: while explorations try it, no cell says "never"."""


@checked(frozen=True)
class Kind:
    """One way in which a request can go wrong.

    Raises:
        ValidationError: A column has no such value, the name has more than letters, or explorations
            try a fault without `model`.

    Attributes:
        name: Its name, without the round.
        says: The fault in a sentence.
        around: What it does around the request.
        words: The fault in the few words of a table's cell.
        instruction: The same as an instruction, as the page offers it; see `where`.
        phase: The part of the request that it concerns.
        at: The effect at which it happens; None for a fault of the request itself.
        at_effect: What it does at that effect.
        deploys: The version of the file that it deploys.
        lasts: Whether it happens at each try of the effect in a round, not at the first alone.
        another_call: Whether the user means another call than the one under review.
        can: The condition on a request at which it can show.
        needs: The abilities of a deployment that it needs.
        modern: Whether it needs a call of several requests, as only modern clients make.
        needs_two: Whether it needs two instances, and rounds that go to the one that asked.
        tried: The commands that try it. "explore": every exploration. "alone": every exploration,
            but not together with another fault, since it does not depend on one. "check": only
            `check` and `play`, since the client misbehaves. "asked": `play`, and explorations with
            `--also`. "script": only scripts.
        rarity: The rank by which tables choose: of several faults that do the same harm, a table
            names the least rare.
        model: The search of the model (docs/MODEL.md) that has it: "" for the one without extras,
            the name of an extra, or `LACKED`. None for a fault that explorations do not try.
    """

    name: str
    says: str
    around: Around
    words: str
    instruction: str
    phase: Phase
    at: EffectKind | None = None
    at_effect: AtEffect | None = None
    deploys: Version | None = None
    lasts: bool = False
    another_call: bool = False
    can: Condition = ANY_REQUEST
    needs: frozenset[Need] = frozenset()
    modern: bool = False
    needs_two: bool = False
    tried: Literal["explore", "alone", "check", "asked", "script"] = "explore"
    rarity: int = RAREST
    model: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z@]+", self.name):
            raise ValueError(
                f"the fault {self.name!r} could not be typed with its round, as in lost3: write its"
                " name in small letters alone"
            )
        if self.model is None and self.tried in ("explore", "alone"):
            raise ValueError(
                f"explorations try the fault {self.name!r}: name the model's search that has it"
                ' (model="" for the one without extras), or write model="lacked"; then no cell says'
                ' "never". With tried="check" explorations leave it out'
            )

    @property
    def where(self) -> str:
        """The place where the page offers it: at the request, at its response, or at an effect."""
        return self.at or ("response" if self.phase == "response" else "request")


def fault(name: str, says: str, **columns: Any) -> Callable[[Around], Kind]:
    """Make a fault of the function around its request. The columns are those of `Kind`."""

    def make(around: Around) -> Kind:
        return Kind(name, says, around, **columns)

    return make


def fault_at_effects(
    name: str,
    says: str,
    *,
    words: str,
    back_off: float = 0.0,
    **columns: Any,
) -> Callable[[AtEffect], tuple[Kind, Kind]]:
    """Make a fault at each kind of effect, of the function around the effect's arrival.

    Texts have `{}` where the effect is named. The client goes on after `back_off` seconds.
    """

    def make(at_effect: AtEffect) -> tuple[Kind, Kind]:
        def kind(effect: EffectKind) -> Kind:
            at = f"{name}@{effect}"
            with_effect = Condition(
                f"a request with the {effect}", lambda situation: effect in situation.effects
            )
            make_kind = fault(
                at,
                says.format(effect),
                words=words.format(effect),
                phase="response",
                at=effect,
                at_effect=at_effect,
                can=with_effect,
                **columns,
            )
            return make_kind(partial(_let_strike, at, back_off))

        return kind("audit"), kind("bill")

    return make


async def _let_strike(name: str, back_off: float, outgoing: Outgoing, send: SendOn) -> Reply:
    """Send a request at an effect of which a fault happens."""
    reply = await send(replace(outgoing, at_effect=name))
    if back_off:
        await outgoing.client.wait(back_off)
    return reply
