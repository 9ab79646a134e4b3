"""The rules of docs/CONTRACT.md.

A rule is one row: its name, its sentence, the specification's sentence that it follows from, and
what a breach of it counts for. The module that finds the breaches names the rule: look for the
uses of a row to find its check. Knows nothing but the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from mrtr_options.names import by_name
from mrtr_options.review.judge.properties import Problem, Property


@dataclass(frozen=True)
class Rule(Property):
    """A rule of the contract.

    Attributes:
        source: The specification's sentence on it, with its MUST or SHOULD; empty for a rule of
            the page's own. Source: 2026-07-28, server/tools, client/elicitation,
            basic/patterns/mrtr.
        in_verdict: Whether a breach turns the verdict. Rules that the specification recommends or
            that an SDK decides are reported only.
        about: The subject of the rule. Where a response is wrong, its wrong effects follow from
            that; a leak causes no effect.
        is_ordinary: Whether it is the rule of a request with nothing special about it.
    """

    noun: ClassVar[str] = "rule"
    source: str = ""
    in_verdict: bool = True
    about: Literal["responses", "effects", "leaks"] = "responses"
    is_ordinary: bool = False

    def broken(self, exchange: int | None, allowed: str, came: str) -> Problem:
        """Return the problem that the rule is broken, at a request or at none in particular."""
        return Problem(self.name, exchange, allowed, came)

    def stands_for(self, other: Rule) -> bool:
        """Return whether a response that breaks both is told under this rule, the plain one.

        It is not if only the other one turns the verdict.
        """
        return self.is_ordinary and (self.in_verdict or not other.in_verdict)


ARGUMENTS_ARE_CHECKED = Rule(
    "arguments-are-checked",
    "Bad arguments and unknown tools are -32602 or `isError`, without effects.",
    source="tools: servers MUST validate all tool inputs",
)
THE_TOOL_IS_LISTED = Rule(
    "the-tool-is-listed",
    "The tool is listed with the contract's input schema.",
    in_verdict=False,
)
QUESTIONS_ARE_ASKED_IN_ORDER = Rule(
    "questions-are-asked-in-order",
    "Questions come in order, in the contract's words and choices.",
    is_ordinary=True,
)
THE_REPORT_IS_THE_PAGES = Rule(
    "the-report-is-the-pages",
    "A call that is answered ends in the contract's report of the answers.",
    is_ordinary=True,
)
UNKNOWN_PLACES_ARE_ERRORS = Rule(
    "unknown-places-are-errors",
    "A place that does not exist is an `isError` result without a bill.",
)
DECLINE_ENDS_THE_CALL = Rule(
    "decline-ends-the-call",
    "A declined question ends the call in a text that says so or an error.",
    source="elicitation: servers MUST handle cases where the user declines",
)
CANCEL_ENDS_THE_CALL = Rule(
    "cancel-ends-the-call",
    "A cancelled question ends the call in a text that says so or an error.",
    source="elicitation: servers MUST handle cases where the user cancels",
)
ANSWERS_ARE_CHECKED = Rule(
    "answers-are-checked",
    "An answer that does not fit is an error naming it, or asked again; no bill.",
    source="elicitation: servers SHOULD validate received data",
)
MISSING_ANSWERS_ARE_ASKED_AGAIN = Rule(
    "missing-answers-are-asked-again",
    "A round without the answer is asked again.",
    source="MRTR: the server SHOULD request the missing information again",
    in_verdict=False,
    is_ordinary=True,
)
COLD_ANSWERS_DO_NO_HARM = Rule(
    "cold-answers-do-no-harm",
    "An answer before its question is used, ignored or refused.",
    source="MRTR: the server SHOULD ignore any information it does not need",
)
SETTLED_ANSWERS_STAY = Rule(
    "settled-answers-stay",
    "A settled answer stands, whatever comes later.",
    in_verdict=False,
)
ANOTHER_ANSWER_IS_NOT_THE_FIRST = Rule(
    "another-answer-is-not-the-first",
    "Of two answers to one state, the second is honoured or refused.",
)
DUPLICATES_GET_ONE_RESPONSE = Rule(
    "duplicates-get-one-response",
    "A request that comes twice gets one response twice, or is refused.",
)
A_LOST_CALL_IS_NO_OTHER_CALL = Rule(
    "a-lost-call-is-no-other-call",
    "A call that was lost goes on, or is refused.",
)
FAILED_EFFECTS_ARE_NOT_DONE = Rule(
    "failed-effects-are-not-done",
    "A round whose effect failed ends in an error; it may be retried.",
)
STATE_IS_GENUINE = Rule(
    "state-is-genuine",
    "A state that the server did not issue is -32602 or `isError`, unbilled.",
    source="MRTR: servers MUST reject state that fails verification",
)
STATE_IS_BOUND_TO_ITS_CALL = Rule(
    "state-is-bound-to-its-call",
    "A state with other arguments is -32602 or `isError`, unbilled.",
    source="MRTR: state SHOULD include an identifier for the originating request",
    in_verdict=False,
)
STATE_IS_BOUND_TO_ITS_PRINCIPAL = Rule(
    "state-is-bound-to-its-principal",
    "A state of another principal is -32602 or `isError`, unbilled.",
    source="MRTR: state SHOULD include the authenticated principal",
    in_verdict=False,
)
STATE_EXPIRES = Rule(
    "state-expires",
    "A state over ten minutes old is -32602 or `isError`; up to nine it is good.",
    source="MRTR: state SHOULD include a short expiry",
    in_verdict=False,
)
STATES_ARE_SHORT = Rule(
    "states-are-short",
    "A state of more than 16 KiB is -32602 or `isError`, unbilled.",
    in_verdict=False,
)
ASKS_ONLY_WHO_CAN_BE_ASKED = Rule(
    "asks-only-who-can-be-asked",
    "No question goes to a client that did not declare elicitation.",
    source="MRTR: servers MUST NOT send what the client has not declared",
)
CLIENTS_THAT_CANNOT_BE_ASKED = Rule(
    "clients-that-cannot-be-asked",
    "Unasked, Tokyo assumes metric or is an error; Springfield is one.",
)
TASKS_ARE_DECLARED = Rule(
    "tasks-are-declared",
    "A task goes only to a request that declares the Tasks extension.",
)
TASKS_END = Rule(
    "tasks-end",
    "A task that has its answers ends in the contract's report, and stays ended.",
)
TASKS_ARE_THEIR_OWNERS = Rule(
    "tasks-are-their-owners",
    "A task of another principal, or under a guessed id, is an error.",
    in_verdict=False,
)
EVERY_REQUEST_IS_ANSWERED = Rule(
    "every-request-is-answered",
    "Every request gets a response, and ten retries end a call.",
)
CONTENT_IS_ONE_TEXT = Rule(
    "content-is-one-text",
    "A result is one text block, with structured content that fits its schema.",
    source="tools: servers MUST provide results that conform to the output schema",
)
PROGRESS_IS_THE_REQUESTS = Rule(
    "progress-is-the-requests",
    "Progress has the token of its request, and grows.",
    source="progress: the value MUST increase with each notification",
    about="leaks",
)
AUDIT_COMES_FIRST = Rule(
    "audit-comes-first",
    "An audit of the location as given comes before the bill, once a delivery.",
    about="effects",
)
BILLS_ARE_DUE = Rule(
    "bills-are-due",
    "Only a call that reports is billed, for its place, once a delivery.",
    about="effects",
)
A_REPORT_IS_BILLED = Rule(
    "a-report-is-billed",
    "A call that reports has at least one bill of its place.",
    about="effects",
)
NO_OTHER_EFFECTS = Rule(
    "no-other-effects",
    "There are two kinds of effect, and none outside a call.",
    about="effects",
)
NOTHING_IS_KEPT = Rule(
    "nothing-is-kept",
    "A process lets go of a call's files, tasks, threads and memory once it is over.",
    about="leaks",
)
EXCEPTIONS_STAY_INSIDE = Rule(
    "exceptions-stay-inside",
    "An error is in the server's words, without the text of an exception.",
    in_verdict=False,
    about="leaks",
)
NOTHING_LEAKS = Rule(
    "nothing-leaks",
    "No trace, no key and nothing of another user's shows in a response or a state.",
    about="leaks",
)

RULES = by_name((each for each in [*globals().values()] if isinstance(each, Rule)), "rules")
"""Every rule above, by its name, in the order of the page."""
