"""Each library of the scoreboard in a row, and all that is kept of it as lines.

Knows the descriptions in the folders and the kept results; nothing of any library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.terminal import markdown
from scoreboard.board import Kept, date_of, kept_of
from scoreboard.rows import Board, Row, Runs, slug
from scoreboard.servers.peers import Described

FAILURES = {slug(each.name): each.name for each in ANOMALIES}
"""The columns of a table of failures, and their heads."""


def table(
    board: Board,
    known: Mapping[str, Described],
    kept: Mapping[str, Kept[Any]],
    failures: Sequence[Row],
) -> str:
    """Return a table with a row for each library: its version, its page, and its failures.

    Args:
        board: The board of the libraries.
        known: The libraries, by name.
        kept: Their kept results.
        failures: A row for each form of each library, with a cell for each failure.
    """
    rows = [
        (
            f'<a id="{board}-{who.name}"></a>{who.title}',
            who.language,
            f"`{who.package}` {who.version}",
            f"[page]({who.documentation})",
            _date(who, found),
            _failures([row for row in failures if row.id.split("/")[1] == who.name]),
        )
        for who, found in kept_of(known, kept)
    ]
    heads = ("library", "language", "package", "written after", "run", "failures")
    return markdown(heads, rows)


def _date(who: Described, kept: Kept[Any]) -> str:
    return date_of(who, kept, max((each.date for each in kept.variants.values()), default=""))


def _failures(forms: Sequence[Row]) -> str:
    """Return in how many forms of a library each failure was found."""
    counts = {
        words: len([row for row in forms if column in row.cells and row.cells[column].says])
        for column, words in FAILURES.items()
    }
    found = [f"{words} {count} of {len(forms)}" for words, count in counts.items() if count]
    return ", ".join(found) or "none found"


def about(
    board: Board,
    known: Mapping[str, Described],
    kept: Mapping[str, Kept[Any]],
    forms: Mapping[str, Sequence[str]],
) -> Runs:
    """Return what is known of each library, by its address, a line for each thing.

    Args:
        board: The board of the libraries.
        known: The libraries, by name.
        kept: Their kept results.
        forms: A line for each setting or form, by the library's name.
    """
    return {
        f"{board}/{who.name}/about": [*_about(who, found), *forms.get(who.name, ())]
        for who, found in kept_of(known, kept)
    }


def _about(who: Described, kept: Kept[Any]) -> list[str]:
    quote = who.quote
    says = f'"{quote.says}"' if quote.says else "does not mention them"
    seconds = sum(each.seconds for each in kept.variants.values())
    cpu_seconds = sum(getattr(each, "cpu_seconds", 0) for each in kept.variants.values())
    return [
        f"{who.title}, {who.language}: {who.package} {who.version}; run {_date(who, kept)}",
        f"written after {who.documentation}",
        f"its documentation on effects above a pause: {says} ({quote.address}, {quote.date})",
        *([f"note: {who.note}"] if who.note else []),
        f"the build took {_took(kept.build_seconds, kept.build_cpu_seconds)};"
        f" the runs took {_took(seconds, cpu_seconds)}",
        *([f"could not be built: {kept.cannot}"] if kept.cannot else []),
    ]


def _took(seconds: int, cpu_seconds: int) -> str:
    if not seconds:
        return "a time that was not measured"
    return f"{seconds} s" + (f" ({cpu_seconds} s of processor)" if cpu_seconds else "")
