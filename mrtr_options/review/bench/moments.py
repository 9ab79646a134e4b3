"""One request as a fault sees it: the members that a row of `faults.KINDS` reads, sets and calls.

The client implements it (`driver`); a fault knows no more of the client than this.
"""

from __future__ import annotations

from typing import Literal, Protocol

import mcp_types as types

from mrtr_options.review.bench.messages import Reply, Request

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
        """Have the user answer a question, as usual or otherwise; see `driver.OTHERWISE`."""
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
