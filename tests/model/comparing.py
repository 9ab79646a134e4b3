"""What of a history is compared with the model: its requests, responses, ends and anomalies."""

import mcp_types as types

from model.world import (
    CONSENT,
    CONSENT_LAST,
    ENDED,
    FAILED,
    ROUNDS,
    SECOND_ERROR,
    SPENT,
    START_OVER,
    TOO_OLD,
    TWIN,
    WITH_CONSENT,
    Client,
    Response,
)
from mrtr_options.review.bench.answers import AGREE
from mrtr_options.review.bench.history import Event, History, Received, Sent
from mrtr_options.review.bench.messages import HUNG, Reply
from mrtr_options.review.bench.messages import Request as SentRequest
from mrtr_options.review.judge.facts import Reading

ERRORS = {
    "indeterminate": {SECOND_ERROR, FAILED, ENDED},
    "unknown_continuation": {START_OVER},
    "other_version": {START_OVER},
    "request_state_expired": {TOO_OLD},
    "answered_differently": {SPENT},
}
"""The model's errors by their reason on the wire."""
UNREASONED = {FAILED, ENDED}
"""The model's errors that are internal errors, or errors of the tool, on the wire."""
NOT_COMPARED = {
    "two responses to one request": "the judge means one delivery repeated, and a client's own"
    " second sending is another one; the model's requests are a set, in which both are the same",
    "never ends": "a property of all ways on, and not of one history",
}
"""The anomalies that one history does not decide, with the reasons."""
QUESTIONS = {"place": {1}, "units": {2, 2 + WITH_CONSENT}, "consent": {CONSENT, CONSENT_LAST}}
"""The model's numbers of the bench's questions."""


def left_out(history: History) -> str:
    """Return why the model cannot follow a history; "" if it can."""
    names = [fault.name for fault in history.scenario.faults]
    if names.count("back") > 1:
        return "two changed answers: the model has one in a call"
    if names.count("other") > 1:
        return "two other calls: the model has one"
    if history.subject.endswith("+named") and {"other", "redeploy"} <= {*names}:
        return "another call that answers version 2's question alike: the model's does not"
    is_keyed_by_engine = history.subject == "L" and "crash@audit" in names
    if is_keyed_by_engine and history.scenario.setup.destination == "honours keys":
        return "a first round that an engine runs again under its own key: the model's has none"
    hangs = any(
        isinstance(each, Received) and each.reply.nothing == HUNG for each in history.events
    )
    return "a request hung: the model has no clock" if hangs else ""


def known_difference(history: History, less: frozenset[str], more: frozenset[str]) -> str:
    """Return why the judge names other anomalies than the model; "" if that is not known.

    Args:
        history: The history.
        less: The anomalies that only the judge names.
        more: The anomalies that only the model names.
    """
    names = {fault.name for fault in history.scenario.faults}
    goes_back = "back" in names
    is_refused = Reading(history).end.reason == "answered_differently"
    if goes_back and is_refused and (less, more) == ({"call lost"}, set()):
        return "the judge takes the refusal of a changed answer for the end of the call"
    if goes_back and "other" in names and (less, more) == ({"logged twice"}, set()):
        return "the model's counts stop at three, and three audits are due"
    if "redeploy" in names and (less, more) == ({"asked twice"}, set()):
        return "the model does not count the answers to version 2's question"
    return ""


def on_the_wire(event: Sent) -> object:
    """Return what tells a request from others; None for a first one, which are all alike."""
    request = event.request
    if request.state is None and not request.answers:
        return None
    answers = sorted((key, repr(given)) for key, given in (request.answers or {}).items())
    return event.call, request.state, tuple(answers)


def content_of(sent: SentRequest) -> dict[str, object]:
    """Return what a request answers, by question."""
    given = [each for each in (sent.answers or {}).values() if isinstance(each, types.ElicitResult)]
    return {name: value for each in given for name, value in (each.content or {}).items()}


def is_otherwise(sent: SentRequest) -> bool:
    """Return whether a request answers a question otherwise than at first."""
    return any(value != AGREE[name] for name, value in content_of(sent).items())


def is_sent(caller: Client, sent: SentRequest) -> bool:
    """Return whether the model's client waits for a response to a request like this one."""
    mine = caller.waits_for
    content = content_of(sent)
    if sent.state is None:
        return mine.round == 1 and mine.early == bool(content)
    if len(content) != 1:
        return False
    (name,) = content
    is_first_call = mine.attempt != TWIN
    if is_otherwise(sent) and is_first_call and not mine.changed:
        return False
    if name == "consent":
        return mine.consented
    return mine.round == (2 if name == "place" else ROUNDS) and not mine.early


def is_at_work(reply: Reply) -> bool:
    """Return whether a response says that the call is at work."""
    return reply.later or reply.reason == "still_at_work"


def fits(response: Response, reply: Reply) -> bool:
    """Return whether the model's response is like one of the bench."""
    if response.error:
        is_error = reply.is_refusal and not reply.questions
        return is_error and response.error in ERRORS.get(reply.reason or "", UNREASONED)
    if reply.is_refusal:
        return False
    if reply.questions:
        names = [reply.name_of(key) for key in reply.questions]
        return len(names) == 1 and response.asks in QUESTIONS[names[0]]
    return reply.is_result and response.asks == ROUNDS


def in_words(event: Event) -> str:
    """Return an event in a line."""
    match event:
        case Sent(request=request):
            given = sorted((request.answers or {}).keys())
            says = f"call {event.call} round {event.sending}, answers {given}"
            return f"sent to instance {event.instance}: {says}"
        case Received(reply=reply):
            asked = [reply.name_of(key) for key in reply.questions]
            if reply.nothing:
                got = reply.nothing
            elif asked:
                got = f"asks {asked}"
            elif reply.code is not None or reply.is_error:
                got = f"error {reply.code} {reply.reason}: {reply.message or reply.text}"
            else:
                got = "state only" if reply.later else f"result {reply.text}"
            return f"received of round {event.sending}: {got}"
        case _:
            return repr(event)
