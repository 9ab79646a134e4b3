"""The choice of an option, for README, CHOOSING and the page: one rule, with its weak spots.

Knows the rule (`mrtr_options.tool.choosing`), and the kept rows of the candidates.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from documents import candidates
from mrtr_options.review.bench.faults import in_words, parse
from mrtr_options.review.bench.setup import POLICIES, Policy
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore.summary import Row
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.choosing import CHOICES, QUESTIONS, Answers, Choice, choose
from mrtr_options.tool.notation import DEFAULT, titled


def title(choice: Choice) -> str:
    """Return the name of a choice: the option before its letter, and the wrappers around it."""
    subject = subject_named(choice.subject)
    return titled(subject.name)


def weak_spots(choice: Choice) -> dict[Policy, dict[str, str]]:
    """Return the anomalies that one fault still causes, by client: words, and the fault."""
    return {policy: candidates.anomalies_in(row) for policy, row in _rows_of(choice).items()}


def _rows_of(choice: Choice) -> dict[Policy, Row]:
    """Return the kept rows of a choice, by client."""
    subject = subject_named(choice.subject).name
    return {policy: candidates.row_of(subject, choice.destination, policy) for policy in POLICIES}


def questions() -> str:
    """Return the questions as a list, as CHOOSING shows them."""
    return "\n".join(f"{number}. {asked}" for number, asked in enumerate(QUESTIONS.values(), 1))


def which() -> str:
    """Return the rule as a table: when, what to take, and why."""
    return table(
        ("when (the first that fits)", "take", "why"),
        [(choice.when, title(choice), choice.why) for choice in CHOICES],
    )


def default() -> str:
    """Return the anomalies that one fault still causes in the default, as a table.

    A row is a destination, a column a client.
    """
    subject = DEFAULT  # candidates are of modern clients, which notice no shim
    rows: list[tuple[str, ...]] = []
    for destination in candidates.DESTINATIONS:
        cells = [
            candidates.cell(candidates.row_of(subject, destination, policy)) for policy in POLICIES
        ]
        rows.append((destination, *cells))
    return table(("destination", *(f"client {policy}" for policy in POLICIES)), rows)


def choices() -> list[dict[str, Any]]:
    """Return every set of answers with the choice, as the page's chooser shows it."""
    found: list[dict[str, Any]] = []
    for said in product((True, False), repeat=len(QUESTIONS)):
        choice = choose(Answers(*said))
        subject = subject_named(choice.subject)
        found.append(
            {
                "answers": dict(
                    zip(QUESTIONS, ("yes" if each else "no" for each in said), strict=True)
                ),
                "subject": subject.name,
                "why": choice.why,
                "destination": choice.destination,
                "weak": [
                    {
                        "policy": policy,
                        "words": words,
                        "faults": fault,
                        "when": in_words(parse(fault)),
                    }
                    for policy, spots in weak_spots(choice).items()
                    for words, fault in spots.items()
                ],
            }
        )
    return found
