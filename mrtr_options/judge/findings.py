"""What a proposal does that the contract does not allow: looked for, shrunk, and put into words.

Holds each history against the contract, and for each broken rule shrinks the scenario: it leaves out
what is not needed to break it. Knows scenarios, histories and the contract; nothing of where runs are
made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mrtr_options.bench.explore import Play
from mrtr_options.bench.history import History, Sent
from mrtr_options.bench.scenario import Call, Forge, ListTools, Repeat, Scenario, Send, Step, Together
from mrtr_options.bench.telling import CLIENT, tell
from mrtr_options.judge.contract import EFFECTS, RULES, SOURCES, violations
from mrtr_options.judge.properties import Problem

FORM = "content-is-one-text"
"""The rule about the form of a result."""

SHRINK_RUNS = 40
"""How many runs may be made to find the smallest case of one rule."""

MOST_ROWS = 40
"""How much of a run is told whole."""

GIVE_UP = 3
"""How many runs may have a request without a response; further ones would each take as long."""


@dataclass(frozen=True)
class Finding:
    """A broken rule, with the smallest run that shows it.

    Attributes:
        history: The run.
        problem: The first place in it.
        follows: The rule about responses that is broken at the same request, if this is about an effect
            or about the form of a result.
    """

    history: History
    problem: Problem
    follows: str = ""

    @property
    def rule(self) -> str:
        """The rule's name."""
        return self.problem.property

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "rule": self.rule,
            "says": RULES[self.rule],
            "source": SOURCES.get(self.rule, ""),
            "case": self.history.scenario.name,
            "era": self.history.era,
            "instances": self.history.scenario.instances,
            "allowed": self.problem.allowed,
            "came": self.problem.came,
            "story": story(self),
        }


def findings(history: History, tools: dict[str, dict[str, Any]]) -> list[Finding]:
    """The rules that a run breaks. What is wrong with an effect follows from a wrong response, and so
    does the form of a result where none is due.

    Args:
        history: The run.
        tools: The server's listing.
    """
    found = violations(history, tools=tools)
    causes: dict[int | None, str] = {}
    for each in found:
        if each.property not in EFFECTS and causes.get(each.exchange, FORM) == FORM:
            causes[each.exchange] = each.property

    def follows(each: Problem) -> str:
        cause = causes.get(each.exchange, "")
        return cause if each.property in EFFECTS or each.property == FORM != cause else ""

    return [Finding(history, each, follows(each)) for each in found]


async def smallest(play: Play, finding: Finding, tools: dict[str, dict[str, Any]]) -> Finding:
    """The same, shrunk: with nothing in it that is not needed.

    First the calls beside the one that shows it are left out, then single steps.
    """
    best = finding
    left = SHRINK_RUNS
    if finding.rule == "every-request-is-answered":  # each try may take as long as a hang
        return best
    while left > 0:
        for smaller in _smaller(best):
            left -= 1
            history = await play(smaller)
            found = violations(history, tools=tools)
            if same := [each for each in found if each.property == finding.rule]:
                best = Finding(history, same[0])
                break
            if left <= 0:
                return best
        else:
            return best
    return best


def _smaller(finding: Finding) -> Iterator[Scenario]:
    """Scenarios with less in them, the smallest first."""
    whole = finding.history.scenario
    for fault in whole.faults:
        yield replace(whole, faults=tuple(each for each in whole.faults if each != fault))
    steps = whole.script
    for less in _fewer(steps, finding):
        if less:  # without a script the default client would play
            yield replace(whole, script=tuple(less))


def _fewer(steps: Sequence[Step], finding: Finding) -> Iterator[Sequence[Step]]:
    calls = sorted({call for step in steps for call in _calls_of(step)})
    mine = _call_of(finding)
    if len(calls) > 1:
        size = 1
        while size < len(calls):  # the call itself, and more and more of those before it
            near = [call for call in calls if mine is None or call <= mine][-size:]
            yield [step for step in steps if set(_calls_of(step)) <= set(near)]
            size *= 2
        if len(calls) <= 8:
            for call in calls:
                yield [step for step in steps if call not in _calls_of(step)]
    forged = _forged(finding)
    for at, step in enumerate(steps):
        if isinstance(step, Forge) and not step.only and forged is not None:
            only = replace(step, only=forged)
            yield [*steps[:at], only, *steps[at + 1 :]]
    half = len(steps) // 2
    if half > 4:
        yield steps[:half]
        yield steps[: half + half // 2]
    for at in range(len(steps) - 1, -1, -1):
        yield [*steps[:at], *steps[at + 1 :]]


def _calls_of(step: Step) -> tuple[int, ...]:
    match step:
        case Send():
            return (step.call,) if step.state_of is None else (step.call, step.state_of)
        case Call() | Repeat() | Forge():
            return (step.call,)
        case Together():
            return tuple(call for each in step.steps for call in _calls_of(each))
        case ListTools():
            return ()
        case _:
            return ()


def _sent(finding: Finding) -> Sent | None:
    number = finding.problem.exchange
    return next(
        (each for each in finding.history.events if isinstance(each, Sent) and each.exchange == number),
        None,
    )


def _call_of(finding: Finding) -> int | None:
    sent = _sent(finding)
    return sent.call if sent else None


def _forged(finding: Finding) -> str | None:
    sent = _sent(finding)
    return sent.request.forged if sent else None


# --- in words -----------------------------------------------------------------------------------


def story(finding: Finding) -> list[str]:
    """Who did what, what the contract allows there, and what came: one line each.

    A run that could not be made small is told of one call: that of the request where it goes wrong.
    """
    lines: list[str] = []
    problem, latest = finding.problem, 0
    verdict = [f"   allowed: {problem.allowed}", f"   came: {problem.came}"]
    rows, mine = tell(finding.history), _call_of(finding)
    if mine is not None and len(rows) > MOST_ROWS:
        own = {row.round for row in rows if row.kind == "request" and row.call == mine}
        rows = [row for row in rows if row.round is None or row.round in own]
    for row in rows:
        match row.kind:
            case "request":
                latest = row.number
                where = ""
                if finding.history.instances > 1 and isinstance(row.end, int):
                    where = f" (instance {row.end + 1})"
                lines.append(f"{latest}. {row.text}{where}")
            case "response" if row.exchange == problem.exchange:
                return [*lines, *verdict, *(f"   {each}" for each in row.wire[1:])]
            case "response":
                name = "" if row.number == latest else f"{row.number}. "
                lines.append(f"   {name}gets {row.text}" + (" (and never sees it)" if row.lost else ""))
            case "effect":
                lines.append(f"   effect: {row.text}")
            case "question" | "answer" if CLIENT not in (row.start, row.end):  # pushed to an old client
                lines.append(f"   {row.label}")
            case "failure" | "crash" | "change" | "time":
                lines.append(f"   {row.text}")
            case _:
                pass
    return [*lines, *verdict]
