"""Kinds of faults: the columns of the table in `faults`.

A row says when a fault can happen and which abilities of a deployment it needs, and it makes the
fault happen, as data and as functions: on the way of the request (`elsewhere`, `again`, `lost`),
around it (`act_before`, `act_after`, which act on its `Moment`), and at an effect (`strike`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import mcp_types as types

from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.setup import Era, Fleet
from mrtr_options.review.bench.strikes import Strike
from mrtr_options.tool.weather import EffectKind

Phase = Literal["before", "delivery", "response", "after"]
"""The part of a request that a fault concerns, in the order in which the parts happen.

A fault happens before the request, changes how often it is delivered, takes its response away,
or happens after it. At one request there is at most one fault of each phase.
"""

PHASES: tuple[Phase, ...] = ("before", "delivery", "response", "after")
"""The order in which a request's faults take effect before it, by phase."""

PHASES_AFTER: tuple[tuple[Phase, ...], ...] = (("delivery", "response"), ("before",), ("after",))
"""The order in which a request's faults act after it.

A fault that was begun before the request (another call) ends after the request's delivery and
response faults.
"""

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


@dataclass(frozen=True)
class Situation:
    """The facts about a request that decide whether a fault can happen at it.

    Attributes:
        first: Whether it is the first request of the run.
        era: The client's era.
        fleet: The instances, and how rounds reach them.
        answers: Whether it carries an answer to a question that every version asks.
        asks: Whether such a question follows.
        effects: The kinds of effects that took place while it was at work.
        has_next_version: Whether there is a later version to deploy.
    """

    first: bool
    era: Era
    fleet: Fleet
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

Again = Literal["later", "at once"]
"""The time of a second delivery: after the response, or at the same moment."""

RAREST = 100
"""The rarity of a fault that only happens if something is broken."""

# --- around a request ---------------------------------------------------------------------------

Version = Literal["inserted"]
"""The version of the file that a fault deploys: one with one more question."""


class Moment(Protocol):
    """One request of the default client, and what can be done around it.

    Attributes:
        request: The request. A row may change it before it is sent.
        previous: The request before it; None for the first.
        reply: The reply that the client goes on from.
    """

    request: Request
    previous: Request | None
    reply: Reply

    # --- the instances --------------------------------------------------------------------------

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
        """End the instance that has answered."""
        ...

    # --- the network ----------------------------------------------------------------------------

    async def deliver(
        self, request: Request, *, elsewhere: bool = False, lost: bool = True
    ) -> Reply:
        """Deliver a request besides the moment's own.

        Args:
            request: The request.
            elsewhere: Whether it goes to another instance than the one that asked.
            lost: Whether its response is lost.
        """
        ...

    # --- the user -------------------------------------------------------------------------------

    @property
    def questions(self) -> list[str]:
        """The names of the call's questions, in order."""
        ...

    @property
    def next_question(self) -> str | None:
        """The name of the question after this request; None after the last."""
        ...

    def answer(self, question: str, *, otherwise: bool = False) -> types.InputResponse:
        """Have the user answer a question, as usual or otherwise; see `driver.CHANGED_ANSWERS`."""
        ...

    async def begin_other(self) -> None:
        """Begin another call of the same user."""
        ...

    async def finish_other(self) -> None:
        """Finish the other call."""
        ...

    async def call_again(self) -> None:
        """Make the same call again, with the same answers; the user wants both."""
        ...


Act: TypeAlias = "Callable[[Moment], Awaitable[None]]"


async def do_nothing(moment: Moment) -> None:
    """Do nothing: a fault need not act before or after a request."""


# --- the columns --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """One way in which a request can go wrong.

    Attributes:
        name: Its name, without the round.
        says: The fault in a sentence.
        words: The same in the few words of a table's cell, 25 characters with the round at most.
        instruction: The same as an instruction, as the page offers it; see `where`.
        phase: The part of the request that it concerns.
        act_before, act_after: The acts before the request is sent, and after its response. A fault
            of any phase may have both.
        elsewhere: Whether the request goes to another instance than the one that asked.
        again: The time at which the network delivers the request a second time.
        lost: Whether the response is lost (`messages.LOST`).
        at: The effect at which it happens; None for a fault of the request itself.
        strike: The behaviour at that effect.
        deploys: The version of the file that it deploys.
        another_call: Whether the user means another call than the one under review.
        can: The condition on a request at which it can show.
        needs: The abilities of a deployment that it needs.
        modern: Whether it needs a call of several requests, as only modern clients make.
        needs_two: Whether it needs two instances, and rounds that go to the one that asked.
        tried: The commands that try it. "explore": every exploration. "alone": every exploration,
            but not together with another fault, since it does not depend on one. "check": only
            `check` and `play`, since the client misbehaves. "script": only scripts.
        rarity: The rank by which tables choose: of several faults that do the same harm, a table
            names the least rare.
        model: The search of the model (docs/MODEL.md) that has it: "" for the one without extras,
            or the name of an extra. None if the model lacks it; then no cell of a table says
            "never", if explorations try it.
    """

    name: str
    says: str
    words: str
    instruction: str
    phase: Phase
    act_before: Act = do_nothing
    act_after: Act = do_nothing
    elsewhere: bool = False
    again: Again | None = None
    lost: bool = False
    at: EffectKind | None = None
    strike: Strike | None = None
    deploys: Version | None = None
    another_call: bool = False
    can: Condition = ANY_REQUEST
    needs: frozenset[Need] = frozenset()
    modern: bool = False
    needs_two: bool = False
    tried: Literal["explore", "alone", "check", "script"] = "explore"
    rarity: int = RAREST
    model: str | None = None

    @property
    def where(self) -> str:
        """The place where the page offers it: at the request, at its response, or at an effect."""
        return self.at or ("response" if self.phase == "response" else "request")
