"""The responses that the contract allows to a request.

Knows the requests of a history up to that one, and the questions pushed to its client. It does not
look at the response that came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import mcp_types as types

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.history import Answered, Reply
from mrtr_options.review.bench.history.narrate import describe_reply
from mrtr_options.review.judge.contract.content import (
    fits_the_schema,
    has_control,
    has_more,
    interpret,
    is_of_the_protocol,
    location_of,
    places_meant,
)
from mrtr_options.review.judge.contract.exchanges import (
    Calls,
    Exchange,
    Position,
    Token,
)
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
    in_words,
    place_in,
    report,
)
from mrtr_options.review.judge.contract.rules import Rule
from mrtr_options.review.judge.properties import Problem
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES

EXPIRES_SECONDS = 600.0
SURELY_GOOD_SECONDS = 545.0
_GRACE_SECONDS = 5.0  # the time that the requests themselves may have taken
ROOM = 1_000  # calls that may be open at once
AGAIN = 10  # times that an old client is asked a question again, or a client retries


@dataclass(frozen=True)
class Ruling:
    """The responses that are allowed to a request.

    Attributes:
        rule: The rule that allows them.
        responses: The responses.
        problems: The problems of what was pushed to the client before the response.
        refusing: The rule that an error breaks, if that is another one.
        excused: See `Exchange.excused`.
    """

    rule: Rule
    responses: list[Allowed]
    problems: tuple[Problem, ...] = ()
    refusing: Rule | None = None
    excused: list[Allowed] = field(default_factory=list[Allowed])


def rule_on(calls: Calls, one: Exchange) -> Ruling:
    """Return the responses that are allowed to a request, before failed effects are considered."""
    if not fits_the_schema(one.request):
        return Ruling(rules.ARGUMENTS_ARE_CHECKED, [Refused()])
    if one.request.era == "legacy":
        ruling = _rule_on_legacy(calls, one)
    else:
        ruling = _rule_on_modern(calls, one)
    if has_more(one.request):
        return replace(ruling, responses=[*ruling.responses, Refused()])
    return ruling


def may_refuse(calls: Calls, one: Exchange) -> bool:
    """Return whether a server may refuse a genuine state.

    It may if the server was replaced, if time has passed, or if the state also came with another
    answer or was used before.
    """
    assert one.token is not None
    replaced = _is_elsewhere(one) or _is_old(calls, one.token, one.at)
    return replaced or calls.is_forked(one) or _is_spent(calls, one)


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
    same = [
        each.at
        for each in calls.with_state(token.origin.request.state or "")
        if each.fingerprint == token.origin.fingerprint
    ]
    return now - min([token.at, *same]) > SURELY_GOOD_SECONDS


def _is_elsewhere(one: Exchange) -> bool:
    """Return whether the server that handed out a request's state is not the one that is asked."""
    return one.token is not None and (one.token.ring, one.token.origin.home) != (one.ring, one.home)


def _rule_on_modern(calls: Calls, one: Exchange) -> Ruling:
    request = one.request
    # A server may name any one of several faults, also that the client cannot be asked.
    refused = Refused() if request.asks else Refused((INVALID, CANNOT_ASK))
    if not one.genuine:
        # A server may take an empty state for none.
        as_first = _allow_all_places(calls, one).responses if request.state == "" else []
        return Ruling(rules.STATE_IS_GENUINE, [*as_first, refused])
    broken = _broken_by_state(one)
    if broken is not None:
        return Ruling(broken, [refused], excused=_allow_if_taken(calls, one))
    special = _special_rule(calls, one)
    ruling = _allow_all_places(calls, one)
    rule = ruling.rule
    allowed = [*ruling.responses]
    if special is not None or one.respelled or _may_have_expired(calls, one):
        allowed.append(refused)
    allowed += _allow_more(calls, one, refused)
    if not is_of_the_protocol(request.answers):
        allowed.append(Refused(UNREADABLE))
        rule = rules.ANSWERS_ARE_CHECKED
    if not rule.is_ordinary:
        return Ruling(rule, allowed, excused=ruling.excused)
    refusing = special or _rule_against_refusal(one)
    return Ruling(special or rule, allowed, refusing=refusing, excused=ruling.excused)


def _allow_if_taken(calls: Calls, one: Exchange) -> list[Allowed]:
    """Return what is allowed where a state is taken that should be refused.

    The server may go on with the request's arguments or with those of its state.
    """
    assert one.token is not None
    requests = [one.request]
    before = one.token.origin.request
    if fits_the_schema(before):
        requests.append(replace(one.request, arguments=before.sent_arguments))
    taken = [replace(one, sent=replace(one.sent, request=each)) for each in requests]
    return [each for other in taken for each in _allow_all_places(calls, other).responses]


def _broken_by_state(one: Exchange) -> Rule | None:
    """Return the rule by which a genuine state must be refused; None if it may be taken."""
    request = one.request
    token = one.token
    if token is None:
        return None
    if len(request.state or "") > MAX_TOKEN_BYTES:
        return rules.STATES_ARE_SHORT
    before = token.origin.request
    if before.principal != request.principal:
        return rules.STATE_IS_BOUND_TO_ITS_PRINCIPAL
    if not fits_the_schema(before) or location_of(before) != location_of(request):
        return rules.STATE_IS_BOUND_TO_ITS_CALL
    if one.at - token.at > EXPIRES_SECONDS + _GRACE_SECONDS:
        return rules.STATE_EXPIRES
    return None


def _special_rule(calls: Calls, one: Exchange) -> Rule | None:
    """Return the rule of a state that came with two answers, or to another server."""
    if one.token is None:
        return None
    if calls.is_forked(one):
        return rules.ANOTHER_ANSWER_IS_NOT_THE_FIRST
    if _is_elsewhere(one):
        return rules.A_LOST_CALL_IS_NO_OTHER_CALL
    return None


def _rule_against_refusal(one: Exchange) -> Rule | None:
    """Return the rule that an error to a good state breaks, where its age or spelling matters."""
    if one.token is None:
        return None
    if one.at > one.token.at:
        return rules.STATE_EXPIRES
    return rules.STATE_IS_GENUINE if one.respelled else None


def _may_have_expired(calls: Calls, one: Exchange) -> bool:
    return one.token is not None and _is_old(calls, one.token, one.at)


def _allow_more(calls: Calls, one: Exchange, refused: Refused) -> list[Allowed]:
    """Return the responses that other requests, or a full server, also allow to a request."""
    request = one.request
    token = one.token
    allowed: list[Allowed] = []
    for earlier in calls.under_the_key(one):
        allowed += _allow_all_places(calls, earlier).responses
    for answered in calls.answered_before(one):
        # A server that remembers the earlier answer to this question may go on from there.
        allowed += [*_allow_all_places(calls, answered).responses, Refused()]
    if (token is not None and _is_spent(calls, one)) or calls.has_unasked(one):
        allowed.append(Refused())
    if token is not None and not request.asks:
        allowed.append(refused)
    if token is None and one.beside >= ROOM:
        allowed.append(Refused(()))
    if len(one.fingerprint) > MAX_TOKEN_BYTES:
        allowed.append(Refused(()))
    return allowed


def _rule_on_legacy(calls: Calls, one: Exchange) -> Ruling:
    """Return the allowed end of a whole call in one request, with its pushed questions."""
    if one.asked:
        return _rule_on_pushed(calls, one)
    location = location_of(one.request)
    can_be_asked = one.request.asks and all(places_meant(location))
    if can_be_asked and _asks_other_versions(calls, one):
        first = _first_question(location)
        return Ruling(rules.QUESTIONS_ARE_ASKED_IN_ORDER, [first])
    unasked = replace(one, sent=replace(one.sent, request=replace(one.request, asks=False)))
    ruling = _allow_all_places(calls, unasked)
    rule = rules.CLIENTS_THAT_CANNOT_BE_ASKED
    if ruling.rule == rules.UNKNOWN_PLACES_ARE_ERRORS:
        rule = ruling.rule
    return Ruling(rule, [*ruling.responses, Refused(())])


def _first_question(location: str) -> Asks:
    """Return the first question about a location: which place it is, if it may be several."""
    matches = places_meant(location)[-1]
    return asks_units(matches[0]) if len(matches) == 1 else asks_place(location, matches)


def _rule_on_pushed(calls: Calls, one: Exchange) -> Ruling:
    """Return the allowed end of a whole call in one request, which asks its client on the way.

    The questions are read in order, each with the user's answer, until one ends the call.
    """
    location = location_of(one.request)
    ruling = Ruling(rules.QUESTIONS_ARE_ASKED_IN_ORDER, [_first_question(location)])
    answers = iter(one.answered)
    problems = [*_check_repetitions(one)]
    for asked in one.asked:
        shown = Reply(questions={_KEY: asked.message}, schemas={_KEY: asked.schema})
        due = [each for each in ruling.responses if isinstance(each, Asks) and each.fits(shown)]
        came = describe_reply(shown)
        if not due or not places_meant(location)[-1]:
            problems.append(one.breaks(ruling.rule, in_words(ruling.responses), came))
            if not any(isinstance(each, Ends) for each in ruling.responses):
                ruling.responses[:] = [Refused(()), Reports(one.reply.text or "", None)]
            break
        if not asked.declared:
            rule = rules.ASKS_ONLY_WHO_CAN_BE_ASKED
            problems.append(one.breaks(rule, "no question", came))
        answer = next(answers, None)
        if answer is None:
            if asked.declared:
                after = "a response after the user's answer, who may think for nine minutes"
                rule = rules.THE_REPORT_IS_THE_PAGES
                problems.append(one.breaks(rule, after, "one before it"))
            ruling = Ruling(rules.QUESTIONS_ARE_ASKED_IN_ORDER, [Refused(())])
            break
        at = Position(due[0].name, _KEY, place_in(asked.message))
        round_of = _as_round(one, answer, at)
        step = _NextStep(calls, round_of, location, places_meant(location)[-1], codes=())
        allowed = step.allow()
        ruling = Ruling(step.rule, allowed)
    return replace(ruling, problems=tuple(problems))


def _as_round(one: Exchange, answer: Answered, position: Position) -> Exchange:
    """Return the round in which a new client would send the answer to a pushed question."""
    given = types.ElicitResult.model_construct(action=answer.action, content=answer.content)
    request = replace(one.request, answers={_KEY: given}, asks=True)
    return replace(one, sent=replace(one.sent, request=request), position=position)


def _check_repetitions(one: Exchange) -> Iterator[Problem]:
    times = Counter(asked.message for asked in one.asked)
    again = max(times.values()) - 1
    if again > AGAIN:
        rule = rules.EVERY_REQUEST_IS_ANSWERED
        yield one.breaks(rule, f"{AGAIN} times again", f"{again} times")


_KEY = "k"
"""The key of a pushed question, which has none."""


def _asks_other_versions(calls: Calls, one: Exchange) -> bool:
    """Return whether the server pushes to clients of another version that declare the same."""
    return any(
        each.asked
        and each.request.version != one.request.version
        and each.request.declares == one.request.declares
        for each in calls.exchanges.values()
    )


def _allow_all_places(calls: Calls, one: Exchange) -> Ruling:
    """Return the allowed responses if the request's state, where it has one, is good.

    They are collected for all places that the location may mean.
    """
    location = location_of(one.request)
    allowed: list[Allowed] = []
    excused: list[Allowed] = []
    rule = rules.QUESTIONS_ARE_ASKED_IN_ORDER
    for matches in places_meant(location):
        step = _NextStep(calls, one, location, matches)
        allowed += step.allow()
        excused += step.excused
        rule = step.rule
    return Ruling(rule, list(dict.fromkeys(allowed)), excused=excused)


class _NextStep:
    """The responses that are allowed to one request, its location taken for some places.

    `codes` are those of an error that refuses an answer; any code of an old client's server.
    """

    def __init__(
        self,
        calls: Calls,
        one: Exchange,
        location: str,
        matches: tuple[str, ...],
        codes: tuple[int, ...] = (INVALID,),
    ) -> None:
        self.codes = codes
        self.asks = one.request.asks
        self.later = one.request.state is not None
        self.location = location
        self.matches = matches
        self.open = one.position.open
        self.settled = one.position.place
        self.answers = calls.answers_of(one)
        self.is_under_other_keys = calls.has_unasked(one)
        self.names_of = calls.names_of
        self.rule = rules.QUESTIONS_ARE_ASKED_IN_ORDER
        self.excused: list[Allowed] = []

    def allow(self) -> list[Allowed]:
        """Return the allowed responses, and set `rule` and `excused`."""
        if not self.matches:
            self.rule = rules.UNKNOWN_PLACES_ARE_ERRORS
            unknown: list[Allowed] = [ToolError()]
            if has_control(self.location):
                unknown.append(Refused())
            if not self.asks:
                unknown.append(Refused((CANNOT_ASK,)))
            return unknown
        if len(self.matches) == 1:
            return self._allow_at_units(self.matches[0])
        question = asks_place(self.location, self.matches)
        if self.settled is not None:
            allowed = self._allow_at_units(self.settled)
            if self.answers.cold["place"]:
                self.rule = rules.SETTLED_ANSWERS_STAY
            for answer in self.answers.cold["place"]:
                self.excused += self._allow_after(question, answer, self._allow_at_units)
            return allowed
        unasked: list[Allowed] = [ToolError()]
        allowed = self._allow_at_question(question, unasked, self._allow_at_units)
        if self.later and not self.asks:
            allowed = [*allowed, *unasked]
        return allowed

    def _allow_at_units(self, place: str) -> list[Allowed]:
        unasked: list[Allowed] = [Reports(report(place, None), place)]

        def reports(units: str) -> list[Allowed]:
            if self.asks:
                self._set_rule(rules.THE_REPORT_IS_THE_PAGES)
            else:
                self._set_rule(rules.CLIENTS_THAT_CANNOT_BE_ASKED)
            return [Reports(report(place, units), place)]

        return self._allow_at_question(asks_units(place), unasked, reports)

    def _set_rule(self, rule: Rule) -> None:
        """Set the rule, unless another one is set."""
        if self.rule == rules.QUESTIONS_ARE_ASKED_IN_ORDER:
            self.rule = rule

    def _allow_at_question(
        self, question: Asks, unasked: list[Allowed], then: Callable[[str], list[Allowed]]
    ) -> list[Allowed]:
        name = question.name
        allowed: list[Allowed] = []
        if self.open == name and self.answers.to_open is not None:
            allowed = self._allow_after(question, self.answers.to_open, then)
            return allowed if self.asks else [*allowed, *unasked]
        for answer in self.answers.cold[name]:
            allowed += self._allow_after(question, answer, then)
        if allowed and self.rule != rules.SETTLED_ANSWERS_STAY:
            self.rule = rules.COLD_ANSWERS_DO_NO_HARM
        elif not self.asks:
            self.rule = rules.CLIENTS_THAT_CANNOT_BE_ASKED
        elif self.open == name and self.is_under_other_keys:
            self._set_rule(rules.COLD_ANSWERS_DO_NO_HARM)
        elif self.open == name:
            self._set_rule(rules.MISSING_ANSWERS_ARE_ASKED_AGAIN)
        if self.asks:
            return [question, *allowed]
        return [*unasked, *allowed, Refused((CANNOT_ASK,))]

    def _allow_after(
        self, question: Asks, answer: types.InputResponse, then: Callable[[str], list[Allowed]]
    ) -> list[Allowed]:
        meaning = interpret(answer, question.name, question.choices)
        has_form = isinstance(answer, types.ElicitResult) and bool(answer.content)
        naming = self.names_of(question.name) if has_form and self.codes else ()
        refused = Refused(self.codes, naming)
        match meaning.what:
            case "fits":
                return then(meaning.value)
            case "loose":
                return [*then(meaning.value), refused]
            case "bad":
                self._set_rule(rules.ANSWERS_ARE_CHECKED)
                return [refused, question] if self.asks else [refused]
            case "decline":
                self._set_rule(rules.DECLINE_ENDS_THE_CALL)
                return [Ends("declined", "cancelled", self.codes)]
            case "cancel":
                self._set_rule(rules.CANCEL_ENDS_THE_CALL)
                return [Ends("cancelled", "declined", self.codes)]
