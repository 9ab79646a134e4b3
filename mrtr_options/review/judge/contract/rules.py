"""The rules of docs/CONTRACT.md, each by a name and in a sentence. Knows nothing but these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mrtr_options.review.judge.properties import Problem, Property


class HasProblems(Protocol):
    """A reading of a history that knows where the history breaks the contract."""

    @property
    def violations(self) -> Sequence[Problem]: ...


RULES: dict[str, str] = {
    "arguments-are-checked": (
        "Bad arguments and unknown tools are -32602 or `isError`, without effects."
    ),
    "the-tool-is-listed": "The tool is listed with the contract's input schema.",
    "questions-are-asked-in-order": "Questions come in order, in the contract's words and choices.",
    "the-report-is-the-pages": (
        "A call that is answered ends in the contract's report of the answers."
    ),
    "unknown-places-are-errors": (
        "A place that does not exist is an `isError` result without a bill."
    ),
    "decline-ends-the-call": (
        "A declined question ends the call in a text that says so or an error."
    ),
    "cancel-ends-the-call": (
        "A cancelled question ends the call in a text that says so or an error."
    ),
    "answers-are-checked": (
        "An answer that does not fit is an error naming it, or asked again; no bill."
    ),
    "missing-answers-are-asked-again": "A round without the answer is asked again.",
    "cold-answers-do-no-harm": "An answer before its question is used, ignored or refused.",
    "settled-answers-stay": "A settled answer stands, whatever comes later.",
    "another-answer-is-not-the-first": (
        "Of two answers to one state, the second is honoured or refused."
    ),
    "duplicates-get-one-response": (
        "A request that comes twice gets one response twice, or is refused."
    ),
    "a-lost-call-is-no-other-call": "A call that was lost goes on, or is refused.",
    "failed-effects-are-not-done": (
        "A round whose effect failed ends in an error; it may be retried."
    ),
    "state-is-genuine": "A state that the server did not issue is -32602 or `isError`, unbilled.",
    "state-is-bound-to-its-call": "A state with other arguments is -32602 or `isError`, unbilled.",
    "state-is-bound-to-its-principal": (
        "A state of another principal is -32602 or `isError`, unbilled."
    ),
    "state-expires": "A state over ten minutes old is -32602 or `isError`; up to nine it is good.",
    "states-are-short": "A state of more than 16 KiB is -32602 or `isError`, unbilled.",
    "asks-only-who-can-be-asked": "No question goes to a client that did not declare elicitation.",
    "clients-that-cannot-be-asked": (
        "Unasked, Tokyo assumes metric or is an error; Springfield is one."
    ),
    "tasks-are-declared": "A task goes only to a request that declares the Tasks extension.",
    "tasks-end": "A task that has its answers ends in the contract's report, and stays ended.",
    "tasks-are-their-owners": "A task of another principal, or under a guessed id, is an error.",
    "every-request-is-answered": "Every request gets a response, and ten retries end a call.",
    "content-is-one-text": (
        "A result is one text block, with structured content that fits its schema."
    ),
    "audit-comes-first": (
        "An audit of the location as given comes before the bill, once a delivery."
    ),
    "bills-are-due": "Only a call that reports is billed, for its place, once a delivery.",
    "a-report-is-billed": "A call that reports has at least one bill of its place.",
    "no-other-effects": "There are two kinds of effect, and none outside a call.",
    "nothing-is-kept": (
        "A process lets go of a call's files, tasks, threads and memory once it is over."
    ),
    "exceptions-stay-inside": (
        "An error is in the server's words, without the text of an exception."
    ),
    "nothing-leaks": (
        "No trace, no key and nothing of another user's shows in a response or a state."
    ),
}
"""Every rule, by its name, in the order of the page."""

SOURCES: dict[str, str] = {
    "arguments-are-checked": "tools: servers MUST validate all tool inputs",
    "decline-ends-the-call": "elicitation: servers MUST handle cases where the user declines",
    "cancel-ends-the-call": "elicitation: servers MUST handle cases where the user cancels",
    "answers-are-checked": "elicitation: servers SHOULD validate received data",
    "missing-answers-are-asked-again": (
        "MRTR: the server SHOULD request the missing information again"
    ),
    "cold-answers-do-no-harm": "MRTR: the server SHOULD ignore any information it does not need",
    "state-is-genuine": "MRTR: servers MUST reject state that fails verification",
    "state-is-bound-to-its-call": (
        "MRTR: state SHOULD include an identifier for the originating request"
    ),
    "state-is-bound-to-its-principal": "MRTR: state SHOULD include the authenticated principal",
    "state-expires": "MRTR: state SHOULD include a short expiry",
    "asks-only-who-can-be-asked": "MRTR: servers MUST NOT send what the client has not declared",
    "content-is-one-text": "tools: servers MUST provide results that conform to the output schema",
}
"""The specification's sentences on the rules. All other rules are the page's own.

Source: 2026-07-28, server/tools, client/elicitation, basic/patterns/mrtr.
"""

LISTED = frozenset(
    {
        "the-tool-is-listed",
        "missing-answers-are-asked-again",
        "settled-answers-stay",
        "state-is-bound-to-its-call",
        "state-is-bound-to-its-principal",
        "state-expires",
        "states-are-short",
        "tasks-are-their-owners",
        "exceptions-stay-inside",
    }
)
"""Rules that the specification recommends or an SDK decides: reported, but not in the verdict."""

EFFECTS = frozenset(
    {"audit-comes-first", "bills-are-due", "a-report-is-billed", "no-other-effects"}
)
"""The rules about effects. Where a response is wrong, its wrong effects follow from that."""


def _rule(name: str, says: str) -> Property:
    def check(reading: HasProblems) -> Iterator[Problem]:
        return (problem for problem in reading.violations if problem.property == name)

    return Property(name, says, "contract", check, source=SOURCES.get(name, ""))


CONTRACT = tuple(_rule(name, says) for name, says in RULES.items())
"""The rules as properties."""
