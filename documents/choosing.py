"""The choice of an option, for README, CHOOSING and the page: one rule, with its weak spots.

Knows the rule (`mrtr_options.tool.choosing`), and the kept rows of the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from documents import candidates
from mrtr_options.review.bench.faults import in_words, parse
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.choosing import CHOICES, QUESTIONS, Answers, Choice, choose
from mrtr_options.tool.notation import DEFAULT, titled
from mrtr_options.tool.weather import DESTINATIONS


def title(choice: Choice) -> str:
    """Return the name of a choice: the option before its letter, and the wrappers around it."""
    return titled(subject_named(choice.subject).name)


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
    rows: list[Sequence[str]] = []
    for destination in DESTINATIONS:
        # Candidates are of modern clients, which notice no shim.
        found = (candidates.row_of(DEFAULT, destination, policy) for policy in POLICIES)
        rows.append((destination, *map(candidates.cell, found)))
    return table(("destination", *(f"client {policy}" for policy in POLICIES)), rows)


def choices() -> list[JsonObject]:
    """Return every set of answers with the choice, as the page's chooser shows it."""
    found: list[JsonObject] = []
    for said in product((True, False), repeat=len(QUESTIONS)):
        choice = choose(Answers(*said))
        subject = subject_named(choice.subject)
        rows = {
            policy: candidates.row_of(subject.name, choice.destination, policy)
            for policy in POLICIES
        }
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
                    for policy, row in rows.items()
                    for words, fault in candidates.anomalies_in(row).items()
                ],
            }
        )
    return found
