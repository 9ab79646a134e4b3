"""The first table of frameworks: a row for each documented form.

Knows the kept results; nothing of any library.
"""

from __future__ import annotations

from scoreboard.board import Scoreboard
from scoreboard.frameworks.frameworks import Variant
from scoreboard.frameworks.page import FATES, attack, outcome, row, rows, said
from scoreboard.frameworks.play import FrameworkReview, Played
from scoreboard.rows import Row

HEADS = {
    "clean": "clean call",
    "first-twice": "first answer twice",
    "last-twice": "last answer again",
    "at-once": "last answer twice at once, while the bill takes 3 s",
    "crash-bill": "killed after the bill",
    "added-second": "question added",
    "edited": "caller can edit",
    "others": "other user",
}
"""The columns: cases, by name. Their names are a part of each cell's address."""

ONLY_A_NAME = "no: holds a name"
"""The cell of a form whose caller holds no state that it could edit."""

NOT_PLAYED = "not played"

LEFT_OUT = ("two responses to one request",)
"""Anomalies that a cell leaves out: they are in the list of all failures."""


def first(board: Scoreboard) -> list[Row]:
    """Return a row for each documented form."""
    return [
        row(framework, variant, found, {case: _cell(case, variant, found) for case in HEADS})
        for framework, variant, found in rows(board)
    ]


def _cell(case: str, variant: Variant, found: FrameworkReview) -> str:
    if case == "edited" and not variant.carries:
        return ONLY_A_NAME
    played = found.cases.get(case)
    if played is None:
        return NOT_PLAYED
    if case in ("edited", "others"):
        return attack(played) or NOT_PLAYED
    if case == "clean":
        return outcome(played)
    if case == "at-once":
        return taken_by(played)
    usual = found.cases["clean"].shown if "clean" in found.cases else []
    return said(played, {*usual, *LEFT_OUT})


def taken_by(played: Played) -> str:
    """Return whether two processes took the answer, in any run of the race.

    The bill takes seconds, so that they meet there; how often says nothing of the framework.
    """
    if played.fate == "limitation":
        return FATES["limitation"]
    counts = played.times or {f"{played.audits}/{played.bills}": 1}
    is_both = any(int(each.partition("/")[2].split()[0]) > 1 for each in counts)
    return "taken by both" if is_both else "once"
