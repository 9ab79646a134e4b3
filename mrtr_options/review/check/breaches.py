"""The breaches of the contract in the runs of a proposal, and their smallest scenarios.

Holds each history against the contract, and for each broken rule shrinks the scenario: it leaves
out what is not needed to break it. Knows scenarios, histories and the contract; nothing of where
runs are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import TypeVar

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.attacks.forgeries import Forge
from mrtr_options.review.bench.history import History, Received, Sent
from mrtr_options.review.bench.messages import Tools
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Repeat, Send, Step, Together, WholeCall
from mrtr_options.review.check.calls import rounds
from mrtr_options.review.explore import Play
from mrtr_options.review.judge.contract import RULES, violations
from mrtr_options.review.judge.contract.rules import Rule
from mrtr_options.review.judge.properties import Problem

T = TypeVar("T")

SHRINK_REQUESTS = 3_000
"""The number of requests, about, that may be sent to find the smallest case of one rule."""

RUN_REQUESTS = 25
"""The cost of a run besides its own requests, in requests."""

WAIT_REQUESTS = 100
"""The cost of an effect that is slow, or that waits for another program's write, in requests."""

FRESH_REQUESTS = 50
"""The cost of starting servers for a run, in requests."""

EARLIER_REQUESTS = 1_000
"""The number of requests of earlier runs that are tried, at most, to find what set a server up."""

SMALL = 8
"""The number of requests up to which a history is not shrunk again on fresh servers."""

GIVE_UP = 3
"""The number of runs with an unanswered request after which no more are made: each takes long."""


@dataclass(frozen=True)
class Made:
    """A run that was made.

    Attributes:
        scenario: The scenario.
        requests: The number of its requests.
        open_calls: The number of its calls that waited for an answer at its end.
    """

    scenario: Scenario
    requests: int
    open_calls: int = 0


@dataclass(frozen=True)
class Breach:
    """A broken rule, with the smallest run that shows it.

    Attributes:
        history: The run.
        problem: The first place in it.
        follows: The rule about responses that is broken at the same request, if this is about an
            effect or about the form of a result.
        set_up: Whether it depends on earlier runs, so that fresh servers do not show it; None:
            untried.
        open_before: The earlier runs that left calls open, with how many, where it depends on
            earlier runs.
    """

    history: History
    problem: Problem
    follows: str = ""
    set_up: bool | None = False
    open_before: tuple[tuple[str, int], ...] = ()

    @property
    def rule(self) -> str:
        """The rule's name."""
        return self.problem.property


def breaches(history: History, tools: Tools) -> list[Breach]:
    """Return the rules that a run breaks.

    A wrong effect follows from a wrong response, and so does the form of a result that must not
    come. A bill follows only from a response that turns the verdict: what a server may do against
    a recommendation, and what it may bill then, is allowed in `Exchange.excused`.

    Args:
        history: The run.
        tools: The server's listing.
    """
    found = violations(history, tools=tools)
    causes: dict[int | None, Rule] = {}
    for each in found:
        rule = RULES[each.property]
        if rule.about == "responses" and _comes_before(rule, causes.get(each.exchange)):
            causes[each.exchange] = rule

    calls = {sent.exchange: sent.call for sent, _ in history.exchanges}
    forged = [at for at, rule in causes.items() if rule == rules.STATE_IS_GENUINE]
    misled = {calls.get(at or 0): rules.STATE_IS_GENUINE for at in forged}

    def followed_rule(each: Problem) -> str:
        rule = RULES[each.property]
        cause = causes.get(each.exchange)
        if cause is None and each.exchange is not None:
            cause = misled.get(calls.get(each.exchange))
        return cause.name if cause is not None and _follows(rule, cause) else ""

    return [Breach(history, each, followed_rule(each)) for each in found]


def _comes_before(rule: Rule, other: Rule | None) -> bool:
    """Return whether a rule is a likelier cause of what else is wrong at a request."""
    if other in (None, rules.CONTENT_IS_ONE_TEXT):
        return True
    return rule.in_verdict and not other.in_verdict and rule != rules.CONTENT_IS_ONE_TEXT


def _follows(rule: Rule, cause: Rule) -> bool:
    """Return whether a breach of a rule follows from that of another at the same request."""
    if rule == rules.BILLS_ARE_DUE:
        return cause.in_verdict
    if rule == rules.CONTENT_IS_ONE_TEXT:
        return cause != rule
    return rule.about == "effects"


async def smallest(
    play: Play,
    breach: Breach,
    tools: Tools,
    *,
    fresh: bool = False,
    requests: int | None = None,
) -> Breach:
    """Shrink a breach: leave out all steps that it does not need.

    A plain rule takes the place of a special one if a smaller run breaks the plain rule with the
    same response, unless only the special one turns the verdict.

    A smaller run counts if it breaks the rule twice: an earlier run may have left something behind.

    Args:
        play: Makes a run.
        breach: The breach.
        tools: The server's listing.
        fresh: Whether each run is made on servers of its own: then once is enough.
        requests: The number of requests, about, that may be sent; None for `SHRINK_REQUESTS`.
    """
    best = breach
    left = SHRINK_REQUESTS if requests is None else requests
    if not _can_shrink(breach):
        return best

    async def shows(scenario: Scenario) -> Breach | None:
        nonlocal left
        history = await play(scenario)
        left -= RUN_REQUESTS + len(history.exchanges) + WAIT_REQUESTS * _waits(scenario.script)
        if fresh:
            left -= FRESH_REQUESTS
        return _same(history, best, tools)

    smaller = _smaller(best)
    while left > 0:
        scenario = next(smaller, None)
        if scenario is None:
            break
        found = await shows(scenario)
        if found is not None and not fresh:
            found = await shows(scenario)  # once more: an earlier run may have set it up
        if found is not None:
            best = found
            smaller = _smaller(found)
    return best


def _can_shrink(breach: Breach) -> bool:
    """Return whether smaller runs of a breach are tried.

    They are not if each may take as long as a hang. Nor are they after so many requests that the
    server, which they filled, would be full for a smaller run, too.
    """
    too_many = len(breach.history.exchanges) > SHRINK_REQUESTS
    is_unanswered = breach.rule == rules.EVERY_REQUEST_IS_ANSWERED.name
    return not (is_unanswered or too_many)


def _same(history: History, like: Breach, tools: Tools) -> Breach | None:
    """Return the same breach in a run, or the same response under a plain rule; else None."""
    rule = RULES[like.rule]
    found = violations(history, tools=tools)
    same = [each for each in found if each.property == like.rule]
    alike = [each for each in found if each.came == like.problem.came]
    same += [each for each in alike if RULES[each.property].stands_for(rule)]
    return Breach(history, same[0]) if same else None


async def on_its_own(
    play: Play,
    breach: Breach,
    whole: Breach,
    earlier: Sequence[Made],
    tools: Tools,
    requests: int | None = None,
) -> Breach:
    """Return the breach on servers that were started for it, after the earlier runs that it needs.

    Args:
        play: Makes a run on fresh servers.
        breach: The breach, shrunk on servers on which other runs were made before.
        whole: The breach before it was shrunk.
        earlier: The other runs, up to the one that showed it.
        tools: The server's listing.
        requests: The number of requests, about, that may be sent; None for `SHRINK_REQUESTS`.
    """
    if not _can_shrink(breach):
        return breach
    alone = breach.history.scenario
    for scenario in (alone, alone, *_after(alone, earlier)):
        history = await play(scenario)
        found = _same(history, breach, tools) or _same(history, whole, tools)
        if found is not None:
            if scenario is alone and len(found.history.exchanges) <= SMALL:
                return found
            return await smallest(play, found, tools, fresh=True, requests=requests)
    return replace(breach, set_up=True, open_before=_open_before(earlier))


def _open_before(earlier: Sequence[Made]) -> tuple[tuple[str, int], ...]:
    """Return the runs that left calls open, by name, with how many."""
    found = Counter[str]()
    for made in earlier[:-1]:  # the last one is the run that showed it
        if made.open_calls:
            found[made.scenario.name] += made.open_calls
    return tuple(found.items())


def waiting_calls(history: History, until: Sent | None = None) -> set[int]:
    """Return the calls that wait for their user's answer when a request is sent, or at the end."""
    waiting: set[int] = set()
    for event in history.events:
        if event is until:
            break
        if isinstance(event, Received):
            if event.reply.questions:
                waiting.add(event.call)
            elif event.reply.is_result or event.reply.is_refusal:
                waiting.discard(event.call)
    return waiting


def _after(scenario: Scenario, earlier: Sequence[Made]) -> Iterator[Scenario]:
    """Yield a scenario behind the last one, two, four and so on of earlier runs."""
    requests = accumulate(made.requests for made in reversed(earlier))
    fit = [
        made.scenario
        for made, of in zip(reversed(earlier), requests, strict=True)
        if of <= EARLIER_REQUESTS
    ]
    size = 1
    while size < 2 * len(fit):
        yield reduce(_behind, fit[:size], scenario)
        size *= 2


def _behind(scenario: Scenario, earlier: Scenario) -> Scenario:
    """Return a scenario behind an earlier one on the same servers.

    An earlier call of the usual client is made as a call in which nothing goes wrong.
    """
    if earlier.takes_tasks or earlier.changes:
        return scenario
    script = earlier.script
    is_legacy = earlier.setup.era == "legacy"
    if not script:
        script = (WholeCall(),) if is_legacy else tuple(rounds(1, earlier.callers[0]))
    steps = tuple(
        _renumbered(step, len(scenario.callers), earlier.instances == 1)
        for step in script
        if earlier.setup.era == scenario.setup.era or not isinstance(step, WholeCall)
    )
    callers = (*scenario.callers, *earlier.callers)
    return replace(scenario, callers=callers, before=(*steps, *scenario.before))


def _renumbered(step: Step, by: int, is_alone: bool) -> Step:
    """Return a step with higher numbers of calls, perhaps sent to the first instance."""
    if isinstance(step, Together):
        return Together(tuple(_renumbered(each, by, is_alone) for each in step.steps))
    numbers = {name: getattr(step, name, None) for name in ("call", "state_of", "waits_for")}
    changes = {name: number + by for name, number in numbers.items() if number is not None}
    if is_alone and isinstance(step, Send | Repeat):
        changes["to"] = 0
    return replace(step, **changes)


def _waits(steps: Sequence[Step]) -> int:
    """Return how many effects are slow, or wait. Effects at the same time count once."""
    return len([step for step in steps if any(map(_is_slow, step.parts))])


def _is_slow(step: Step) -> bool:
    return (step.fault or "").startswith(("slow@", "lock@"))


def _smaller(breach: Breach) -> Iterator[Scenario]:
    """Yield scenarios with less in them, the smallest first."""
    whole = breach.history.scenario
    for fault in whole.faults:
        yield replace(whole, faults=tuple(each for each in whole.faults if each != fault))
    for less in _fewer(whole.before, breach):
        if less:  # it does not show without any
            yield replace(whole, before=tuple(less))
    for less in _fewer(whole.script, breach):
        if less:  # without a script the usual client would play
            yield replace(whole, script=tuple(less))


def _fewer(steps: Sequence[Step], breach: Breach) -> Iterator[Sequence[Step]]:
    sent = sent_in(breach)
    mine, forged = (sent.call, sent.request.forged) if sent else (None, None)
    calls = dict.fromkeys(call for step in steps for call in step.calls)
    others = [call for call in calls if call != mine]
    alone = [step for step in without(steps, others) if step.calls]
    alone = [step for step in alone if forged is not None or not isinstance(step, Forge)]
    if alone != [*steps]:
        yield alone
    for at, step in enumerate(steps):
        if isinstance(step, Forge) and not step.only and forged is not None:
            yield [*steps[:at], replace(step, only=forged), *steps[at + 1 :]]
    for some in _chunks(others):
        yield list(without(steps, some))
    for some in _chunks(range(len(steps))):
        yield [step for at, step in enumerate(steps) if at not in some]


def without(steps: Sequence[Step], calls: Collection[int]) -> Iterator[Step]:
    """Yield the steps that belong to none of these calls."""
    for step in steps:
        if isinstance(step, Together):
            some = tuple(without(step.steps, calls))
            if len(some) < 2:
                yield from some
            else:
                yield Together(some)
        elif not {*step.calls} & {*calls}:
            yield step


def _chunks(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the halves, quarters and so on of a sequence, the later first."""
    size = (len(whole) + 1) // 2
    while size:
        for end in range(len(whole), 0, -size):
            yield whole[max(end - size, 0) : end]
        size = (size + 1) // 2 if size > 1 else 0


def sent_in(breach: Breach) -> Sent | None:
    """Return the request where a breach is."""
    for event in breach.history.events:
        if isinstance(event, Sent) and event.exchange == breach.problem.exchange:
            return event
    return None
