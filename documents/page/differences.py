"""The difference between each two options: the author's code, and the stand-ins behind it.

The hunks are those of `diff`. Knows option files and stand-ins as text; runs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from mrtr_options.demo.diff import Written, is_handler_the_same, stand_ins
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.tool.author_code import author_code, changed_lines, code_lines, compare
from mrtr_options.tool.catalogue import DECK, Option

ARGUING = {
    ("E", "F"): "each effect in `once`",
    ("E", "A"): "one handler; old clients are asked",
    ("B", "H"): "one handler, run again in each round or kept in memory",
    ("C", "D"): "one handler with a branch, or two",
    ("A", "C"): "the SDK asks old clients, or the author does",
    ("F", "G"): "a line for each effect, or a structure",
    ("H", "E"): "the call in memory, or in the state",
    ("B", "J"): "a key for each effect",
    ("H", "L"): "the call in memory, or in an engine",
    ("L", "K"): "a call that waits, or a task",
}
"""Pairs that the page offers, and what each shows. A pair is left out if an option is missing."""


def pairs(deck: Mapping[str, Option]) -> list[dict[str, str]]:
    """Return the pairs of `ARGUING` whose options are in the deck."""
    return [
        {"left": left, "right": right, "says": says}
        for (left, right), says in ARGUING.items()
        if left in deck and right in deck
    ]


def differences(deck: Mapping[str, Option]) -> JsonObject:
    """Return the `diffs` of each two options, and the files of `sdk` that they name.

    A diff has the hunks of the author's code: whether a hunk is changed, and its number of lines on
    either side. It also has the files of `sdk` that only one of the two options needs.
    """
    options = {
        letter: Written(letter, option.path.name, option.source) for letter, option in deck.items()
    }
    code = {letter: author_code(option.source) for letter, option in options.items()}
    diffs: JsonObject = {}
    files: set[str] = set()
    for left, right in product(options, options):
        hunks = compare(code[left], code[right])
        behind = [_files(side) for side in stand_ins(options[left], options[right])]
        files.update(*behind)
        diffs[left + right] = {
            "changed_lines": changed_lines(hunks),
            "hunks": [[int(hunk.changed), len(hunk.left), len(hunk.right)] for hunk in hunks],
            "is_handler_same": is_handler_the_same(hunks),
            "stand_ins": behind,
        }
    return {"diffs": diffs, "sdk": {name: _code(name) for name in sorted(files)}}


def _files(side: Written) -> list[str]:
    """Return the names of a stand-in's files, as in "sdk/once.py"."""
    return side.file.split(", ") if side.file else []


def _code(name: str) -> list[tuple[int, str]]:
    lines = code_lines((DECK / name).read_text(encoding="utf-8"))
    return [(line.line, line.text) for line in lines]
