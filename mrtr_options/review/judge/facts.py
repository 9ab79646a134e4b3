"""The facts about a history, derived once: the ends of its calls, its effects, its user's view.

Properties are checked on a `Reading`; an `Observation` is what the matrix keeps of one, or of
several runs that differ in timing only. Knows histories and the contract; neither options nor
deployments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import dropwhile
from typing import Any, Literal

import mcp_types as types

from mrtr_options.review.bench import redeploys
from mrtr_options.review.bench.faults import Era
from mrtr_options.review.bench.history import (
    HUNG,
    LOST,
    Answered,
    Asked,
    Effect,
    Elapsed,
    Entered,
    Form,
    History,
    Received,
    Redeployed,
    Reply,
    Sent,
    readable_state,
)
from mrtr_options.review.bench.scenario import ENDED, Change
from mrtr_options.review.judge.contract import violations
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool import weather

Outcome = Literal["completed", "refused", "tool_error", "cancelled", "lost", "hung"]
"""The end of the call for the client.

It ended with a text, with an error code, with an `isError` result, as a cancelled task, without a
response that the client could use, or not at all within the time of a hang.
"""

Verdict = Literal["once", "missing", "duplicated", "refused", "lost"]

Fate = Literal["ok", "asked again", "stale", "refused", "lost"]
"""The outcome of a call whose server was replaced by another version, in order of harm.

It continued without a difference; the user had to answer a question twice; it completed although
the user never answered a question as the version that finished it asks it; it was refused; or it
never came to an end.
"""


@dataclass(frozen=True)
class Observation:
    """The summary of one run, or of several that differ in timing only.

    Attributes:
        option: The subject's letter.
        wrappers: The names of its wrappers, innermost first.
        era, deployment, schedule: The client's era, the deployment, and the schedule.
        calls: The number of calls that the user meant to make.
        outcome: The end of the call; of several calls the first that did not complete.
        text: The text of its result.
        code, message: The parts of its error.
        replies: The replies that the client went on from, in order, without lost ones.
        refusals: The errors among them.
        questions: The messages the user saw, in order.
        rounds: The number of requests that reached a server. Looks at a task are left out, since
            their number depends on timing.
        effects: How often each effect took place; a list where it depended on timing.
        entries: How often each function of the author's was entered, where that can be seen.
        state_bytes: The size of each state that was handed out.
        agreed: Whether a request that arrived twice got the same response twice, and a task that
            had ended stayed as it was.
        readable: Whether the client could read a state; None if there was none.
        fate: The outcome of the call, if its server was redeployed with changed code.
        breaks: The rules that it breaks, each with the reason; whoever judges it fills this in.
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
        return f"{_digit(self.most('audit'))}/{_digit(self.most('bill'))}"

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object."""
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


# --- from a history to an observation -----------------------------------------------------------


class Reading:
    """A history, and what follows from it. Call 1 is the one under review; others disturb it."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def violations(self) -> list[Problem]:
        """The history's breaches of the contract."""
        return violations(self.history)

    @cached_property
    def exchanges(self) -> list[tuple[Sent, Received]]:
        """See `History.exchanges`."""
        return self.history.exchanges

    @cached_property
    def deliveries(self) -> list[tuple[Sent, Received]]:
        """See `History.deliveries`."""
        return self.history.deliveries

    @cached_property
    def answers(self) -> list[Answered]:
        """The user's answers."""
        return [event for event in self.history.events if isinstance(event, Answered)]

    # --- effects --------------------------------------------------------------------------------

    def effects(self, kind: str) -> Counter[str]:
        """Count an effect, by subject."""
        return Counter(
            event.effect.subject
            for event in self.history.events
            if isinstance(event, Effect) and not event.absorbed and event.effect.kind == kind
        )

    @cached_property
    def effects_due(self) -> int:
        """The number of times that an effect may take place.

        That is once for each call, and once more for each change of mind.
        """
        given: dict[str, set[str]] = {}
        for event in self.answers:
            if event.call == 1:
                given.setdefault(event.name, set()).add(str(event.content))
        return len(self.history.scenario.callers) + sum(len(each) - 1 for each in given.values())

    # --- how call 1 ended -----------------------------------------------------------------------

    @cached_property
    def end(self) -> Reply:
        """The client's last reply: its result, or else the first response of its last round."""
        seen = [
            (sent.round, got.reply)
            for sent, got in self.deliveries
            if sent.call == 1 and not got.lost
        ]
        last = max((number for number, _ in seen), default=0)
        end = next((reply for number, reply in seen if number == last), Reply(nothing=LOST))
        return next((reply for _, reply in seen if reply.is_result), end)

    @cached_property
    def report(self) -> str | None:
        """The text of the result, if it reports a place."""
        text = self.end.text
        return text if text is not None and text.partition(":")[0] in weather.REPORTS else None

    @property
    def place(self) -> str:
        """The place that is reported; empty without a report."""
        return (self.report or "").partition(":")[0]

    @cached_property
    def unheeded(self) -> set[str]:
        """The reported place and units that the user's answers do not contain."""
        if self.report is None:
            return set()
        said: dict[str, set[str]] = {}
        for event in self.history.events:
            contents: list[Mapping[str, object]] = []
            if isinstance(event, Answered) and event.call == 1 and event.action == "accept":
                contents = [event.content or {}]
            elif isinstance(event, Sent) and event.call == 1:  # perhaps with unasked answers
                answers = (event.request.answers or {}).values()
                contents = [
                    each.content or {} for each in answers if isinstance(each, types.ElicitResult)
                ]
            for content in contents:
                for name, value in content.items():
                    said.setdefault(name, set()).add(str(value))
        place = self.place
        wrong = {place} - (said.get("place") or set(weather.places_named(self.history.location)))
        if "units" not in said and self.report.endswith(
            "(metric assumed: this client cannot be asked)"
        ):
            return wrong
        known: tuple[Literal["metric", "imperial"], ...] = ("metric", "imperial")
        units = {
            each
            for each in known
            if self.report == weather.report(place, weather.UnitsAnswer(units=each))
        }
        return wrong | ((units or {self.report}) - said.get("units", set()))

    @cached_property
    def _due(self) -> dict[str, Form]:
        """The questions of the version that made the report, by name; empty without a redeploy."""
        history = self.history
        if self.report is None or not any(
            isinstance(event, Redeployed) for event in history.events
        ):
            return {}
        versions = dict[int, Change | None]()
        billed: list[Change | None] = []  # by which: a result may be sent later than it is made
        version = None
        for event in history.events:
            match event:
                case Redeployed(change=change):
                    instances = range(history.instances) if event.only is None else (event.only,)
                    versions.update(dict.fromkeys(instances, change))
                case Effect(effect=effect) if (effect.kind, effect.subject) == ("bill", self.place):
                    if event.instance is not None:
                        billed.append(versions.get(event.instance))
                case Received(call=1) if event.reply.text == self.report:
                    version = billed[-1] if billed else versions.get(event.instance)
                    break  # later ones may repeat it
                case _:
                    pass
        return redeploys.questions(version, history.location, self.place)

    @cached_property
    def is_stale(self) -> bool:
        """Return whether call 1 completed with an answer to a question that has changed.

        The version that made the result asks it in other words or with other choices.
        """
        shown: dict[str, Form] = {}
        answered: dict[str, Form] = {}
        for event in self.history.events:
            if isinstance(event, Asked) and event.call == 1:
                shown[event.name] = event.form
            elif isinstance(event, Answered) and event.call == 1 and event.name in shown:
                answered[event.name] = shown[event.name]
        return any(answered.get(name) != form for name, form in self._due.items())

    @cached_property
    def is_asked_again(self) -> bool:
        """Return whether the user of call 1 had to answer a question twice."""
        asked: set[str] = set()
        answered: set[str] = set()
        for event in self.history.events:
            if isinstance(event, Answered) and event.call == 1:
                answered |= {event.name} & asked  # not what was said before it was asked
            elif isinstance(event, Asked) and event.call == 1:
                if event.name in answered:
                    return True
                asked.add(event.name)
        return False

    # --- requests -------------------------------------------------------------------------------

    @cached_property
    def agrees(self) -> bool:
        """Return whether equal deliveries got equal responses, and finished tasks stayed."""
        first: dict[int, Reply] = {}
        for sent, got in self.deliveries:
            whole = got.reply.nothing is None
            if whole and not got.reply.same_as(first.setdefault(sent.round, got.reply)):
                return False
        over = list(dropwhile(lambda reply: reply.status not in ENDED, self._looks))
        return all(reply.same_as(over[0]) for reply in over)

    @cached_property
    def _looks(self) -> list[Reply]:
        """Every response with a task's status."""
        return [
            got.reply
            for sent, got in self.exchanges
            if sent.request.method == "tasks/get" and got.reply.status is not None
        ]

    @cached_property
    def ages(self) -> dict[int, float]:
        """The age of each request's state in seconds; 0 without a state."""
        now = 0.0
        born: dict[str | None, float] = {}
        ages: dict[int, float] = {}
        for event in self.history.events:
            match event:
                case Elapsed(seconds=seconds):
                    now += seconds
                case Received(reply=reply):
                    born[reply.state] = now
                case Sent(request=request):
                    was = now if request.state is None else born.get(request.state, 0.0)
                    ages[event.exchange] = now - was
                case _:
                    pass
        return ages

    # --- the summary ----------------------------------------------------------------------------

    @cached_property
    def observation(self) -> Observation:
        """The summary of the history."""
        history = self.history
        option, *wrappers = history.subject.split("+")
        # The client goes on from the first response of a round that it sees.
        taken: dict[int, tuple[Sent, Received]] = {}
        for request, got in self.deliveries:
            if not got.lost:
                taken.setdefault(request.round, (request, got))
        sent = [event for event in history.events if isinstance(event, Sent)]
        states = [got.reply.state for _, got in self.exchanges if got.reply.state is not None]
        end = self._end(list(taken.values()))
        return Observation(
            option,
            tuple(wrappers),
            history.era,
            history.deployment,
            history.scenario.name,
            calls=len(history.scenario.callers),
            replies=tuple(got.reply for _, got in taken.values()),
            questions=tuple(event.message for event in history.events if isinstance(event, Asked)),
            rounds=len([each for each in sent if each.request.method != "tasks/get"]),
            effects={kind: self.effects(kind).total() for kind in ("audit", "bill")},
            entries=dict(
                Counter(event.function for event in history.events if isinstance(event, Entered))
            ),
            state_bytes=tuple(map(len, states)),
            agreed=self.agrees,
            readable=readable_state(states[-1]) is not None if states else None,
            fate=self._fate(end["outcome"]) if history.scenario.changes else None,
            **end,
        )

    def _end(self, taken: Sequence[tuple[Sent, Received]]) -> dict[str, Any]:
        """Return the end of the calls: the first that did not complete, or else the last."""
        end: dict[str, Any] = {}
        scenario = self.history.scenario
        for call in range(1, len(scenario.callers) + 1):
            replies = [got.reply for sent, got in taken if sent.call == call]
            last = replies[-1] if replies else Reply()
            if scenario.takes_tasks:
                over = next((reply for reply in self._looks if reply.status in ENDED), None)
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

    def _fate(self, outcome: Outcome) -> Fate:
        if outcome != "completed":
            return "lost" if outcome in ("lost", "hung") else "refused"
        if self.is_stale or ("place" in self._due and self.place in self.unheeded):
            return "stale"
        return "asked again" if self.is_asked_again else "ok"


def observe(history: History) -> Observation:
    """Return the summary of a history."""
    return Reading(history).observation


def merged(runs: Sequence[Observation]) -> Observation:
    """Merge several runs of one cell that differ in timing only.

    The result is the first run, with the counts and disagreements of all.
    """
    first = runs[0]
    effects: dict[str, int | list[int]] = {}
    for effect in first.effects:
        counts = sorted({run.most(effect) for run in runs})
        effects[effect] = counts if len(counts) > 1 else counts[0]
    breaks = {name: why for run in runs for name, why in run.breaks.items()}
    return replace(first, effects=effects, agreed=all(run.agreed for run in runs), breaks=breaks)
