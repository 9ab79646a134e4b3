"""The kept results of frameworks in words: a terminal's table and the page's parts.

Knows the kept results and the frameworks' folders; nothing of any library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mrtr_options.review.judge.anomalies import ANOMALIES, listed
from mrtr_options.terminal import markdown
from scoreboard.board import Scoreboard, kept_of
from scoreboard.frameworks.cases import ATTACKS, CASES
from scoreboard.frameworks.frameworks import Framework, Variant, frameworks
from scoreboard.frameworks.play import FrameworkReview, Played
from scoreboard.libraries import about as about_libraries
from scoreboard.rows import Cell, Row, Runs, slug, upstream_of

Result = tuple[Framework, Variant, FrameworkReview]

WORDS_OF = {case.name: case.words for case in CASES}
"""The name of each case in the tables."""


def rows(board: Scoreboard) -> list[Result]:
    """Return the results, in the order of the frameworks."""
    return [
        (framework, variant, kept.variants[variant.name])
        for framework, kept in kept_of(frameworks(), board.frameworks)
        for variant in framework.variants
        if variant.name in kept.variants
    ]


# --- words --------------------------------------------------------------------------------------


def name_of(framework: Framework, variant: Variant) -> str:
    """Return the name of a row, as in "LangGraph, one node"."""
    return f"{framework.title}, {variant.name}"


def least(found: FrameworkReview, anomaly: str) -> str:
    """Return the first case that shows an anomaly; empty if none does.

    Attacks are left out: they have a table of their own.
    """
    plain = ((name, played) for name, played in found.cases.items() if name not in ATTACKS)
    return next((name for name, played in plain if anomaly in played.shown), "")


FATES = {
    "limitation": "harness limitation",
    "readable": "readable afterwards",
    "parked": "parked",
    "refused": "refused, still open",
    "lost": "lost",
    "unread": "error, not read afterwards",
    "question": "question open",
}
"""The fate of a call whose client has no result, in words."""


def outcome(played: Played) -> str:
    """Return how a case ended: audits/bills, of each run of a race, and the fate of the call."""
    what = FATES.get(played.fate, "")
    if played.fate == "limitation":
        return what
    counts = " or ".join(sorted(played.times)) or f"{played.audits}/{played.bills}"
    if played.fate == "result" and not played.bills:
        what = f'ends with "{played.says.splitlines()[0]}"'
    billed = ", billed what was no choice" if any(map(_bills_no_place, played.history)) else ""
    return f"{counts} {what}".strip() + billed


def _bills_no_place(line: str) -> bool:
    """Return whether a line of a history bills the answer to another question."""
    return line.strip() in ("effect: bill of 'imperial'", "effect: bill of 'yes'")


def said(played: Played, besides: Collection[str] = ()) -> str:
    """Return the outcome, the anomalies besides some, and whether an attack succeeded."""
    words = [each for each in played.shown if each not in besides]
    if played.taken:
        words.append("taken")
    return ": ".join(filter(None, (outcome(played), listed(words))))


def attack(played: Played) -> str:
    """Return whether an attack succeeded, in a word."""
    if played.taken is None:
        return ""
    if played.fate == "limitation":
        return FATES["limitation"]
    if played.taken:
        return "taken"
    return "refused" if played.end == "error" else "not taken"


# --- tables -------------------------------------------------------------------------------------


def shown_anomalies(board: Scoreboard) -> list[str]:
    """Return the anomalies that any framework shows, money first."""
    every = [found for *_, found in rows(board)]
    return [each.name for each in ANOMALIES if any(least(found, each.name) for found in every)]


def about(board: Scoreboard) -> Runs:
    """Return what is known of each framework, by its address, a line for each thing."""
    forms = [
        (
            framework,
            f"{variant.name}: {found.lines} lines, {found.processes} processes; the caller holds"
            f" {variant.pause}; an author today: {variant.author}",
        )
        for framework, variant, found in rows(board)
    ]
    return about_libraries("frameworks", frameworks(), board.frameworks, forms)


def case_rows(board: Scoreboard) -> list[Row]:
    """Return a row for each way to write the tool, with the outcome of each case."""
    return [
        row(
            framework,
            variant,
            found,
            {
                name: attack(played) if name in ATTACKS else outcome(played)
                for name, played in found.cases.items()
            },
        )
        for framework, variant, found in rows(board)
    ]


def row(
    framework: Framework, variant: Variant, found: FrameworkReview, cells: Mapping[str, str]
) -> Row:
    """Return a row for a way to write the tool."""
    return Row(
        id=address(framework, variant),
        title=framework.title,
        form=variant.name + ("" if variant.recommended else " (not recommended)"),
        version=found.version,
        date=found.date,
        cells={name: Cell(says=says) for name, says in cells.items()},
        upstream=upstream_of(framework.upstream),
    )


def cases(board: Scoreboard) -> str:
    """Return a table of the cases, in words and in a sentence."""
    return markdown(("case", "what happens"), ((each.words, each.scenario.why) for each in CASES))


def failure_rows(board: Scoreboard) -> list[Row]:
    """Return a row for each way to write the tool, with the least case of each anomaly."""
    names = shown_anomalies(board)
    return [
        row(
            framework,
            variant,
            found,
            {slug(name): WORDS_OF.get(least(found, name), "") for name in names},
        )
        for framework, variant, found in rows(board)
    ]


def address(framework: Framework, variant: Variant) -> str:
    """Return the address of a way to write the tool."""
    return f"frameworks/{framework.name}/{slug(variant.name)}"


def failures(board: Scoreboard) -> Runs:
    """Return the run of each case, by its name, and of the least case of each anomaly."""
    found: Runs = {}
    anomalies = shown_anomalies(board)
    for framework, variant, reviewed in rows(board):
        at = address(framework, variant)
        found |= {f"{at}/{name}": played.history for name, played in reviewed.cases.items()}
        for name in anomalies:
            case = least(reviewed, name)
            if case:
                found[f"{at}/{slug(name)}"] = reviewed.cases[case].history
    return found
