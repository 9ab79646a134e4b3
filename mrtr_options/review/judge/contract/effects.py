"""The effects that the contract allows: their kinds, order, number and places.

Knows the requests of a history, with the responses that are allowed for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.history import Effect
from mrtr_options.review.bench.history.narrate import describe_reply, quoted
from mrtr_options.review.judge.contract.content import fits_the_schema, location_of
from mrtr_options.review.judge.contract.exchanges import Calls, Exchange
from mrtr_options.review.judge.contract.kinds import Reports
from mrtr_options.review.judge.contract.rules import Rule
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool.weather import in_one_form


def find_wrong_effects(calls: Calls) -> Iterator[Problem]:
    """Yield the effects that are not allowed, and those that are missing."""
    for turn, effect in calls.effects:
        yield from _check_effect(calls, turn, effect)
    yield from _find_surplus(calls, "audit", rules.AUDIT_COMES_FIRST, _count_audits)
    yield from _find_surplus(calls, "bill", rules.BILLS_ARE_DUE, _count_bills)
    yield from _find_missing(calls)


def _count_audits(one: Exchange) -> dict[str, int]:
    """Return how often each location may be audited for a request."""
    if one.request.method != "tools/call" or not fits_the_schema(one.request):
        return {}
    # A legacy handler may begin again at each question that it has pushed.
    times = 1 + len(one.asked) if one.request.era == "legacy" else 1
    return {location_of(one.request): times * _count_begun(one)}


def _count_bills(one: Exchange) -> dict[str, int]:
    """Return how often each place may be billed for a request."""
    reply = one.reply
    fitting = [*one.allowed, *one.excused]
    if reply.nothing is None and not reply.later and not one.failed:
        fitting = [each for each in fitting if each.fits(reply)] or one.allowed
    bills = [each.bill for each in fitting if isinstance(each, Reports) and each.bill is not None]
    return dict.fromkeys(bills, _count_begun(one))


def _count_begun(one: Exchange) -> int:
    """Return how often a request's work may be begun: once more if a process died."""
    return 2 if one.saw_crash else 1


def _check_effect(calls: Calls, turn: int, effect: Effect) -> Iterator[Problem]:
    """Yield a problem if no request at work may have this effect."""
    kind = effect.effect.kind
    subject = effect.effect.subject
    at_work = calls.at_work(turn)
    if kind not in ("audit", "bill"):
        yield _problem_of(calls, rules.NO_OTHER_EFFECTS, turn, "effects audit and bill", effect)
    elif not at_work:
        yield _problem_of(calls, rules.NO_OTHER_EFFECTS, turn, "no effect outside a call", effect)
    elif kind == "bill":
        due = sorted({each for one in at_work for each in _count_bills(one)})
        if subject not in due:
            allowed = f"a bill of {' or '.join(due)}" if due else "no bill"
            yield _problem_of(calls, rules.BILLS_ARE_DUE, turn, allowed, effect)
    else:
        if any(subject in _count_audits(one) for one in reversed(at_work)):
            return
        due = sorted({each for one in at_work for each in _count_audits(one)})
        if subject not in due:
            allowed = f"an audit of {' or '.join(map(quoted, due))}" if due else "no effect"
            rule = rules.AUDIT_COMES_FIRST if due else rules.ARGUMENTS_ARE_CHECKED
            yield _problem_of(calls, rule, turn, allowed, effect)


def _problem_of(calls: Calls, rule: Rule, turn: int, allowed: str, effect: Effect) -> Problem:
    # Of several requests that are at work, the one whose response is wrong, too.
    at_work = sorted(calls.at_work(turn), key=_is_answered_rightly)
    one = at_work[0].sent.exchange if at_work else None
    what = f"an effect: {effect.effect.kind} of {quoted(effect.effect.subject)}"
    return rule.broken(one, allowed, what)


def _is_answered_rightly(one: Exchange) -> bool:
    return one.got is None or any(each.fits(one.reply) for each in one.allowed)


def _find_surplus(
    calls: Calls, kind: str, rule: Rule, count_allowed: Callable[[Exchange], dict[str, int]]
) -> Iterator[Problem]:
    """Yield the effects of a kind for which no request is left.

    A request allows some effects of each subject: it has as many slots. Each effect is matched with
    a slot of a request that was at work when it happened.
    """
    of_kind = [
        (turn, effect)
        for turn, effect in calls.effects
        if effect.effect.kind == kind and not effect.absorbed
    ]
    allowed: dict[int, dict[str, int]] = {}

    def slots_of(one: Exchange, subject: str) -> list[tuple[int, int]]:
        number = one.sent.exchange
        if number not in allowed:
            allowed[number] = count_allowed(one)
        return [(number, place) for place in range(allowed[number].get(subject, 0))]

    slots: list[list[tuple[int, int]]] = []
    for turn, effect in of_kind:
        mine: list[tuple[int, int]] = []
        for one in reversed(calls.at_work(turn)):  # the latest request is the likeliest
            mine += slots_of(one, effect.effect.subject)
        slots.append(mine)
    # The slots of one request are shared by all its subjects.
    for left in _find_unmatched(slots):
        turn, effect = of_kind[left]
        if slots[left]:
            yield _problem_of(calls, rule, turn, f"at most one {kind} a delivery", effect)


def _find_missing(calls: Calls) -> Iterator[Problem]:
    """Yield the calls that report without a bill, or without an audit before it."""
    wanted: dict[tuple[int, str, str], Exchange] = {}
    at: dict[tuple[str, str, int], list[int]] = {}  # when an effect happened that may be a call's
    for turn, effect in calls.effects:
        subject = in_one_form(effect.effect.subject)  # the repeat may come in other words
        for root in {one.root for one in calls.at_work(turn)}:
            at.setdefault((effect.effect.kind, subject, root), []).append(turn)
    for one in calls.responses:
        for each in one.allowed:
            if isinstance(each, Reports) and each.bill and each.fits(one.reply):
                location = in_one_form(location_of(one.request))
                wanted.setdefault((one.root, location, each.bill), one)

    bills = [
        [turn for turn in at.get(("bill", in_one_form(place), root), ()) if turn < one.ended]
        for (root, _, place), one in wanted.items()
    ]
    without = {*_find_unmatched(bills)}
    found = zip(wanted.items(), bills, strict=True)
    for number, (((root, asked_for, place), one), billed) in enumerate(found):
        location = location_of(one.request)
        if number in without:  # then there is no bill for an audit to come before
            unbilled = f"none before {describe_reply(one.reply)}"
            yield one.breaks(rules.A_REPORT_IS_BILLED, f"a bill of {place!r}", unbilled)
        elif not any(turn < max(billed) for turn in at.get(("audit", asked_for, root), ())):
            yield one.breaks(
                rules.AUDIT_COMES_FIRST, f"an audit of {quoted(location)} before the bill", "none"
            )


def _find_unmatched(slots: Sequence[Sequence[Any]]) -> list[int]:
    """Return the items left over by a maximum bipartite matching of items to slots."""
    taken: dict[Any, int] = {}
    left: list[int] = []
    for number in range(len(slots)):
        reached: dict[Any, tuple[int, Any]] = {}  # from which item, and from that item's own slot
        free = None
        todo: list[tuple[int, Any]] = [(number, None)]
        for item, own in todo:
            for slot in slots[item]:
                if slot in reached:
                    continue
                reached[slot] = (item, own)
                if slot not in taken:
                    free = slot
                    break
                todo.append((taken[slot], slot))
            if free is not None:
                break
        else:
            left.append(number)
        while free is not None:
            taken[free], free = reached[free]
    return left
