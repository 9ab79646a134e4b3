"""The responses that the contract allows to a request.

Knows the requests of a history up to that one, and the questions pushed to its client. It does not
look at the response that came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import mcp_types as types

from mrtr_options.review.bench.history import Answered, Reply
from mrtr_options.review.bench.telling import came
from mrtr_options.review.judge.contract.answers import (
    Said,
    fits_the_schema,
    has_control,
    has_more,
    is_of_the_protocol,
    location_of,
    meanings,
    said,
)
from mrtr_options.review.judge.contract.exchanges import Calls, Exchange, Token
from mrtr_options.review.judge.contract.kinds import (
    CANNOT_ASK,
    INVALID,
    UNREADABLE,
    Allowed,
    Asks,
    Ends,
    Refused,
    Reports,
    ToolError,
    asks_place,
    asks_units,
    report,
)
from mrtr_options.review.judge.properties import Problem
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES

EXPIRES_SECONDS = 600.0
SURELY_GOOD_SECONDS = 545.0
_GRACE_SECONDS = 5.0  # the time that the requests themselves may have taken
ROOM = 1_000  # calls that may be open at once
AGAIN = 10  # times that an old client is asked a question again, or a client retries

PLAIN = (
    "questions-are-asked-in-order",
    "the-report-is-the-pages",
    "missing-answers-are-asked-again",
)
"""The rules of an ordinary request."""


@dataclass(frozen=True)
class Due:
    """The responses that are allowed to a request.

    Attributes:
        rule: The rule that allows them.
        responses: The responses.
        wrong: The problems of what was pushed to the client before the response.
        refusing: The rule that an error breaks, if that is another one.
    """

    rule: str
    responses: list[Allowed]
    wrong: tuple[Problem, ...] = ()
    refusing: str = ""


def due(calls: Calls, one: Exchange) -> Due:
    """Return the responses that are allowed to a request, before failed effects are considered."""
    if not fits_the_schema(one.request):
        return Due("arguments-are-checked", [Refused()])
    found = _legacy(calls, one) if one.request.era == "legacy" else _modern(calls, one)
    if has_more(one.request):
        return replace(found, responses=[*found.responses, Refused()])
    return found


def may_refuse(calls: Calls, one: Exchange) -> bool:
    """Return whether a server may refuse a genuine state.

    It may if the server was replaced, if time has passed, or if the state also came with another
    answer or was used before.
    """
    assert one.token is not None
    replaced = _is_elsewhere(one) or _is_old(calls, one.token, one.at)
    return replaced or calls.forked(one) or _is_spent(calls, one)


def _is_spent(calls: Calls, one: Exchange) -> bool:
    """Return whether the call went on with a response to this state. A server may take it once."""
    return any(
        other is not one
        and other.begun < one.ended
        and (other.reply.is_error or not (other.reply.failed or other.reply.later or other.failed))
        for other in calls.of_call(one, one.request.state or "")
    )


def _is_old(calls: Calls, token: Token, now: float) -> bool:
    """Return whether a state may have expired.

    If its round was delivered twice, a server may count from the first delivery.
    """
    round_of = calls.exchanges[token.exchange]
    same = [
        each.at
        for each in calls.with_state(token.request.state or "")
        if each.fingerprint == round_of.fingerprint
    ]
    return now - min([token.at, *same]) > SURELY_GOOD_SECONDS


def _is_elsewhere(one: Exchange) -> bool:
    """Return whether the server that handed out a request's state is not the one that is asked."""
    return one.token is not None and (one.token.ring, one.token.home) != (one.ring, one.home)


def _modern(calls: Calls, one: Exchange) -> Due:
    request = one.request
    token = one.token
    # A server may name any one of several faults, also that the client cannot be asked.
    refused = Refused() if request.asks else Refused((INVALID, CANNOT_ASK))
    if not one.genuine:
        more = _ways(calls, one).responses if request.state == "" else []
        return Due("state-is-genuine", [*more, refused])
    rule = refusing = ""
    is_doubtful = False
    if token is not None:
        broken = _broken_by_state(one, token)
        if broken:
            return Due(broken, [refused])
        rule = _special_rule(calls, one)
        if rule:
            refusing = rule
        elif one.at > token.at:
            refusing = "state-expires"
        elif one.respelled:
            refusing = "state-is-genuine"
        is_doubtful = bool(rule) or one.respelled or _is_old(calls, token, one.at)
    ways = _ways(calls, one)
    found = ways.rule
    allowed = ways.responses
    if is_doubtful:
        allowed.append(refused)
    allowed += _also_allowed(calls, one, refused)
    if not is_of_the_protocol(request.answers):
        allowed.append(Refused(UNREADABLE))
        found = "answers-are-checked"
    if found not in PLAIN:
        return Due(found, allowed)
    return Due(rule or found, allowed, refusing=refusing)


def _broken_by_state(one: Exchange, token: Token) -> str:
    """Return the rule by which a genuine state must be refused; "" if it may be taken."""
    request = one.request
    if len(request.state or "") > MAX_TOKEN_BYTES:
        return "states-are-short"
    if token.request.principal != request.principal:
        return "state-is-bound-to-its-principal"
    if not fits_the_schema(token.request) or location_of(token.request) != location_of(request):
        return "state-is-bound-to-its-call"
    if one.at - token.at > EXPIRES_SECONDS + _GRACE_SECONDS:
        return "state-expires"
    return ""


def _special_rule(calls: Calls, one: Exchange) -> str:
    """Return the rule of a state that came with two answers, or to another server; else ""."""
    if calls.forked(one):
        return "another-answer-is-not-the-first"
    if _is_elsewhere(one):
        return "a-lost-call-is-no-other-call"
    return ""


def _also_allowed(calls: Calls, one: Exchange, refused: Refused) -> list[Allowed]:
    """Return the responses that other requests, or a full server, also allow to a request."""
    request = one.request
    token = one.token
    allowed: list[Allowed] = []
    for earlier in calls.under_the_key(one):
        allowed += _ways(calls, earlier).responses
    for answered in calls.answered_before(one):
        # A server that remembers the earlier answer to this question may go on from there.
        allowed += [*_ways(calls, answered).responses, Refused()]
    if (token is not None and _is_spent(calls, one)) or calls.has_unasked(one):
        allowed.append(Refused())
    if token is not None and not request.asks:
        allowed.append(refused)
    if token is None and one.beside >= ROOM:
        allowed.append(Refused(()))
    if len(one.fingerprint) > MAX_TOKEN_BYTES:
        allowed.append(Refused(()))
    return allowed


def _legacy(calls: Calls, one: Exchange) -> Due:
    """Return the allowed end of a whole call in one request, with its pushed questions."""
    location = location_of(one.request)
    matches = meanings(location)[-1]
    place = matches[0] if len(matches) == 1 else None

    def question() -> Asks:
        return asks_place(location, matches) if place is None else asks_units(place)

    if not one.asked:
        unasked = replace(one, sent=replace(one.sent, request=replace(one.request, asks=False)))
        ways = _ways(calls, unasked)
        rule = "clients-that-cannot-be-asked"
        if ways.rule == "unknown-places-are-errors":
            rule = ways.rule
        if one.request.asks and all(meanings(location)) and _asks_other_versions(calls, one):
            return Due("questions-are-asked-in-order", [question()])
        return Due(rule, [*ways.responses, Refused(())])
    answered = list(one.answered)
    wrong: list[Problem] = []
    again = max(Counter(asked.message for asked in one.asked).values()) - 1
    if again > AGAIN:
        wrong.append(
            one.breaks("every-request-is-answered", f"{AGAIN} times again", f"{again} times")
        )
    rule = "questions-are-asked-in-order"

    def allows(rule: str, *responses: Allowed) -> Due:
        return Due(rule, [*responses], tuple(wrong))

    for asked in one.asked:
        shown = Reply(questions={"k": asked.message}, schemas={"k": asked.schema})
        if not matches or not question().fits(shown):
            wrong.append(one.breaks(rule, str(question()), came(shown)))
            return allows(rule, Refused(()), Reports(one.reply.text or "", None))
        if not asked.declared:
            wrong.append(one.breaks("asks-only-who-can-be-asked", "no question", came(shown)))
        if not answered:
            if asked.declared:
                after = "a response after the user's answer, who may think for nine minutes"
                wrong.append(one.breaks("the-report-is-the-pages", after, "one before it"))
            return allows(rule, Refused(()))
        given = answered.pop(0)
        if given.action == "other" and asked is one.asked[-1]:  # its error in place of an answer
            return allows("answers-are-checked", Refused(()))
        answer = _said_by(given, question())
        if answer.what in ("decline", "cancel") and asked is not one.asked[-1]:
            wrong.append(
                one.breaks(f"{answer.what}-ends-the-call", "no question after it", "one more")
            )
        match answer.what:
            case "decline":
                return allows("decline-ends-the-call", Ends("declined", "cancelled", ()))
            case "cancel":
                return allows("cancel-ends-the-call", Ends("cancelled", "declined", ()))
            case "bad":
                if asked is one.asked[-1]:
                    return allows("answers-are-checked", Refused(()))
            case "fits" | "loose":
                if place is not None:
                    return allows(
                        "the-report-is-the-pages", Reports(report(place, answer.value), place)
                    )
                place = answer.value
    return allows(rule, question())


def _asks_other_versions(calls: Calls, one: Exchange) -> bool:
    """Return whether the server pushes to clients of another version that declare the same."""
    return any(
        each.asked
        and each.request.version != one.request.version
        and each.request.declares == one.request.declares
        for each in calls.exchanges.values()
    )


def _said_by(event: Answered, question: Asks) -> Said:
    if event.action == "decline" or event.action == "cancel":
        return Said(event.action)
    answer = types.ElicitResult.model_construct(action=event.action, content=event.content)
    return said(answer, question.name, question.choices)


def _ways(calls: Calls, one: Exchange) -> Due:
    """Return the allowed responses if the request's state, where it has one, is good.

    They are collected for all places that the location may mean.
    """
    location = location_of(one.request)
    allowed: list[Allowed] = []
    rule = ""
    for matches in meanings(location):
        way = _Way(calls, one, location, matches)
        allowed += way.place()
        rule = way.rule
    return Due(rule, list(dict.fromkeys(allowed)))


class _Way:
    """The responses that are allowed to one request, its location taken for some places."""

    def __init__(
        self, calls: Calls, one: Exchange, location: str, matches: tuple[str, ...]
    ) -> None:
        self.asks = one.request.asks
        self.later = one.request.state is not None
        self.location = location
        self.matches = matches
        self.open = one.position.open
        self.settled = one.position.place
        self.answers = calls.answers(one)
        self.is_under_other_keys = calls.has_unasked(one)
        self.names_of = calls.names_of
        self.rule = "questions-are-asked-in-order"

    def place(self) -> list[Allowed]:
        if not self.matches:
            self.rule = "unknown-places-are-errors"
            if has_control(self.location):
                return [ToolError(), Refused()]
            return [ToolError()]
        if len(self.matches) == 1:
            return self.units(self.matches[0])
        if self.settled is not None:
            allowed = self.units(self.settled)
            if self.answers.cold["place"]:
                self.rule = "settled-answers-stay"
            return allowed
        question = asks_place(self.location, self.matches)
        unasked: list[Allowed] = [ToolError()]
        allowed = self._answered(question, unasked, self.units)
        if self.later and not self.asks:
            allowed = [*allowed, *unasked]
        return allowed

    def units(self, place: str) -> list[Allowed]:
        unasked: list[Allowed] = [Reports(report(place, None), place)]

        def reports(units: str) -> list[Allowed]:
            self._is("the-report-is-the-pages" if self.asks else "clients-that-cannot-be-asked")
            return [Reports(report(place, units), place)]

        return self._answered(asks_units(place), unasked, reports)

    def _is(self, rule: str) -> None:
        if self.rule == "questions-are-asked-in-order":
            self.rule = rule

    def _answered(
        self, question: Asks, unasked: list[Allowed], then: Callable[[str], list[Allowed]]
    ) -> list[Allowed]:
        name = question.name
        allowed: list[Allowed] = []
        if self.open == name and self.answers.to_open is not None:
            allowed = self._one(question, self.answers.to_open, then)
            return allowed if self.asks else [*allowed, *unasked]
        for answer in self.answers.cold[name]:
            allowed += self._one(question, answer, then)
        if allowed and self.rule != "settled-answers-stay":
            self.rule = "cold-answers-do-no-harm"
        elif not self.asks:
            self.rule = "clients-that-cannot-be-asked"
        elif self.open == name and self.is_under_other_keys:
            self._is("cold-answers-do-no-harm")
        elif self.open == name:
            self._is("missing-answers-are-asked-again")
        if self.asks:
            return [question, *allowed]
        return [*unasked, *allowed, Refused((CANNOT_ASK,))]

    def _one(
        self, question: Asks, answer: types.InputResponse, then: Callable[[str], list[Allowed]]
    ) -> list[Allowed]:
        here = said(answer, question.name, question.choices)
        has_form = isinstance(answer, types.ElicitResult) and bool(answer.content)
        refused = Refused(naming=self.names_of(question.name) if has_form else ())
        match here.what:
            case "fits":
                return then(here.value)
            case "loose":
                return [*then(here.value), refused]
            case "bad":
                self._is("answers-are-checked")
                return [refused, question] if self.asks else [refused]
            case "decline":
                self._is("decline-ends-the-call")
                return [Ends("declined", "cancelled")]
            case "cancel":
                self._is("cancel-ends-the-call")
                return [Ends("cancelled", "declined")]
