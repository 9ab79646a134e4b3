"""The summary of a history: what the client and the user saw, the effects, and a verdict.

Pure functions of histories: knows neither options nor deployments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mrtr_options.bench import redeploys
from mrtr_options.bench.faults import Era
from mrtr_options.bench.history import (
    HUNG,
    Answered,
    Asked,
    Effect,
    Entered,
    Form,
    History,
    Received,
    Redeployed,
    Reply,
    Sent,
)
from mrtr_options.bench.scenario import ENDED, Change
from mrtr_options.sdk.protection import read_without_key

Outcome = Literal["completed", "refused", "tool_error", "cancelled", "lost", "hung"]
"""How the call ended for the client: with a text, with an error code, with an `isError` result, as a
task that was cancelled, with no response that it could use, or not at all within the time of a hang."""

Verdict = Literal["once", "missing", "duplicated", "refused", "lost"]

Fate = Literal["ok", "asked again", "stale", "refused", "lost"]
"""The outcome of a call whose server was replaced by another version, in order: it continued without
a difference; the user had to answer a question twice; it completed although the user never answered a
question as the version that finished it asks it, or answered otherwise; it was refused; or it never
came to an end."""


@dataclass(frozen=True)
class Observation:
    """The summary of one run, or of several that differ in timing only.

    Attributes:
        option: The subject's letter.
        wrappers: The names of its wrappers, innermost first.
        era, deployment, schedule: Where.
        calls: How many calls the user meant to make.
        outcome: How the call ended; of several calls the first that did not complete.
        text: Of its result.
        code, message: Of its error.
        replies: What the client went on from, in order, without what was lost on the way.
        refusals: The errors among them.
        questions: The messages the user saw, in order.
        rounds: How many requests reached a server. Looks at a task are left out, since their number
            depends on timing.
        effects: How often each effect took place; a list where it depended on timing.
        entries: How often each function of the author's was entered, where that can be seen.
        state_bytes: The size of each state that was handed out.
        agreed: Whether a request that arrived twice got the same response twice, and a task that had
            ended stayed as it was.
        readable: Whether the client could read a state; None if there was none.
        fate: What became of the call, if its server was redeployed with changed code.
        breaks: The rules that it breaks, each with what was seen; whoever judges it fills this in.
    """

    option: str
    wrappers: tuple[str, ...]
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
    rounds: int = 0
    effects: dict[str, int | list[int]] = field(default_factory=dict[str, int | list[int]])
    entries: dict[str, int] = field(default_factory=dict[str, int])
    state_bytes: tuple[int, ...] = ()
    agreed: bool = True
    readable: bool | None = None
    fate: Fate | None = None
    breaks: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def subject(self) -> str:
        """The letter and the wrappers: "E", "E+single-use"."""
        return "+".join((self.option, *self.wrappers))

    @property
    def refusals(self) -> list[Reply]:
        """The errors that the client got."""
        return [reply for reply in self.replies if reply.code is not None]

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
        """The verdict.

        "duplicated" if an effect took place more often than the user made calls, whatever the client
        was told. Else by the outcome; "missing" if the call completed or was cancelled and lacks an
        effect (the user said no, or it was lost).
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
            "questions": list(self.questions),
            "effects": self.effects,
            "verdict": self.verdict,
            "entries": self.entries,
            "state_bytes": list(self.state_bytes),
            "fate": self.fate,
        }


def _digit(count: int) -> str:
    return str(count) if count < 10 else "+"


# --- from histories to an observation -----------------------------------------------------------


def observe(history: History) -> Observation:
    """The summary of a history."""
    option, *wrappers = history.subject.split("+")
    taken = _taken(history)
    states = [got.reply.state for _, got in history.exchanges if got.reply.state is not None]
    asked = [event for event in history.events if isinstance(event, Asked)]
    effects = Counter(
        event.effect.kind for event in history.events if isinstance(event, Effect) and not event.absorbed
    )
    seen = Observation(
        option,
        tuple(wrappers),
        history.era,
        history.deployment,
        history.scenario.name,
        calls=len(history.scenario.callers),
        replies=tuple(got.reply for _, got in taken),
        questions=tuple(event.message for event in asked),
        rounds=sum(
            isinstance(event, Sent) and event.request.method != "tasks/get" for event in history.events
        ),
        effects={kind: effects[kind] for kind in ("audit", "bill")},
        entries=dict(Counter(event.function for event in history.events if isinstance(event, Entered))),
        state_bytes=tuple(map(len, states)),
        agreed=_agreed(history),
        readable=read_without_key(states[-1]) is not None if states else None,
        **_end(history, taken),
    )
    return replace(seen, fate=_fate(history, seen)) if history.scenario.changes else seen


def merged(runs: Sequence[Observation]) -> Observation:
    """Several runs of one cell that differ in timing only, as one: the first, with the counts and
    disagreements of all."""
    first = runs[0]
    effects: dict[str, int | list[int]] = {}
    for effect in first.effects:
        counts = sorted({run.most(effect) for run in runs})
        effects[effect] = counts if len(counts) > 1 else counts[0]
    breaks = {rule: why for run in runs for rule, why in run.breaks.items()}
    return replace(first, effects=effects, agreed=all(run.agreed for run in runs), breaks=breaks)


def _taken(history: History) -> list[tuple[Sent, Received]]:
    """The exchange of each round that the client went on from: the first that it saw."""
    found: dict[int, tuple[Sent, Received]] = {}
    for sent, got in history.deliveries:
        if not got.lost:
            found.setdefault(sent.round, (sent, got))
    return list(found.values())


def _looks(history: History) -> list[Reply]:
    """Every response that tells a task's status."""
    return [
        got.reply
        for sent, got in history.exchanges
        if sent.request.method == "tasks/get" and got.reply.status is not None
    ]


def _agreed(history: History) -> bool:
    first: dict[int, Reply] = {}
    for sent, got in history.deliveries:
        if not got.reply.same_as(first.setdefault(sent.round, got.reply)):
            return False
    looks = _looks(history)
    ended = next((number for number, reply in enumerate(looks) if reply.status in ENDED), len(looks))
    return all(reply.same_as(looks[ended]) for reply in looks[ended:])


def _end(history: History, taken: Sequence[tuple[Sent, Received]]) -> dict[str, Any]:
    """How the calls ended: the first that did not complete, or else the last."""
    end: dict[str, Any] = {}
    for call in range(1, len(history.scenario.callers) + 1):
        replies = [got.reply for sent, got in taken if sent.call == call]
        last = replies[-1] if replies else Reply()
        if history.scenario.takes_tasks:
            over = next((reply for reply in _looks(history) if reply.status in ENDED), None)
            result = over if over is not None and last.code is None else last
        else:
            result = next((reply for reply in replies if reply.is_result), last)
        if result.status == "cancelled":
            return {"outcome": "cancelled"}
        if result.code is not None:
            return {"outcome": "refused", "code": result.code, "message": result.message}
        if not result.is_result:
            return {"outcome": "hung" if result.nothing == HUNG else "lost"}
        end = {"outcome": "tool_error" if result.is_error else "completed", "text": result.text}
    return end


def _fate(history: History, seen: Observation) -> Fate:
    if seen.outcome in ("lost", "hung"):
        return "lost"
    if seen.outcome != "completed":
        return "refused"
    place = (seen.text or "").partition(":")[0]
    due = redeploys.questions(_finished_on(history), history.location, place)
    shown: dict[str, list[Form]] = {}
    answered: dict[str, Form] = {}
    named: Any = None
    for event in history.events:
        match event:
            case Asked():
                shown.setdefault(event.name, []).append(event.form)
            case Answered():
                answered[event.name] = shown[event.name][-1]
                named = event.content if event.name == "place" else named
            case _:
                pass
    if any(answered.get(name) != form for name, form in due.items()):
        return "stale"
    if "place" in due and named != {"place": place}:
        return "stale"
    return "asked again" if any(len(forms) > 1 for forms in shown.values()) else "ok"


def _finished_on(history: History) -> Change | None:
    """The version of the instance that gave the first result."""
    versions: list[Change | None] = [None] * history.instances
    for event in history.events:
        match event:
            case Redeployed(change=change, only=only):
                for place in range(history.instances) if only is None else (only,):
                    versions[place] = change
            case Received(instance=instance, reply=reply, lost=False) if reply.is_result:
                return versions[instance]
            case _:
                pass
    return None
