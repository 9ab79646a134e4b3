"""The numbers of lines that the costs have: each option's author's, and all of the SDK's."""

from __future__ import annotations

from collections.abc import Sequence

from mrtr_options.tool.catalogue import Option, all_options
from mrtr_options.tool.notation import option_and_words
from mrtr_options.tool.sizes import size_of
from scoreboard.cost.report import DEFAULT, Lines, Report

GUARDED = ("F+guard", DEFAULT)
"""The guarded subjects whose lines are counted."""


def count_lines(options: Sequence[Option]) -> list[Lines]:
    """Count the lines of each option, and those of the guarded ones."""
    found = [_lines(option.letter, option) for option in options]
    return [*found, *(_lines(name, *option_and_words(name)) for name in GUARDED)]


def _lines(subject: str, option: Option, words: Sequence[str] = ()) -> Lines:
    size = size_of(option, words)
    return Lines(subject=subject, author=size.author, sdk=size.own + size.shared)


def count_again(report: Report) -> Report:
    """Return a report with the present numbers of lines, whenever its times were measured."""
    return report.model_copy(update={"lines": count_lines(list(all_options().values()))})
