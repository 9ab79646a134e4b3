"""The check of every response of a history against the responses that are allowed there.

Knows the requests of a history, and what is allowed for each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import jsonschema
import mcp_types as types
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.client import RESULT_TYPES, strings_in
from mrtr_options.review.bench.history import Reply
from mrtr_options.review.bench.history.narrate import describe_reply, quoted
from mrtr_options.review.bench.messages import HUNG, LOST, JsonObject, Tools, fields_of
from mrtr_options.review.judge.contract.allowed import AGAIN, may_refuse, rule_on
from mrtr_options.review.judge.contract.exchanges import Calls, Exchange
from mrtr_options.review.judge.contract.kinds import Allowed, Ends, Refused, in_words, report
from mrtr_options.review.judge.contract.rules import Rule
from mrtr_options.review.judge.properties import Problem
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import REPORTS

_View = tuple[object, ...]
"""A client's view of a response."""

_Before = dict[_View, Rule]
"""The rules that responses broke before."""


def find_wrong_responses(calls: Calls, tools: Tools) -> Iterator[Problem]:
    """Yield the responses that are not allowed; fill in `Exchange.allowed` of each request.

    `tools` is the server's listing.
    """
    before: _Before = {}
    for one in calls.responses:
        if one.reply.astray:
            yield one.breaks(
                rules.PROGRESS_IS_THE_REQUESTS,
                "progress with the request's token that grows",
                one.reply.astray,
            )
        if one.reply.nothing is not None:
            yield from _check_absence(calls, one)
        elif one.reply.malformed is not None:
            yield one.breaks(
                rules.CONTENT_IS_ONE_TEXT, "a response of the protocol", one.reply.malformed
            )
        elif one.request.method == "tools/list":
            yield from _check_listing(one)
        elif one.reply.task is not None and not one.reply.is_result:
            allowed = "no task: this request does not declare the extension"
            task = f"a task that is {one.reply.status}"
            yield one.breaks(rules.TASKS_ARE_DECLARED, allowed, task)
        elif one.reply.unknown_type:
            allowed = f"a result of a type that there is: {', '.join(RESULT_TYPES)}"
            yield one.breaks(rules.CONTENT_IS_ONE_TEXT, allowed, repr(one.reply.unknown_type))
        else:
            yield from _check_response(calls, one, tools, before)
    yield from _check_duplicates(calls)
    yield from _check_forms(calls)
    yield from _check_retries(calls)


def _check_response(
    calls: Calls,
    one: Exchange,
    tools: Tools,
    before: _Before,
) -> Iterator[Problem]:
    """Yield the problems of a response."""
    reply = one.reply
    ruling = rule_on(calls, one)
    rule = ruling.rule
    one.allowed = ruling.responses
    one.excused = ruling.excused
    if ruling.refusing and reply.is_refusal:
        rule = ruling.refusing
    yield from ruling.problems
    if one.failed or _failed_before(calls, one):
        one.allowed = [*one.allowed, Refused(())]
        rule = rules.FAILED_EFFECTS_ARE_NOT_DONE
    if len(reply.state or "") > MAX_TOKEN_BYTES:
        most = f"a state of {MAX_TOKEN_BYTES} bytes at most"
        yield one.breaks(rules.STATES_ARE_SHORT, most, f"one of {len(reply.state or '')}")
    if reply.is_result and one.request.tool == TOOL:
        yield from _check_content(one, tools.get(TOOL, {}).get("outputSchema"))
    if reply.later and any(not isinstance(each, Refused) for each in one.allowed):
        return
    if not _select_fitting(one):
        broken = _rule_broken(one, rule, before)
        yield one.breaks(broken, in_words(one.allowed), describe_reply(reply))


def _rule_broken(one: Exchange, rule: Rule, before: _Before) -> Rule:
    """Return the rule that a response breaks; of a repeated wrong response the same one."""
    reply = one.reply
    if reply.questions and not one.request.asks:
        return rules.ASKS_ONLY_WHO_CAN_BE_ASKED
    if reply.is_refusal:
        return rule
    view = _client_view(reply)
    same = before.get(view)
    if same is not None and same.stands_for(rule):
        return same
    if rule.is_ordinary:
        before[view] = rule
    return rule


def _check_absence(calls: Calls, one: Exchange) -> Iterator[Problem]:
    left = one.request.era == "legacy" and len(one.answered) < len(one.asked)
    if not left:
        ruling = rule_on(calls, one)
        one.allowed = ruling.responses
        yield from ruling.problems
    broken_off = one.crashed or left or calls.is_struck
    if one.reply.nothing == HUNG or not broken_off:
        yield one.breaks(rules.EVERY_REQUEST_IS_ANSWERED, "a response", describe_reply(one.reply))


def _failed_before(calls: Calls, one: Exchange) -> bool:
    """Return whether an earlier delivery of a request failed at an effect or was lost.

    The duplicate may get that error again, or be told that the outcome is unknown.
    """
    return any(
        (other.failed and _are_same(other.reply, one.reply)) or other.reply.nothing == LOST
        for other in _find_same_round(calls, one)
        if other.begun < one.begun
    )


def _find_same_round(calls: Calls, one: Exchange) -> list[Exchange]:
    """Return the other requests of a request's round: those with its state, or its call key."""
    if one.request.state is None:
        return calls.under_the_key(one)
    return calls.with_state(one.request.state)


def _check_listing(one: Exchange) -> Iterator[Problem]:
    if one.reply.is_refusal and one.request.era == "legacy":
        return  # a server may refuse old clients
    tool = one.reply.tools.get(TOOL)
    if tool is None:
        found = describe_reply(one.reply) if one.reply.is_refusal else f"{list(one.reply.tools)}"
        yield one.breaks(rules.THE_TOOL_IS_LISTED, f"a tool {TOOL!r}", found)
        return
    schema: JsonObject = tool.get("inputSchema") or {}
    fields = fields_of(schema)
    location = fields.get("location", {})
    wanted: list[tuple[str, Any, Any]] = [
        ("type", schema.get("type"), "object"),
        ("properties", list(fields), ["location"]),
        ("required", schema.get("required"), ["location"]),
        ("additionalProperties", schema.get("additionalProperties"), False),
        ("location.type", location.get("type"), "string"),
        ("location.minLength", location.get("minLength"), 1),
        ("location.maxLength", location.get("maxLength"), 100),
    ]
    for what, is_, wants in wanted:
        if is_ != wants:
            yield one.breaks(rules.THE_TOOL_IS_LISTED, f"{what} is {wants!r}", f"it is {is_!r}")


def _check_content(one: Exchange, schema: JsonObject | None) -> Iterator[Problem]:
    reply = one.reply
    if reply.blocks != ("text",):
        kinds = ", ".join(reply.blocks) or "no content"
        yield one.breaks(rules.CONTENT_IS_ONE_TEXT, "one text block", kinds)
    if reply.is_error:
        return
    strange = [*_find_of_other_reports(reply), *_find_of_other_units(reply)]
    if strange:
        allowed = "structured content that says what the text says"
        yield one.breaks(rules.CONTENT_IS_ONE_TEXT, allowed, ", ".join(strange))
    if schema is None:
        return
    is_end = any(isinstance(each, Ends) for each in _select_fitting(one))
    if is_end and reply.structured is None:
        return  # a schema of reports may have no room for a decline
    why = _find_misfit(schema, reply.structured)
    if why is not None:
        yield one.breaks(rules.CONTENT_IS_ONE_TEXT, "structured content that fits its schema", why)


def _select_fitting(one: Exchange) -> list[Allowed]:
    return [each for each in one.allowed if each.fits(one.reply)]


def _is_wrongly_taken(one: Exchange) -> bool:
    """Return whether a request had to be refused, and was not."""
    return not _select_fitting(one) and all(isinstance(each, Refused) for each in one.allowed)


def _is_reported(one: Exchange) -> bool:
    """Return whether a request was taken or refused against its own rule, which is reported."""
    is_refused = one.reply.is_refusal and not _select_fitting(one)
    return is_refused or _is_wrongly_taken(one)


def _find_of_other_reports(reply: Reply) -> list[str]:
    """Return the words and numbers of structured content that are of another place's report."""
    place = (reply.text or "").partition(":")[0]
    own = _words_of(place) if place in REPORTS else set[str]()
    others = {word for each in REPORTS for word in _words_of(each)} - own
    return [
        each
        for each in _values_in(reply.structured)
        if each in others or any(place in each for place in REPORTS if place in others)
    ]


def _find_of_other_units(reply: Reply) -> list[str]:
    """Return units, or the degrees in them, that structured content has in place of the text's."""
    place, _, said = (reply.text or "").partition(": ")
    if place not in REPORTS:
        return []
    own, other = ("metric", "imperial") if "°C" in said else ("imperial", "metric")
    values = {*_values_in(reply.structured)}
    if _names(values, own) == _names(values, other):
        return []
    if _names(values, other):
        return [other]
    degrees = {report(place, each).partition(": ")[2].partition(" ")[0] for each in (own, other)}
    wrong = degrees - {said.partition(" ")[0]}
    is_named = _names(strings_in(reply.structured), other)  # as a field may be: `celsius`
    return [] if is_named or degrees & values != wrong else [*wrong]


_NAMES = {"metric": r"(?i)metric|celsius|°C|^C$", "imperial": r"(?i)imperial|fahrenheit|°F|^F$"}


def _names(texts: Iterable[str], units: str) -> bool:
    return any(re.search(_NAMES[units], text) for text in texts)


def _words_of(place: str) -> set[str]:
    """Return the words and numbers of a place's reports."""
    numbers = re.findall(r"\d+", report(place, "metric") + report(place, "imperial"))
    return {place, REPORTS[place].sky, *numbers}


def _values_in(value: Any) -> Iterator[str]:
    """Yield every text and number of a JSON value."""
    match value:
        case dict():
            for part in cast("dict[str, Any]", value).values():
                yield from _values_in(part)
        case list():
            for part in cast("list[Any]", value):
                yield from _values_in(part)
        case str():
            yield value
        case int() | float():
            yield f"{value:g}"
        case _:
            pass


def _find_misfit(schema: JsonObject, structured: Any) -> str | None:
    """Return why structured content does not fit its schema; None if it does."""
    if structured is None:
        return "there is none"
    try:
        # With a registry of its own, no reference is fetched from elsewhere.
        jsonschema.validate(structured, schema, registry=EMPTY_REGISTRY)
    except (jsonschema.ValidationError, jsonschema.SchemaError) as error:
        return error.message
    except Unresolvable as error:
        return f"its schema refers to what is not in it: {error.ref}"
    except RecursionError:
        return "its schema refers to itself without end"
    return None


# --- several responses --------------------------------------------------------------------------


def _check_duplicates(calls: Calls) -> Iterator[Problem]:
    """Check that the same request gets the same response, unless it had to be refused."""
    first: dict[tuple[int, str | None, str], Exchange] = {}
    for one in calls.responses:
        request = one.request
        reply = one.reply
        if request.era == "legacy" or request.method != "tools/call" or not one.genuine:
            continue
        if reply.nothing is not None or reply.later or one.failed:
            continue
        same = (
            one.sent.sending if request.state is None else one.root,
            request.state,
            one.fingerprint,
        )
        before = first.setdefault(same, one)
        if before is one:
            continue
        if _may_differ(calls, before, one):
            first[same] = one
            continue
        is_reported = _is_reported(before) or _is_reported(one)
        if not _are_same(before.reply, reply) and not is_reported:
            allowed = f"what the same request got before: {describe_reply(before.reply)}"
            yield one.breaks(rules.DUPLICATES_GET_ONE_RESPONSE, allowed, describe_reply(reply))


def _check_forms(calls: Calls) -> Iterator[Problem]:
    """Check that the same question has the same form, with its titles and its default."""
    first: dict[str, JsonObject] = {}
    for one in calls.responses:
        shown = [(text, one.reply.schemas[key]) for key, text in one.reply.questions.items()]
        for message, form in (*shown, *((asked.message, asked.schema) for asked in one.asked)):
            before = first.setdefault(message, form)
            if before != form:
                rule = rules.QUESTIONS_ARE_ASKED_IN_ORDER
                yield one.breaks(
                    rule,
                    f"the form that {quoted(message)} had before: {quoted(before)}",
                    quoted(form),
                )


def _check_retries(calls: Calls) -> Iterator[Problem]:
    """Check that ten retries after state-only responses end a delivery."""
    times = Counter[tuple[int, int]]()
    for one in calls.responses:
        at = (one.sent.sending, one.sent.delivery)
        if one.reply.later:
            times[at] += 1
        if times[at] > AGAIN:
            yield one.breaks(
                rules.EVERY_REQUEST_IS_ANSWERED,
                f"an end after {AGAIN} retries",
                describe_reply(one.reply),
            )


def _may_differ(calls: Calls, before: Exchange, one: Exchange) -> bool:
    """Return whether the call went on between two requests, or one of them may be refused."""
    if len(calls.answered_before(before)) < len(calls.answered_before(one)):
        return True
    if before.reply.code in (types.INTERNAL_ERROR, types.REQUEST_TIMEOUT) and any(
        other.reply.nothing == LOST for other in _find_same_round(calls, one)
    ):
        return True  # the server that took it died, and another one has taken it over
    return any(
        Refused().fits(each.reply) and each.token is not None and may_refuse(calls, each)
        for each in (before, one)
    )


def _are_same(one: Reply, other: Reply) -> bool:
    return _client_view(one) == _client_view(other)


def _client_view(reply: Reply) -> _View:
    """Return a client's view of a response, without the names of its keys."""
    return reply.text, reply.is_error, reply.code, tuple(sorted(reply.questions.values()))
