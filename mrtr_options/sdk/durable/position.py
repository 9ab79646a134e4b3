"""The state of a durable call: its handle, and its position."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason

_NAMED = re.compile(r"([0-9a-f]{32})(?:-(\d+))?", re.ASCII)
"""The handle of a named call: its name, and how many calls have freed the name before it."""


def handle_after(handle: str) -> str | None:
    """Return the handle of the next call of the same name; None for a call without a name."""
    named = _NAMED.fullmatch(handle)
    return None if named is None else f"{named[1]}-{int(named[2] or 0) + 1}"


@dataclass
class Position:
    """The client's position in a call, as its state records it.

    Attributes:
        handle: The call.
        number: The number of the output that the round goes on from; -1 if the call is to begin.
        waited: The number of rounds in a row that ended without a question.
        began: The time of the first request, in microseconds since 1970, until its client hears of
            the call. A request that began a call finds it again by this time.
        asked: The digest of what the user was asked.
        said: The answers of an earlier waiting round, as sealed text.
    """

    handle: str
    number: int = -1
    waited: int = 0
    began: int = 0
    asked: str = ""
    said: str = ""

    @staticmethod
    def of(state: str) -> Position:
        """Return the position that a state says.

        Raises:
            MCPError: Genuine, but not a state of this kind.
        """
        try:
            handle, number, waited, latest, said = state.split(".", 4)
            position = Position(handle, int(number) - 1, int(waited), said=said)
            if position.number < 0:
                position.began = int(latest)
            else:
                position.asked = latest
        except ValueError:
            raise refusal(Reason.UNKNOWN_CALL) from None
        return position

    @property
    def state(self) -> str:
        """The text that the client is to bring back.

        Its fourth part is `began` before the first output, and `asked` after it.
        """
        latest = self.asked if self.number >= 0 else f"{self.began}"
        return f"{self.handle}.{self.number + 1}.{self.waited}.{latest}.{self.said}"
