"""CHOOSING's table: which option to take, with a run in which each choice fails.

Knows the options and their runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from documents.tables import Runs
from mrtr_options.review.judge.reading import Observation
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.catalogue import all_options


@dataclass(frozen=True)
class Choice:
    """An answer to "which option?".

    Attributes:
        question: What decides for it, if the answer is yes.
        subject: The option, as the matrix calls it.
        weak: The schedule that shows its weak spot.
        deployment: Where that is played.
        note: The mark of the page's footnote on that schedule, if there is one.
    """

    question: str
    subject: str
    weak: str
    deployment: str = "one"
    note: str = ""


CHOICES = (
    Choice(
        "Does the work outlast a request, for clients that take tasks?",
        "K",
        "task-killed-working",
    ),
    Choice(
        "Must a call outlive every process, at the price of a database in each round?",
        "L",
        "redeploy-reworded",
    ),
    Choice(
        "Is there one instance, or a balancer that routes by state?",
        "H",
        "restart",
    ),
    Choice(
        "Does nothing happen before the last question, and is doing it twice harmless?",
        "E",
        "lost-final",
        note="²",
    ),
    Choice(
        "Does every effect have a destination that honours an idempotency key?",
        "J",
        "redeploy-reworded-mixed",
        "two",
    ),
    Choice(
        "None of these: the default, F inside the single-use guard",
        "F+single-use",
        "lost-first",
    ),
)
"""Five questions, of which the first yes decides, and the default."""


def which(runs: Runs) -> str:
    """The choices, each with a run in which it fails."""
    cells = {
        (each.subject, each.schedule, each.deployment): each
        for each in runs
        if each.era == "modern"
    }
    lines: list[Sequence[str]] = []
    for number, choice in enumerate(CHOICES, start=1):
        letter = choice.subject[0]
        weak = cells[choice.subject, choice.weak, choice.deployment]
        name = letter if choice.subject == letter else f"{letter}¹"
        path = all_options()[letter].path.name
        count = str(number) if number < len(CHOICES) else ""
        link = f"[**{name}**](../mrtr_options/{path})"
        spot = f"`{choice.weak}`{choice.note}"
        lines.append((count, choice.question, link, spot, _comes_to(weak)))
    return table(("", "", "option", "how it fails", "what happens then"), lines)


def _comes_to(seen: Observation) -> str:
    """What a run comes to for the user: "2 bills", "call refused"."""
    if (seen.fate or "ok") != "ok":
        return f"call {seen.fate}"
    if seen.outcome != "completed":
        return f"call {seen.outcome}"
    for kind in ("bill", "audit"):
        if seen.most(kind) > 1:
            return f"{seen.most(kind)} {kind}s"
    return "nothing"
