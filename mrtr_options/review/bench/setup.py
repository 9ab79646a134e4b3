"""The setup of a call: the client's era and policy, the instances, and the effects' destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mrtr_options.tool.weather import Destination, only_place

Era = Literal["legacy", "modern"]
ERAS: tuple[Era, ...] = ("modern", "legacy")

Declares = Literal["empty", "form", "url"]
"""A client's declaration of elicitation, if it differs from the SDK's.

It is `{}`, which means forms; by form only; or by URL only.
"""

Fleet = Literal["one", "sticky", "free"]
"""The instances, and how rounds reach them.

There is one; or there are two, and a round goes to the instance that handed out its state
("sticky"), or to each in turn ("free").
"""

Policy = Literal["stops", "calls again", "resends"]
"""A client's policy after a lost response.

It reports the error to the application and sends nothing more, as most shipped clients do; it
calls the tool again from scratch, by itself or because its model does; or it sends the same
request again. The first two are today's clients.
"""

POLICIES: tuple[Policy, ...] = get_args(Policy)
"""Every client's policy, today's first."""


Words = Literal["same", "other"]
"""The arguments of a client that calls again: as before, or written otherwise, as models do."""


@dataclass(frozen=True)
class Setup:
    """The place of a call, and its client.

    Attributes:
        era: The client's era.
        fleet: The instances, and how rounds reach them.
        policy: The default client's policy after a lost response.
        destination: The behaviour of the effects' destination towards an effect that it has seen.
        words: The arguments of a client that calls again.
    """

    era: Era = "modern"
    fleet: Fleet = "one"
    policy: Policy = "resends"
    destination: Destination = "ignores keys"
    words: Words = "same"

    @property
    def client(self) -> str:
        """The client's policy, in words that follow "the client"."""
        is_other = self.policy == "calls again" and self.words == "other"
        return f"{self.policy} in other words" if is_other else self.policy


DEFAULT_SETUP = Setup()


def rounds_of(location: str) -> int:
    """Return how many rounds a call takes in which nothing goes wrong."""
    return 2 if only_place(location) else 3
