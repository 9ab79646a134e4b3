"""Which option to take: three questions, the option for each answer, and how it fails in a run.

Knows the options, the exploration and its words; nothing of HTML.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from mrtr_options.review.bench.faults import Fleet, names_of, parse
from mrtr_options.review.bench.scenario import Policy, calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore.combinations import in_words
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.explore.show import not_tried_cell
from mrtr_options.review.explore.workers import Called, explored
from mrtr_options.review.judge.anomalies import WORDS

FLEETS: tuple[Fleet, ...] = ("one", "sticky")
CLIENTS: dict[str, Policy] = {
    "again": "calls again",
    "resends": "resends",
    "key": "calls again",
}
"""What the client does: as today's clients; resends; or calls again with a call key."""

NOTES = {
    "again": "Today's clients call again, and nothing says that both calls mean the same. No option"
    " prevents a second charge. A destination does, if it honours a key made from what the call is"
    " about.",
    "own key": "Today's clients call again. Give the destination a key made from what the call is about,"
    " such as the order's number: it then charges once, however often the tool is called.",
}
SERIOUS = ("duplicate bill", "orphan bill", "lost call", "duplicate audit", "asked again")
"""The anomalies in the order in which a weak spot is looked for."""


def chosen(fleet: Fleet, client: str, *, keys: bool) -> str:
    """The option, as `subject_named` takes it, for a fleet, one of `CLIENTS`, and a destination
    that honours idempotency keys or not.
    """
    # Today's clients make another call, and J's keys belong to one.
    option = "J" if keys and client != "again" else "H" if fleet == "one" else "F"
    if client == "key":
        return f"{option}¹ᵏ"
    return "F¹" if (option, client) == ("F", "resends") else option


def choices() -> list[dict[str, Any]]:
    """Every combination of answers, with the option and its weak spot under one fault."""
    answers = list(product(FLEETS, CLIENTS, (False, True)))
    calls: dict[Called, int] = {
        (
            subject_named(chosen(fleet, client, keys=keys)),
            calling(
                fleet=fleet,
                policy=CLIENTS[client],
                destination="honours keys" if keys else "ignores keys",
            ),
        ): 1
        for fleet, client, keys in answers
    }
    done = {(each.subject, each.scenario): each for each in explored(calls)}
    found: list[dict[str, Any]] = []
    for (fleet, client, keys), called in zip(answers, calls, strict=True):
        counterexamples, left_out = done[called].counterexamples, done[called].not_tried
        prevented = (
            "duplicate bill" if keys and client == "again" else None
        )  # by the key of the note
        name = next(
            (each for each in SERIOUS if each in counterexamples and each != prevented), None
        )
        least = weakest_of([*map(names_of, counterexamples[name])]) if name else ""
        found.append(
            {
                "fleet": fleet,
                "client": client,
                "keys": "yes" if keys else "no",
                "subject": called[0].name,
                "policy": CLIENTS[client],
                "note": NOTES["own key" if keys else "again"] if client == "again" else "",
                "weak": WORDS[name] if name else "",
                "faults": least,
                "words": in_words(parse(least)) if name else "",
                "untried": not_tried_cell(left_out) if left_out else "",
            }
        )
    return found
