"""The anomalies, by name: properties of a call's history that a user would call wrong.

A row says what the anomaly is, who is harmed, and what to do about it; the documents, the page and
`check` show what is here. Knows readings of histories; nothing of what went wrong, and of no
option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from mrtr_options.review.bench.answers import AGREE
from mrtr_options.review.bench.driver import MAX_REQUESTS, REFUSALS
from mrtr_options.review.bench.history import Asked, Failed, History, Received, Sent
from mrtr_options.review.bench.messages import LOST, Reply, Request
from mrtr_options.review.bench.task_steps import ENDED
from mrtr_options.review.judge.facts import Reading
from mrtr_options.review.judge.properties import Problem, Property
from mrtr_options.tool import weather
from mrtr_options.tool.settings import STATE_TTL_SECONDS


@dataclass(frozen=True)
class Anomaly(Property):
    """A pattern in a history that a user would call wrong.

    Attributes:
        words: The anomaly in the words of people, as every table and line has it; JSON has its
            name.
        shows: Returns whether a history shows it.
        harms: The person who is harmed.
        remedy: The advice against it.
        spared: Some subjects of this package that do not show it under any one fault. They have
            the remedy.
    """

    words: str
    shows: Callable[[Reading], bool]
    _: KW_ONLY
    harms: str
    remedy: str
    spared: tuple[str, ...]

    def problems(self, reading: Reading) -> Iterator[Problem]:
        if self.shows(reading):
            yield Problem(self.name, None, "", self.says)


def _bills_without_result(reading: Reading) -> bool:
    others = {sent.call for sent, got in reading.exchanges if sent.call > 1 and got.reply.is_result}
    return reading.report is None and reading.effects("bill").total() > len(others)


def _charges_both_answers(reading: Reading) -> bool:
    calls = len(reading.history.scenario.callers)
    return calls < reading.effects("bill").total() <= reading.effects_due


def _swallows_a_call(reading: Reading) -> bool:
    reported = {sent.call for sent, got in reading.exchanges if _is_report(got.reply)}
    if len(reported) > 1 and reading.effects("bill").total() < len(reported):
        return True
    names = {sent.call: sent.request.call_name for sent, _ in reading.exchanges}
    refused = [sent for sent, got in reading.exchanges if sent.call > 1 and got.reply.is_refusal]
    return any(sent.request.named in names.values() for sent in refused if sent.request.named)


def _is_report(reply: Reply) -> bool:
    return reply.text is not None and reply.text.partition(":")[0] in weather.REPORTS


def _skips_the_question(reading: Reading) -> bool:
    asked = {event.name for event in reading.history.events if isinstance(event, Asked)}
    can_be_asked = all(sent.request.asks for sent, _ in reading.exchanges)
    return reading.report is not None and can_be_asked and "units" not in asked


def _lacks_an_effect(reading: Reading) -> bool:
    billed = reading.effects("bill")[reading.place] > 0
    return reading.report is not None and not (billed and reading.effects("audit"))


def _takes_another_answer(reading: Reading) -> bool:
    elsewhere: set[str] = set()
    for event in reading.answers:
        content: Mapping[str, object] = event.content or {}
        elsewhere |= {
            str(content[name]) for name in content if (event.call, event.name) != (1, name)
        }
    return bool(reading.unheeded & elsewhere)


def _takes_an_old_state(reading: Reading) -> bool:
    return any(
        not got.reply.is_refusal and got.reply.nothing is None
        for sent, got in reading.exchanges
        if reading.ages[sent.exchange] > STATE_TTL_SECONDS
    )


def _last_request(reading: Reading, mine: Sequence[tuple[Sent, Received]]) -> Sent:
    """Return the request that a call ended with.

    If it ended in a tool error, that is the request that got the error. Otherwise it is the last
    one whose response arrived.
    """
    end = reading.end
    if end.is_error:
        return [sent for sent, got in mine if got.reply is end][-1]
    return [sent for sent, got in mine if got.reply is end or not got.lost][-1]


def _has_usual_answers(request: Request) -> bool:
    """Return whether a request is a later round with the usual answers, of a client with forms."""
    given = [getattr(each, "content", None) for each in (request.answers or {}).values()]
    agreed = [{name: value} for name, value in AGREE.items()]
    return request.state is not None and request.asks and all(each in agreed for each in given)


def _client_stops(reading: Reading) -> bool:
    """Return whether the client stops at an error, so that nobody learns if the call can go on."""
    return reading.history.scenario.setup.policy == "stops"


def _refuses_a_correct_client(reading: Reading) -> bool:
    end = reading.end
    if not end.is_refusal:
        return False
    if _client_stops(reading) and end.code not in REFUSALS:
        return False  # a failure, after which another client sends the round again
    mine = [(sent, got) for sent, got in reading.exchanges if sent.call == 1]
    last = _last_request(reading, mine)
    failed = any(isinstance(event, Failed) for event in reading.history.events)
    if end.is_error and (failed or not _has_usual_answers(last.request)):
        return False  # the tool error is due here, or the client may send the round again
    own = [None, *(got.reply.state for _, got in mine)]
    first = mine[0][0].request
    request = last.request
    is_correct = (
        request.state in own
        and request.principal == first.principal
        and request.sent_arguments == first.sent_arguments
    )
    return is_correct and reading.ages[last.exchange] <= STATE_TTL_SECONDS


def _never_ends(reading: Reading) -> bool:
    end = reading.end
    sent = [event for event in reading.history.events if isinstance(event, Sent)]
    requests = len([event for event in sent if event.call == 1])
    if _client_stops(reading) and end.nothing == LOST:
        return False
    gave_up = not end.questions or requests >= MAX_REQUESTS
    return not end.is_result and end.code is None and end.status not in ENDED and gave_up


ANOMALIES: tuple[Anomaly, ...] = (
    Anomaly(
        "duplicate bill",
        "A bill took place more than once for each call of the user and each answer they changed.",
        "charged twice",
        lambda reading: reading.effects("bill").total() > reading.effects_due,
        harms="the user's money",
        remedy="put the handler into the single-use guard, or give the bill an idempotency key that"
        " its destination honours",
        spared=("E+guard", "F+guard", "G+guard", "J+guard"),
    ),
    Anomaly(
        "orphan bill",
        "A bill took place, and the last thing that the user was told is an error, or that"
        " no lookup was made.",
        "charged, told of an error",
        _bills_without_result,
        harms="the user, who will try again",
        remedy="keep in the state what a retry needs, and give the bill an idempotency key, so that"
        " the retry bills the same and reports",
        spared=("E", "F", "G", "J"),
    ),
    Anomaly(
        "two answers taken",
        "The user answered one question twice, each time otherwise, and each answer was charged.",
        "both answers charged",
        _charges_both_answers,
        harms="the user's money, where the answer is a guess of a code",
        remedy="put the handler into the single-use guard, which takes one answer to each question",
        spared=("F+guard", "H"),
    ),
    Anomaly(
        "unasked answer",
        "The call completed, and the user was never shown its last question.",
        "question skipped",
        _skips_the_question,
        harms="the user, who has agreed to nothing",
        remedy="take an answer only to a question that the state says was asked, as the guard does",
        spared=("F+guard", "H", "J"),
    ),
    Anomaly(
        "wanted call swallowed",
        "The user wanted two calls, which the server or the destination took for one: both"
        " were reported as done and one of them charged nothing, or the second was refused.",
        "second wanted call swallowed",
        _swallows_a_call,
        harms="the user, who believes that both are done",
        remedy="name calls by a reference that the user gives anew for each thing they want, and"
        " say in a repeat that it is one",
        spared=("F", "J"),
    ),
    Anomaly(
        "lost effect",
        "The client holds a report, and its audit or its bill never took place.",
        "result without effect",
        _lacks_an_effect,
        harms="whoever relies on it",
        remedy="report when the effects are done, not before",
        spared=("E", "F"),
    ),
    Anomaly(
        "duplicate audit",
        "An audit took place more than once for each call of the user and each answer they"
        " changed.",
        "logged twice",
        lambda reading: reading.effects("audit").total() > reading.effects_due,
        harms="whoever reads the log or gets the e-mail",
        remedy="write the audit in the last step, inside the single-use guard; `once` (option F)"
        " writes it once where no response is lost",
        spared=("G+guard",),
    ),
    Anomaly(
        "stale answer",
        "The call completed, and the version that completed it has a question that the user"
        " never saw in these words or with these choices.",
        "stale answer used",
        lambda reading: reading.is_stale,
        harms="the user",
        remedy="keep the question's words and choices in the state, and ask again when they have"
        " changed",
        spared=("E", "F"),
    ),
    Anomaly(
        "misrouted answer",
        "The report is of what the user answered to another question, or in another call.",
        "misrouted answer",
        _takes_another_answer,
        harms="the user",
        remedy="take an answer by the key of its question alone",
        spared=("E", "F", "J"),
    ),
    Anomaly(
        "ignored answer",
        "The report is of something that the user did not answer, to any question, in any call.",
        "ignored answer",
        lambda reading: bool(reading.unheeded) and not _takes_another_answer(reading),
        harms="the user",
        remedy="settle an answer in the state when it is given, and in each version report what is"
        " settled",
        spared=("E", "F", "J"),
    ),
    Anomaly(
        "forged state",
        "The server acted on a state that it had handed out too long ago.",
        "expired state accepted",
        _takes_an_old_state,
        harms="the server",
        remedy="put the time into the protected state, as the shared server does, and refuse an old"
        " one",
        spared=("E", "F"),
    ),
    Anomaly(
        "divergent replies",
        "The same request was delivered twice and got two different replies.",
        "two responses to one request",
        lambda reading: not reading.agrees,
        harms="the client",
        remedy="compute each round from its request alone, or keep the response in the single-use"
        " guard",
        spared=("E", "F+guard"),
    ),
    Anomaly(
        "asked again",
        "The user had to answer a question twice.",
        "asked twice",
        lambda reading: reading.is_asked_again,
        harms="the user's patience",
        remedy="keep answers by the key of their question, as keyed replay does",
        spared=("J",),
    ),
    Anomaly(
        "stuck call",
        "The client sent as much as it may, and the call has not ended.",
        "never ends",
        _never_ends,
        harms="everyone",
        remedy="end each round in a result, a question or an error",
        spared=("E", "F"),
    ),
    Anomaly(
        "lost call",
        "A correct client is told to start over, with a state that is not too old.",
        "call lost",
        _refuses_a_correct_client,
        harms="the user",
        remedy="keep in the state, not in the process, what the next round needs",
        spared=("E", "F"),
    ),
)
"""Every anomaly that a client's call can show, money first."""

WORDS = {each.name: each.words for each in ANOMALIES}
"""The words of tables and lines for each anomaly."""


def anomalies_in(history: History) -> frozenset[str]:
    """Return the names of the anomalies that a history shows."""
    reading = Reading(history)
    return frozenset(each.name for each in ANOMALIES if each.shows(reading))
