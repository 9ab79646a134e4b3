"""One request as a fault sees it: the members that a row of `faults.KINDS` sets and calls.

The client implements it (`driver`); a fault knows no more of the client than this.
"""

from __future__ import annotations

from typing import Protocol


class Moment(Protocol):
    """One request, as the rows of `faults.KINDS` see it.

    Attributes:
        deliveries: How often the network delivers the request.
        at_once: Whether the deliveries are made at the same moment.
        elsewhere: Whether the request goes to another instance than the one that asked.
        lost: Whether its response is lost.
    """

    deliveries: int
    at_once: bool
    elsewhere: bool
    lost: bool

    async def misroute(self) -> None:
        """Deliver the request to another instance than the one that asked; its response is lost."""
        ...

    async def restart(self) -> None:
        """Replace every instance."""
        ...

    async def redeploy(self) -> None:
        """Deploy the version with `CHANGE`."""
        ...

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def arm(self, kind: str) -> None:
        """Arm a fault for an effect of the request."""
        ...

    async def crash(self) -> None:
        """End the instance that has answered."""
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

    async def answer_early(self) -> None:
        """Have the request answer every question of the call, by its name, before it is asked."""
        ...

    async def go_back(self) -> None:
        """Answer the question of the round otherwise, from the state that it came with."""
        ...

    async def deliver_earlier(self) -> None:
        """Deliver the request before this one again."""
        ...

    async def deliver_with_more(self) -> None:
        """Deliver the request again with one more property in its answers."""
        ...

    async def answer_ahead(self) -> None:
        """Have the request answer the question after it, too."""
        ...
