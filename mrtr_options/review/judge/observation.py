"""The summary of a run: what the matrix keeps of it, and what its cell shows.

Knows the facts about a history (`facts`); nothing of rules and guarantees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mrtr_options.review.bench.history import Asked, Entered, History, Sent, readable_state
from mrtr_options.review.bench.messages import HUNG, LOST, Era, JsonObject, Reply
from mrtr_options.review.judge.facts import HistoryReading

Outcome = Literal["completed", "refused", "tool_error", "cancelled", "lost", "hung"]
"""The end of the call for the client.

It ended with a text, with an error code, with an `isError` result, as a cancelled task, without a
response that the client could use ("lost"), or not at all within the time of a hang.
"""

Verdict = Literal["once", "missing", "duplicated", "refused", "lost"]
"""See `Observation.verdict`. "lost" is a call without a result, whether it was lost or hung."""

Fate = Literal["ok", "asked again", "stale", "refused", "lost"]
"""The outcome of a call whose server was replaced by another version, in order of harm.

It continued without a difference; the user had to answer a question twice; it completed although
the user never answered a question as the version that finished it asks it; it was refused; or it
never came to an end.
"""


Counts = dict[str, int | list[int]]
"""How often each effect took place; a list where it depended on timing."""


@dataclass(frozen=True)
class Observation:
    """The summary of one run, or of several that differ in timing only.

    Attributes:
        subject: The letter and the wrappers, innermost first: "E", "E+guard".
        era, deployment, schedule: The client's era, the deployment, and the schedule.
        calls: The number of calls that the user meant to make.
        outcome: The end of the call; of several calls the first that did not complete.
        text: The text of its result.
        code, message: The parts of its error.
        replies: The replies that the client went on from, in order, without lost ones.
        refusals: The errors among them.
        questions: The messages the user saw, in order.
        requests: The number of requests that were sent to a server. Looks at a task are left out,
            since their number depends on timing.
        effects: The counts of its effects.
        entries: How often each function of the author's was entered, where that can be seen.
        state_bytes: The size of each state that was handed out.
        agreed: Whether a request that arrived twice got the same response twice, and a task that
            had ended stayed as it was.
        readable: Whether the client could read a state; None if there was none.
        fate: The outcome of the call, if its server was redeployed with changed code.
        breaks: The rules that it breaks, each with the reason; whoever judges it fills this in.
    """

    subject: str
    era: Era
    deployment: str
    schedule: str
    calls: int = 1
    outcome: Outcome = "lost"
    text: str | None = None
    code: int | None = None
    message: str | None = None
    replies: tuple[Reply, ...] = ()
    questions: tuple[str, ...] = ()
    requests: int = 0
    effects: Counts = field(default_factory=Counts)
    entries: dict[str, int] = field(default_factory=dict[str, int])
    state_bytes: tuple[int, ...] = ()
    agreed: bool = True
    readable: bool | None = None
    fate: Fate | None = None
    breaks: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def refusals(self) -> list[Reply]:
        """The errors that the client got."""
        return [reply for reply in self.replies if reply.code is not None]

    def most(self, effect: str) -> int:
        """Return the largest count of an effect."""
        count = self.effects.get(effect, 0)
        return max(count) if isinstance(count, list) else count

    def least(self, effect: str) -> int:
        """Return the smallest count of an effect."""
        count = self.effects.get(effect, 0)
        return min(count) if isinstance(count, list) else count

    @property
    def verdict(self) -> Verdict:
        """The verdict.

        "duplicated" if an effect took place more often than the user made calls, whatever the
        client was told. Else by the outcome; "missing" if the call completed or was cancelled and
        lacks an effect (the user said no, or it was lost).
        """
        if max(self.most("audit"), self.most("bill")) > self.calls:
            return "duplicated"
        if self.outcome in ("lost", "hung"):
            return "lost"
        if self.outcome == "refused":
            return "refused"
        all_there = min(self.least("audit"), self.least("bill")) == self.calls
        return "once" if all_there else "missing"

    @property
    def cell(self) -> str:
        """Two or three characters for the matrix: audit/bill, or a sign for no result."""
        if self.outcome == "refused":
            return "ref"
        if self.outcome == "cancelled":
            return "can"
        if self.outcome in ("lost", "hung"):
            return "---" if self.outcome == "lost" else "..."
        return f"{_one_character(self.most('audit'))}/{_one_character(self.most('bill'))}"

    def as_json(self) -> JsonObject:
        """Return one JSON object."""
        option, *wrappers = self.subject.split("+")
        return {
            "option": option,
            "wrappers": wrappers,
            "era": self.era,
            "deployment": self.deployment,
            "schedule": self.schedule,
            "outcome": self.outcome,
            "text": self.text,
            "code": self.code,
            "rounds": self.requests,
            "questions": list(self.questions),
            "effects": self.effects,
            "verdict": self.verdict,
            "entries": self.entries,
            "state_bytes": list(self.state_bytes),
            "fate": self.fate,
        }


def _one_character(count: int) -> str:
    return str(count) if count < 10 else "+"


def merge(runs: Sequence[Observation]) -> Observation:
    """Merge several runs of one cell that differ in timing only.

    The result is the first run, with the counts and disagreements of all.
    """
    first = runs[0]
    effects: Counts = {}
    for effect in first.effects:
        counts = sorted({run.most(effect) for run in runs})
        effects[effect] = counts if len(counts) > 1 else counts[0]
    breaks = {name: why for run in runs for name, why in run.breaks.items()}
    return replace(first, effects=effects, agreed=all(run.agreed for run in runs), breaks=breaks)


# --- of a history -------------------------------------------------------------------------------


def observe(history: History) -> Observation:
    """Return the summary of a history."""
    reading = HistoryReading(history)
    events = history.events
    sent = [event for event in events if isinstance(event, Sent)]
    states = [got.reply.state for _, got in reading.exchanges if got.reply.state is not None]
    end = _end_of_calls(reading)
    outcome = _outcome_of(end)
    return Observation(
        history.subject,
        history.era,
        history.deployment,
        history.scenario.name,
        calls=reading.calls,
        replies=tuple(reply for _, reply in reading.taken),
        questions=tuple(event.message for event in events if isinstance(event, Asked)),
        requests=len([each for each in sent if each.request.method != "tasks/get"]),
        effects={"audit": reading.audits, "bill": reading.bills},
        entries=dict(Counter(event.function for event in events if isinstance(event, Entered))),
        state_bytes=tuple(map(len, states)),
        agreed=reading.agrees,
        readable=readable_state(states[-1]) is not None if states else None,
        fate=_judge_fate(reading, outcome) if history.scenario.changes else None,
        outcome=outcome,
        text=end.text,
        code=end.code,
        message=end.message if outcome == "refused" else None,
    )


def _end_of_calls(reading: HistoryReading) -> Reply:
    """Return the last reply of the first call that did not complete, or else of the last call."""
    end = Reply(nothing=LOST)
    for call in range(1, reading.calls + 1):
        replies = reading.replies_to(call)
        last = replies[-1]
        results = [reply for reply in replies if reply.is_result]
        if reading.history.scenario.takes_tasks:
            results = [] if last.code is not None else reading.ended_looks
        end = [*results, last][0]
        if _outcome_of(end) not in ("completed", "tool_error"):
            return end
    return end


def _outcome_of(end: Reply) -> Outcome:
    """Return the outcome of a call with this last reply."""
    if end.status == "cancelled":
        return "cancelled"
    if end.code is not None:
        return "refused"
    if not end.is_result:
        return "hung" if end.nothing == HUNG else "lost"
    return "tool_error" if end.is_error else "completed"


def _judge_fate(reading: HistoryReading, outcome: Outcome) -> Fate:
    if outcome != "completed":
        return "lost" if outcome in ("lost", "hung") else "refused"
    if reading.is_stale:
        return "stale"
    return "asked again" if reading.is_asked_again else "ok"
