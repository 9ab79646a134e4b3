"""What a store sees of a round, and what follows from it for a delivery. Knows no database."""

from __future__ import annotations

from typing import NamedTuple

from mrtr_options.sdk.single_use.reservations import (
    Abandoned,
    Claim,
    OtherArguments,
    Pending,
    Spent,
    Unanswered,
)

IN_DOUBT = '"reason":"indeterminate"'
"""What a recorded outcome of a call in doubt has in its JSON."""


class Seen(NamedTuple):
    """The store's facts about itself and about a round, or about a call's latest round.

    Attributes:
        is_ahead: Whether its lease ends later than a lease that begins now can.
        asked: When the latest round of its call asked; 0 if that asks nothing, None without one.
    """

    now: float
    store: str
    epoch: int
    started: float
    until: float
    seq: int | None
    answers: str | None
    arguments: str | None
    outcome: str | None
    is_over: bool
    is_ahead: bool | None
    is_late: bool
    frees: bool
    is_unanswerable: bool | None
    owner: str | None
    effects: str | None
    asked: float | None

    def is_free(self, claim: Claim) -> bool:
        """Return whether a round is not taken, or a call's name may begin another call."""
        if self.seq is None:
            return True
        if not claim.is_first or claim.made is not None:
            return False
        if self.frees or (self.is_unanswerable and self.effects is None):
            return True
        is_at_work = self.outcome is None and not self.is_over
        return bool(self.is_late) and not is_at_work

    def became(self) -> str:
        """Return what became of the call of this round."""
        if self.outcome is None:
            return "in doubt" if self.is_over else "open"
        if IN_DOUBT in self.outcome:
            return "in doubt"
        return "open" if self.is_unanswerable is not None else "ended"

    def recorded(self, claim: Claim) -> str:
        """Return the recorded outcome of a round that another delivery has taken.

        Raises:
            Spent, Pending, Abandoned: There is none for this claim.
            Unanswered: It is a question that is too old.
        """
        if claim.is_first and self.arguments != claim.arguments:
            raise OtherArguments(self.became())
        if self.outcome is None:
            raise Abandoned if self.is_over else Pending
        if not claim.is_first and self.answers != claim.answers:
            raise Spent
        if claim.is_first and claim.made is None and self.is_unanswerable:
            raise Unanswered(self.outcome)
        return self.outcome
