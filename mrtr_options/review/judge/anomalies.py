"""The anomalies: what a user would call wrong in a call, each in a sentence above its check.

A check takes a reading. The judge reads a recorded history (`facts.HistoryReading`), and the model
reads one of its states (`model.reading`): both are held to these definitions. The documents, the
page and `check` show an anomaly under its name, with who is harmed and what to do about it. Money
comes first.

Knows this protocol and properties alone, so that the model can use it without knowing the package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from mrtr_options.review.judge.properties import Property


class Reading(Protocol):
    """The facts about a call, and about the calls that are made beside it.

    Attributes:
        calls: The number of calls that their users want.
        effects_due: The number of times that an effect may take place: once for each call, and once
            more for each answer that was changed.
        bills: The number of bills.
        audits: The number of audits.
        reported: The number of calls whose clients hold a report.
        has_report: Whether the call's client holds a report.
        has_failed: Whether the call is over for its client without a report.
        bills_of_others: The number of other calls that may have been billed.
        lacks_effect: Whether an effect that the call's report tells of never took place.
        was_asked_last: Whether the user was shown the last question, if their client shows any.
        takes_calls_for_one: Whether a second call was refused under the name of the first.
        takes_other_words: Whether an answer was taken for a question that the user never saw in
            these words or with these choices.
        leaves_out_a_question: Whether each answer went to its own question, and the version that
            made the report has one that the user never saw.
        unheeded: The reported place and units that the user's answers do not contain.
        reports_another_answer: Whether one of those is the answer to another question or call.
        takes_an_old_state: Whether a round was begun with a state that is too old.
        agrees: Whether equal requests got equal responses.
        is_asked_again: Whether the user had to answer a question twice.
        never_ends: Whether the call cannot end.
        is_refused: Whether a correct client was told to start over.
    """

    @property
    def calls(self) -> int: ...
    @property
    def effects_due(self) -> int: ...
    @property
    def bills(self) -> int: ...
    @property
    def audits(self) -> int: ...
    @property
    def reported(self) -> int: ...
    @property
    def has_report(self) -> bool: ...
    @property
    def has_failed(self) -> bool: ...
    @property
    def bills_of_others(self) -> int: ...
    @property
    def lacks_effect(self) -> bool: ...
    @property
    def was_asked_last(self) -> bool: ...
    @property
    def takes_calls_for_one(self) -> bool: ...
    @property
    def takes_other_words(self) -> bool: ...
    @property
    def leaves_out_a_question(self) -> bool: ...
    @property
    def unheeded(self) -> Collection[str]: ...
    @property
    def reports_another_answer(self) -> bool: ...
    @property
    def takes_an_old_state(self) -> bool: ...
    @property
    def agrees(self) -> bool: ...
    @property
    def is_asked_again(self) -> bool: ...
    @property
    def never_ends(self) -> bool: ...
    @property
    def is_refused(self) -> bool: ...


@dataclass(frozen=True)
class Anomaly(Property):
    """A pattern that a user would call wrong.

    Attributes:
        shows: Returns whether a reading shows it.
        harms: The person who is harmed.
        remedy: The advice against it.
        spared: Some subjects of this package that do not show it under any one fault. They have
            the remedy.
    """

    shows: Callable[[Reading], bool]
    _: KW_ONLY
    harms: str
    remedy: str
    spared: tuple[str, ...]


ANOMALIES: list[Anomaly] = []
"""Every anomaly that a client's call can show."""


def anomaly(
    name: str, says: str, *, harms: str, remedy: str, spared: tuple[str, ...]
) -> Callable[[Callable[[Reading], bool]], Callable[[Reading], bool]]:
    """Add a check to the anomalies.

    Raises:
        ValueError: Another anomaly has the name.
    """
    if any(each.name == name for each in ANOMALIES):
        raise ValueError(f"there are two anomalies {name!r}; give one of them another name")

    def add(shows: Callable[[Reading], bool]) -> Callable[[Reading], bool]:
        ANOMALIES.append(Anomaly(name, says, shows, harms=harms, remedy=remedy, spared=spared))
        return shows

    return add


def shown_in(reading: Reading) -> frozenset[str]:
    """Return the names of the anomalies that a reading shows."""
    return frozenset(each.name for each in ANOMALIES if each.shows(reading))


def in_order(names: Container[str]) -> list[str]:
    """Return these anomalies' names in the order of harm."""
    return [each.name for each in ANOMALIES if each.name in names]


def listed(names: Iterable[str]) -> str:
    """Return the names of anomalies in one text, with semicolons: some names have a comma."""
    return "; ".join(names)


@anomaly(
    "charged twice",
    "A bill took place more than once for each call of the user and each answer they changed.",
    harms="the user's money",
    remedy="put the handler into the single-use guard, or give the bill an idempotency key that"
    " its destination honours",
    spared=("E+guard", "F+guard", "G+guard", "J+guard"),
)
def charged_twice(reading: Reading) -> bool:
    return reading.bills > reading.effects_due


@anomaly(
    "charged, told of an error",
    "A bill took place, and the last thing that the user was told is an error, or that no lookup"
    " was made.",
    harms="the user, who will try again",
    remedy="keep in the state what a retry needs, and give the bill an idempotency key, so that"
    " the retry bills the same and reports",
    spared=("E", "F", "G", "J"),
)
def charged_and_told_of_an_error(reading: Reading) -> bool:
    return reading.has_failed and reading.bills > reading.bills_of_others


@anomaly(
    "both answers charged",
    "The user answered one question twice, each time otherwise, and each answer was charged.",
    harms="the user's money, where the answer is a guess of a code",
    remedy="put the handler into the single-use guard, which takes one answer to each question",
    spared=("F+guard", "H"),
)
def both_answers_charged(reading: Reading) -> bool:
    return reading.calls < reading.bills <= reading.effects_due


@anomaly(
    "question skipped",
    "The call completed, and the user was never shown its last question.",
    harms="the user, who has agreed to nothing",
    remedy="take an answer only to a question that the state says was asked, as the guard does",
    spared=("F+guard", "H", "J"),
)
def question_skipped(reading: Reading) -> bool:
    return reading.has_report and not reading.was_asked_last


@anomaly(
    "second wanted call swallowed",
    "The user wanted two calls, which the server or the destination took for one: both were"
    " reported as done and one of them charged nothing, or the second was refused.",
    harms="the user, who believes that both are done",
    remedy="name calls by a reference that the user gives anew for each thing they want, and say"
    " in a repeat that it is one",
    spared=("F", "J"),
)
def second_wanted_call_swallowed(reading: Reading) -> bool:
    return (
        reading.reported > 1 and reading.bills < reading.reported
    ) or reading.takes_calls_for_one


@anomaly(
    "result without effect",
    "The client holds a report, and its audit or its bill never took place.",
    harms="whoever relies on it",
    remedy="report when the effects are done, not before",
    spared=("E", "F"),
)
def result_without_effect(reading: Reading) -> bool:
    return reading.has_report and reading.lacks_effect


@anomaly(
    "logged twice",
    "An audit took place more than once for each call of the user and each answer they changed.",
    harms="whoever reads the log or gets the e-mail",
    remedy="write the audit in the last step, inside the single-use guard; `once` (option F)"
    " writes it once where no response is lost",
    spared=("G+guard",),
)
def logged_twice(reading: Reading) -> bool:
    return reading.audits > reading.effects_due


@anomaly(
    "answer to other words used",
    "The call completed, and an answer was taken for a question that the user never saw in these"
    " words or with these choices.",
    harms="the user",
    remedy="keep the question's words and choices in the state, and ask again when they have"
    " changed",
    spared=("J",),
)
def answer_to_other_words_used(reading: Reading) -> bool:
    return reading.takes_other_words


@anomaly(
    "new question not asked",
    "The call completed in a version with a question that the user never saw. Each answer went to"
    " its own question.",
    harms="the user",
    remedy="run the code above the open question again, or refuse a call of another version",
    spared=("J",),
)
def new_question_not_asked(reading: Reading) -> bool:
    return reading.leaves_out_a_question


@anomaly(
    "misrouted answer",
    "The report is of what the user answered to another question, or in another call.",
    harms="the user",
    remedy="take an answer by the key of its question alone",
    spared=("E", "F", "J"),
)
def misrouted_answer(reading: Reading) -> bool:
    return reading.reports_another_answer


@anomaly(
    "ignored answer",
    "The report is of something that the user did not answer, to any question, in any call.",
    harms="the user",
    remedy="settle an answer in the state when it is given, and in each version report what is"
    " settled",
    spared=("E", "F", "J"),
)
def ignored_answer(reading: Reading) -> bool:
    return bool(reading.unheeded) and not reading.reports_another_answer


@anomaly(
    "expired state accepted",
    "The server acted on a state that it had handed out too long ago.",
    harms="the server",
    remedy="put the time into the protected state, as the shared server does, and refuse an old"
    " one",
    spared=("E", "F"),
)
def expired_state_accepted(reading: Reading) -> bool:
    return reading.takes_an_old_state


@anomaly(
    "two responses to one request",
    "The same request was delivered twice and got two different replies.",
    harms="the client",
    remedy="compute each round from its request alone, or keep the response in the single-use"
    " guard",
    spared=("E", "F+guard"),
)
def two_responses_to_one_request(reading: Reading) -> bool:
    return not reading.agrees


@anomaly(
    "asked twice",
    "The user had to answer a question twice.",
    harms="the user's patience",
    remedy="keep answers by the key of their question, as keyed replay does",
    spared=("J",),
)
def asked_twice(reading: Reading) -> bool:
    return reading.is_asked_again


@anomaly(
    "never ends",
    "The client sent as much as it may, and the call has not ended.",
    harms="everyone",
    remedy="end each round in a result, a question or an error",
    spared=("E", "F"),
)
def never_ends(reading: Reading) -> bool:
    return reading.never_ends


@anomaly(
    "call lost",
    "A correct client is told to start over, with a state that is not too old.",
    harms="the user",
    remedy="keep in the state, not in the process, what the next round needs",
    spared=("E", "F"),
)
def call_lost(reading: Reading) -> bool:
    return reading.is_refused
