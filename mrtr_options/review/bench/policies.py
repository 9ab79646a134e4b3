"""The policies of clients: what a client does after a response that it cannot go on from.

A policy is one function, under its name and what the client does in a few words. The usual client
plays it (`client.driver`), the commands take it by its name, and the tables have a row for it.

Knows nothing of requests, so that a command line lists the policies at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Next = Literal["end", "call again", "send again", "ask"]
"""What the client does next.

It ends the call; it calls the tool again, from scratch; it sends its last request again, after a
while if the server failed; or it asks under its call key what became of the call.
"""


@dataclass(frozen=True)
class Loss:
    """A response that a client cannot go on from, or the lack of one.

    Attributes:
        round: The number of its round.
        attempt: The number of the client's attempt at that round.
        is_refusal: Whether it is an error that refuses the request, however often it is sent.
        is_keyed: Whether the client sends a call key.
        may_ask: Whether the call's state is too old, so that a client with a key asks for the end.
    """

    round: int
    attempt: int = 1
    is_refusal: bool = False
    is_keyed: bool = False
    may_ask: bool = False


Policy = Callable[[Loss], Next]
"""A function that returns what the client does after a loss."""


@dataclass(frozen=True)
class Choice:
    """What a client did after a loss, and how much of its run had come before.

    Attributes:
        loss: The loss.
        then: What the client did next.
        events: The number of events before.
        attempts: The number of the client's attempts before.
    """

    loss: Loss
    then: Next
    events: int
    attempts: int


@dataclass(frozen=True)
class LossPolicy:
    """The policy of a client after a loss.

    Attributes:
        says: What the client does, as in "report the error and stop".
        after: Returns what the client does after a loss.
    """

    says: str
    after: Policy

    @property
    def stops(self) -> bool:
        """Return whether the client sends nothing more after a loss."""
        return self.after(_OF_A_LATER_ROUND) == "end"

    @property
    def calls_again(self) -> bool:
        """Return whether the client writes its call anew, perhaps in other words."""
        return self.after(_OF_A_LATER_ROUND) == "call again"


_OF_A_LATER_ROUND = Loss(2)

POLICIES: dict[str, LossPolicy] = {}
"""Every policy by its name, as it follows "the client". The first two are today's clients."""


def policy(name: str, says: str) -> Callable[[Policy], Policy]:
    """Make a policy of a function.

    Raises:
        ValueError: Another policy has the name.
    """
    if name in POLICIES:
        raise ValueError(f"there are two clients {name!r}; give one of them another name")

    def add(after: Policy) -> Policy:
        POLICIES[name] = LossPolicy(says, after)
        return after

    return add


@policy("stops", "report the error and stop")
def stops(loss: Loss) -> Next:
    return "end"


@policy("calls again", "call the tool again from scratch")
def calls_again(loss: Loss) -> Next:
    if loss.may_ask:
        return "ask"
    if loss.is_refusal and loss.is_keyed:
        return "end"
    # A first round that got no answer is sent again as it is: it is a new call anyway.
    is_another_request = loss.is_refusal or loss.is_keyed or loss.round > 1
    return "call again" if is_another_request else "send again"


@policy("resends", "resend the request")
def resends(loss: Loss) -> Next:
    if loss.may_ask:
        return "ask"
    return "end" if loss.is_refusal else "send again"
