"""What a proposal does that the contract does not allow: looked for, shrunk, and put into words.

Holds each history against the contract, and for each broken rule shrinks the scenario: it leaves out
what is not needed to break it. Knows scenarios, histories and the contract; nothing of where runs are
made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mrtr_options.bench.explore import Play
from mrtr_options.bench.history import History, Sent
from mrtr_options.bench.scenario import Call, Forge, Repeat, Scenario, Send, Step, Together
from mrtr_options.bench.telling import CLIENT, tell
from mrtr_options.judge.contract import EFFECTS, RULES, SOURCES, violations
from mrtr_options.judge.contract.allowed import PLAIN
from mrtr_options.judge.properties import Problem

T = TypeVar("T")

FORM = "content-is-one-text"
"""The rule about the form of a result."""

SHRINK_REQUESTS = 3_000
"""How many requests, about, may be sent to find the smallest case of one rule."""

RUN_REQUESTS = 25
"""How many requests a run costs besides its own."""

WAIT_REQUESTS = 100
"""How many requests an effect costs that is slow, or that waits while another program writes."""

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
    """The same, shrunk: with nothing in it that is not needed. A plain rule takes the place of a special
    one where the same is wrong without what the special one is about.

    A smaller run counts where it shows the same twice: an earlier one may have left something behind.
    """
    best, left = finding, SHRINK_REQUESTS
    if finding.rule == "every-request-is-answered":  # each try may take as long as a hang
        return best
    if len(finding.history.exchanges) > left:  # a server that it filled is full for a smaller run, too
        return best

    async def shows(scenario: Scenario) -> Finding | None:
        nonlocal left
        history = await play(scenario)
        left -= RUN_REQUESTS + len(history.exchanges) + WAIT_REQUESTS * _waits(scenario.script)
        found = violations(history, tools=tools)
        same = [each for each in found if each.property == best.rule]
        same += [each for each in found if each.property in PLAIN and each.came == best.problem.came]
        return Finding(history, same[0]) if same else None

    smaller = _smaller(best)
    while left > 0 and (scenario := next(smaller, None)) is not None:
        if await shows(scenario) and (found := await shows(scenario)):
            best, smaller = found, _smaller(found)
    return best


def _waits(steps: Sequence[Step]) -> int:
    """How many effects are slow, or wait."""
    return sum(
        min(_waits(step.steps), 1)  # they wait at the same time
        if isinstance(step, Together)
        else isinstance(step, Send) and (step.fault or "").startswith(("slow@", "lock@"))
        for step in steps
    )


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
    sent = _sent(finding)
    mine, forged = (sent.call, sent.request.forged) if sent else (None, None)
    alone = [step for step in steps if {*_calls_of(step)} == {mine}]
    if len(alone) < len(steps):
        yield alone
    for at, step in enumerate(steps):
        if isinstance(step, Forge) and not step.only and forged is not None:
            yield [*steps[:at], replace(step, only=forged), *steps[at + 1 :]]
    calls = list(dict.fromkeys(call for step in steps for call in _calls_of(step)))
    for some in _chunks(calls) if len(calls) > 1 else ():
        yield [step for step in steps if not {*_calls_of(step)} & {*some} - {mine}]
    for some in _chunks(range(len(steps))):
        yield [step for at, step in enumerate(steps) if at not in some]


def _chunks(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    """Its halves, quarters and so on, the later first."""
    size = (len(whole) + 1) // 2
    while size:
        for end in range(len(whole), 0, -size):
            yield whole[max(end - size, 0) : end]
        size = (size + 1) // 2 if size > 1 else 0


def _calls_of(step: Step) -> tuple[int, ...]:
    match step:
        case Send():
            return (step.call,) if step.state_of is None else (step.call, step.state_of)
        case Call() | Repeat() | Forge():
            return (step.call,)
        case Together():
            return tuple(call for each in step.steps for call in _calls_of(each))
        case _:
            return ()


def _sent(finding: Finding) -> Sent | None:
    """The request where a finding is."""
    events, number = finding.history.events, finding.problem.exchange
    return next((each for each in events if isinstance(each, Sent) and each.exchange == number), None)


def _rounds(history: History, call: int) -> set[int]:
    """The rounds of a call, and those that handed out the states which it uses."""
    rounds, states = set[int](), set[str | None]()
    for sent, got in reversed(history.exchanges):
        if sent.call == call or got.reply.state in states - {None}:
            rounds.add(sent.round)
            states.add(sent.request.state)
    return rounds


# --- in words -----------------------------------------------------------------------------------


def story(finding: Finding) -> list[str]:
    """Who did what, what the contract allows there, and what came: one line each.

    A run that could not be made small is told of one call, that of the request where it goes wrong, and
    of where its states come from.
    """
    problem, latest = finding.problem, 0
    verdict = [f"   allowed: {problem.allowed}", f"   came: {problem.came}"]
    rows, sent = tell(finding.history), _sent(finding)
    lines: list[str] = []
    if not any(row.kind == "failure" for row in rows):  # the server has hidden it
        lines += [f"   {kind.says}" for kind in finding.history.scenario.at_effects]
    if sent is not None and len(rows) > MOST_ROWS:
        own = _rounds(finding.history, sent.call)
        others = sum(row.kind == "request" and row.round not in own for row in rows)
        lines.append(f"   ({others} other requests are not shown)")
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
