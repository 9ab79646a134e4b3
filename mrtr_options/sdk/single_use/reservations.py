"""The interface of a store, in which the guard reserves rounds and records their outcomes.

Knows nothing of MCP and of no database.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Protocol

from mrtr_options.errors import UsageError


class Spent(Exception):
    """A round that has run with other answers, or a call that was begun with other arguments.

    Attributes:
        became: "open", "ended" or "in doubt": what became of that call. None for a round.
    """

    became: str | None = None


class OtherArguments(Spent):
    """A call that was begun with other arguments."""

    def __init__(self, became: str) -> None:
        super().__init__()
        self.became = became


class Full(Exception):
    """The store holds as many rounds as it may, of all callers or of this one.

    None of them may be forgotten yet.
    """


class Pending(Exception):
    """A round that is reserved, whose lease lasts, and that has no recorded outcome yet."""


class Abandoned(Exception):
    """A reserved round without an outcome whose lease has ended: its process died."""


class Unanswered(Exception):
    """A call that has had effects, whose open question is too old to be answered.

    Attributes:
        question: The recorded outcome that asks it.
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question


class Forgotten(Exception):
    """A state or a call key from the future, or older than the store remembers."""


class Unusable(UsageError):
    """A store that cannot be used. The text is one line that says what to do."""


@dataclass(frozen=True)
class Stamp:
    """The moment at which a state is handed out.

    Attributes:
        at: The time by the store's clock, in seconds.
        mark: The store and its epoch (see `sql`).
    """

    at: float
    mark: str


@dataclass
class Claim:
    """One delivery's claim to a round.

    The delivery sets the effects as they begin, and what belongs to the outcome with the outcome.

    Attributes:
        number: The round's number; the call's name where this is its first round.
        answers: A digest of what it is taken with: the answers, or a first round's arguments.
        begins: When the number was handed out, by the store's clock.
        lease_seconds: How long the round may take. Without an outcome by then it is abandoned.
        caller: Whose round it is; None for an anonymous client's.
        owner: A fencing token: this delivery's, and no other one's.
        mark: The mark of the stamp with which the number was handed out.
        call: The name of the call that the round belongs to; None for a call without a name.
        arguments: A digest of the arguments that a named call begins with. Its later rounds have
            the same, and bring none.
        made: When the client made the call key that names the call, by its clock.
        call_seconds: How long the outcome is found under the call's name, where the server named
            the call; a call key has a time of its own.
        frees: Whether the outcome ends its call without the user's consent. The next first request
            of a name that the server gave begins another call then; a call key stays with its call.
            Set with the outcome.
        asked_at: When the outcome's question was handed out, by the store's clock: the next round
            begins then. None for an outcome without one. A call whose question is too old to be
            answered frees its name in the same way. Set with the outcome.
        effects: The effects of the call up to now, as `effects.CallEffects` writes them; None if it
            has none. A call that has effects does not give its name away.
        label: The call for who runs the server; None for a later round, or a secret.
        has_begun: Whether a round of the call is recorded: it is refused for want of room only in a
            store that is far over its bounds.
    """

    number: str
    answers: str
    begins: float
    lease_seconds: float
    caller: str | None = None
    owner: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    mark: str = ""
    call: str | None = None
    arguments: str = ""
    made: float | None = None
    call_seconds: float = 0.0
    frees: bool = False
    asked_at: float | None = None
    effects: str | None = None
    label: str | None = None
    has_begun: bool = False

    @property
    def is_first(self) -> bool:
        """Return whether it is of the first round of a named call."""
        return self.number == self.call

    @property
    def goes_on(self) -> bool:
        """Return whether it is of a later round of a call that the server named."""
        return self.call is not None and self.made is None and not self.is_first


@dataclass(frozen=True)
class Doubtful:
    """A call of which nobody knows whether its effects happened.

    Attributes:
        id: Names it to `settle`.
        label: Its tool, its name and its caller; None if it has no name, or that is a secret.
        since: When its round may have ended at the latest, in seconds since 1970.
        effects: Its effects, as `effects.CallEffects` writes them; None if none is known.
    """

    id: str
    label: str | None
    since: float
    effects: str | None


class Store(Protocol):
    """A store that reserves rounds and records their outcomes. Every method is atomic."""

    async def stamp(self) -> Stamp:
        """Return what a state that is handed out now carries. All instances share the clock."""
        ...

    async def reserve(self, claim: Claim) -> str | None:
        """Take a round. Writes only where the round is not taken yet.

        Returns:
            None if the round is now the delivery's to run; the recorded outcome if it has run. For
            a first round, the outcome of the latest round of its call.

        Raises:
            Spent, Pending, Abandoned, Forgotten, Full, Unusable: The round is not taken.
        """
        ...

    async def outcome(self, call: str) -> str | None:
        """Return the latest recorded outcome of a named call; None if nothing is recorded.

        Raises:
            Unusable: See there.
        """
        ...

    async def take_over(self, claim: Claim) -> bool:
        """Take a round that was abandoned, to run it again.

        Returns:
            Whether it is now the delivery's.
        """
        ...

    async def effects(self, claim: Claim) -> str | None:
        """Return the effects of a round; for a first round, of its call's latest round."""
        ...

    async def begin_effect(self, claim: Claim) -> bool:
        """Record the effects of a claim before the last one begins, within a lease of its round.

        Returns:
            Whether the round is still this delivery's.
        """
        ...

    async def suspend(self, claim: Claim) -> None:
        """Leave a delivery's round without an outcome, to be taken over at once.

        It is taken over with the claim's answers; with any where the claim has none.
        """
        ...

    async def ask_afresh(self, claim: Claim, outcome: str) -> bool:
        """Record that the open question of a named call, which was too old, is asked again.

        Returns:
            Whether it was: another delivery may have been first.
        """
        ...

    async def reopen(self, claim: Claim, outcome: str) -> bool:
        """Let the abandoned round of a named call be taken over with any answers.

        Its question, which the outcome asks again, is then the open one.

        Returns:
            Whether the call's latest round is abandoned.
        """
        ...

    async def record(self, claim: Claim, outcome: str) -> bool:
        """Record the outcome of a delivery's round. The first one stays.

        Returns:
            Whether the recorded outcome is this one.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Give back a delivery's round: it counts as not taken. One with an outcome stays."""
        ...
