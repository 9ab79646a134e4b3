"""What was seen while one option ran one schedule, and what to call it.

Data only: knows neither options nor deployments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["completed", "refused", "tool_error", "cancelled", "lost", "hung"]
"""How the call ended for the client: with a text, with an error code, with an `isError` result, as a
task that was cancelled, with no response that it could use, or not at all within
`deployments.HANG_SECONDS`."""

Verdict = Literal["exactly once", "at most once", "more than once", "refused", "lost"]

Fate = Literal["ok", "asked again", "stale", "refused", "lost"]
"""What became of a call whose server was replaced by another version: it went on as though nothing
had happened; the user had to answer a question twice; it completed although the user never answered
a question as the version that finished it asks it, or answered otherwise; it was refused; or it never
came to an end."""

LOST, HUNG = "lost", "hung"


@dataclass(frozen=True)
class Reply:
    """One response, as the client sees it.

    Attributes:
        text: Of a result.
        is_error: Whether that result is a tool error.
        code, message: Of a JSON-RPC error.
        questions: Messages by key, of a round that asks.
        forms: What can be chosen in each field of their forms, by key.
        state: The token that came with them.
        later: Whether it came with nothing: the client is to come again with it.
        nothing: Why there is no response at all.
        task, status: Of a response that describes a task: its id, and how it stands.
    """

    text: str | None = None
    is_error: bool = False
    code: int | None = None
    message: str | None = None
    questions: dict[str, str] = field(default_factory=dict[str, str])
    forms: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    state: str | None = None
    later: bool = False
    nothing: Literal["lost", "hung"] | None = None
    task: str | None = None
    status: str | None = None

    @property
    def is_result(self) -> bool:
        """Whether this ends the call."""
        return self.text is not None

    @property
    def failed(self) -> bool:
        """Whether the client got nothing to go on with."""
        return self.code is not None or self.nothing is not None

    def round_of(self, key: str) -> str:
        """The name of the round that answers a question: its form's field. A key is the server's."""
        return next(iter(self.forms.get(key, {})), key)

    def same_as(self, other: Reply) -> bool:
        """Whether two responses say the same; a state is sealed anew each time, so it is left out."""
        return (self.text, self.is_error, self.code, self.questions, self.status) == (
            other.text,
            other.is_error,
            other.code,
            other.questions,
            other.status,
        )


@dataclass
class Observation:
    """Everything seen while one option ran one schedule in one era on one deployment.

    Attributes:
        option: Its letter.
        wrappers: The names of what it was put into, innermost first.
        era, deployment, schedule: Where.
        calls: How many calls the user meant to make.
        replies: What the client got, in order, with what was lost on the way left out.
        refusals: The errors among them that were not the end.
        questions: The messages the user saw, in order.
        rounds: How many requests reached a server.
        effects: How often each effect took place; a list where it depended on timing.
        entries: How often each function of the author's was entered.
        state_bytes: The size of each state that was handed out.
        agreed: Whether a request that arrived twice got the same response twice, and a task that was
            over stayed as it was.
        readable: Whether the client could read a state; None if there was none.
        unasked: Whether a question reached a client that had not declared it could be asked.
        fate: What became of the call, if its server was redeployed with changed code.
    """

    option: str
    wrappers: tuple[str, ...]
    era: Literal["modern", "legacy"]
    deployment: str
    schedule: str
    calls: int = 1
    outcome: Outcome = "lost"
    text: str | None = None
    code: int | None = None
    message: str | None = None
    replies: list[Reply] = field(default_factory=list[Reply])
    refusals: list[Reply] = field(default_factory=list[Reply])
    questions: list[str] = field(default_factory=list[str])
    rounds: int = 0
    effects: dict[str, int | list[int]] = field(default_factory=dict[str, int | list[int]])
    entries: dict[str, int] = field(default_factory=dict[str, int])
    state_bytes: list[int] = field(default_factory=list[int])
    agreed: bool = True
    readable: bool | None = None
    unasked: bool = False
    fate: Fate | None = None

    @property
    def column(self) -> str:
        """The letter, and what it was put into: "E", "E+single-use"."""
        return "+".join((self.option, *self.wrappers))

    @property
    def hung(self) -> bool:
        """Whether a request was never answered."""
        return any(reply.nothing == HUNG for reply in self.replies)

    def most(self, effect: str) -> int:
        """The largest count seen of an effect."""
        count = self.effects.get(effect, 0)
        return max(count) if isinstance(count, list) else count

    def least(self, effect: str) -> int:
        """The smallest count seen of an effect."""
        count = self.effects.get(effect, 0)
        return min(count) if isinstance(count, list) else count

    @property
    def verdict(self) -> Verdict:
        """What to call it.

        "More than once" if an effect happened more often than the user made calls, whatever the
        client was told. Else by the outcome; a call that completed or was cancelled and lacks an
        effect (the user said no, or it was lost) is "at most once".
        """
        if max(self.most("audit"), self.most("bill")) > self.calls:
            return "more than once"
        if self.outcome in ("lost", "hung"):
            return "lost"
        if self.outcome == "refused":
            return "refused"
        all_there = min(self.least("audit"), self.least("bill")) == self.calls
        return "exactly once" if all_there else "at most once"

    @property
    def cell(self) -> str:
        """Two or three characters for the matrix: audit/bill, or that there was no result."""
        if self.outcome == "refused":
            return "ref"
        if self.outcome == "cancelled":
            return "can"
        if self.outcome in ("lost", "hung"):
            return "---" if self.outcome == "lost" else "..."
        return f"{_digit(self.most('audit'))}/{_digit(self.most('bill'))}"

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "option": self.option,
            "wrappers": list(self.wrappers),
            "era": self.era,
            "deployment": self.deployment,
            "schedule": self.schedule,
            "outcome": self.outcome,
            "text": self.text,
            "code": self.code,
            "rounds": self.rounds,
            "questions": self.questions,
            "effects": self.effects,
            "verdict": self.verdict,
            "entries": self.entries,
            "state_bytes": self.state_bytes,
            "fate": self.fate,
        }


def _digit(count: int) -> str:
    return str(count) if count < 10 else "+"
