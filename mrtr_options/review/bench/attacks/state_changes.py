"""Changed states: a malicious client changes what it can read of a state, or damages it.

Each function yields changed states with a description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

from mrtr_options.review.bench.history.state_text import (
    SEPARATORS,
    Part,
    json_written_like,
    objects_in,
    parts,
    read_json,
)

SWAPS = (
    (b"Illinois", b"Missouri"),
    (b"Missouri", b"Illinois"),
    (b"Maine", b"Oregon"),
    (b"Oregon", b"Maine"),
    (b"Tokyo, Japan", b"Lisbon, Portugal"),
    (b"metric", b"imperial"),
    (b"alice", b"mallory"),
    (b"bob", b"alice"),
)
"""Words that mean something in a state, and what a forger would put there."""


def change_readable(state: str) -> Iterator[tuple[str, str]]:
    """Change the readable parts of a state, and write them back."""
    for part in parts(state):
        for old, new in SWAPS:
            if old in part.data:
                yield (
                    f"{new.decode()!r} written for {old.decode()!r}",
                    part.write(part.data.replace(old, new)),
                )
    for part in parts(state):
        try:
            value = read_json(part.data)
        except ValueError:
            yield from _numbers(part)
            continue
        if isinstance(value, dict | list):
            for name, changed in _changed(value):
                yield name, part.write(json_written_like(part.data, changed).encode())


def _numbers(part: Part) -> Iterator[tuple[str, str]]:
    """Make a time or a number inside a text larger."""
    if len(part.data) > 400 or not part.data.isascii() or not part.data.decode().isprintable():
        return
    for found in re.finditer(rb"(?<![\w])\d{1,12}(?![\w])", part.data):
        later = str(int(found[0]) + 100_000).encode()
        yield (
            f"{found[0].decode()} made {later.decode()}",
            part.write(part.data[: found.start()] + later + part.data[found.end() :]),
        )


def _changed(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a JSON value with one thing changed in it."""
    if isinstance(value, dict):
        yield from _changed_object(cast("dict[str, Any]", value), path)
    elif isinstance(value, list):
        yield from _changed_list(cast("list[Any]", value), path)
    elif isinstance(value, str):
        yield from _changed_text(value, path)
    elif isinstance(value, bool):
        yield f"{path} negated", not value
    elif isinstance(value, int | float):
        yield f"{path} made larger", value + 100_000
        yield f"{path} made 0", 0
    elif value is None:
        yield f"{path} filled in", "Springfield, Missouri"


def _changed_object(fields: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, part in fields.items():
        where = f"{path}.{key}".strip(".")
        for name, changed in _changed(part, where):
            yield name, {**fields, key: changed}
        yield f"{where} left out", {name: each for name, each in fields.items() if name != key}


def _changed_list(items: list[Any], path: str) -> Iterator[tuple[str, Any]]:
    for place, part in enumerate(items):
        for name, changed in _changed(part, f"{path}[{place}]"):
            yield name, [*items[:place], changed, *items[place + 1 :]]


def _changed_text(value: str, path: str) -> Iterator[tuple[str, Any]]:
    """Change one thing in a text that is JSON; replace any other text."""
    if value[:1] not in ("{", "["):
        yield f"{path} replaced", "Springfield, Missouri" if "," in value else "mallory"
        return
    with suppress(ValueError):
        for name, changed in _changed(read_json(value), path):
            yield name, json_written_like(value, changed)


def splice(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Put parts of one state beside parts of another, a signature for example."""
    for separator in SEPARATORS:
        pieces = state.split(separator)
        for other in others[-4:]:
            theirs = other.split(separator)
            if 2 <= len(pieces) == len(theirs) <= 6:
                for name, mixed in _mixed(pieces, theirs):
                    yield name, separator.join(mixed)
    for other in others[-4:]:
        for (_, mine), (part, theirs) in zip(objects_in(state), objects_in(other), strict=False):
            for key in sorted(mine.keys() & theirs.keys()):
                mixed = json_written_like(part.data, {**theirs, key: mine[key]}).encode()
                yield f"another state with this one's {key}", part.write(mixed)


def _mixed(pieces: list[str], theirs: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Put one segment of another state in, and then the whole end of it."""
    for place in range(len(pieces)):
        if pieces[place] != theirs[place]:
            mixed = [*pieces[:place], theirs[place], *pieces[place + 1 :]]
            yield f"segment {place + 1} of another state", mixed
    for cut in range(2, len(pieces) - 1):
        mixed = [*pieces[:cut], *theirs[cut:]]
        if mixed not in (pieces, theirs):
            yield f"another state from segment {cut + 1} on", mixed


def damage(state: str) -> Iterator[tuple[str, str]]:
    """Cut a state short, or change one character, never the last one."""
    yield "cut short by 8", state[:-8]
    yield "its first half", state[: len(state) // 2]
    places = [int(len(state) * share) for share in (0.03, 0.25, 0.5, 0.75)]
    for place in (*places, len(state) - 6):  # in each part of it, and near the end of a signature
        if 0 <= place < len(state) - 1:
            letter = "A" if state[place] not in "Aa" else "B"
            yield f"character {place} changed", state[:place] + letter + state[place + 1 :]


def flip_bits(state: str) -> Iterator[tuple[str, str]]:
    """Turn one place into another by flipping bits, wherever its name may be in hidden bytes.

    A state that is hidden and not signed can be changed by anyone who knows its content.
    """
    mask = bytes(one ^ other for one, other in zip(*SWAPS[0], strict=True))
    hidden = [part for part in parts(state) if not part.data.isascii() and len(part.data) <= 200]
    for part in hidden[:1]:
        for start in range(len(part.data) - len(mask) + 1):
            flipped = bytes(
                byte ^ mask[place - start] if 0 <= place - start < len(mask) else byte
                for place, byte in enumerate(part.data)
            )
            yield (
                f"{SWAPS[0][1].decode()!r} for {SWAPS[0][0].decode()!r} from byte {start + 1} on",
                part.write(flipped),
            )


def guess_neighbours(state: str) -> Iterator[tuple[str, str]]:
    """Yield the neighbours of a state that ends in a number."""
    found = re.search(r"\d{1,9}$", state)
    if found is not None and len(state) < 40:
        for step in (*range(1, 10), *range(-9, 0)):
            number = str(max(0, int(found[0]) + step)).zfill(len(found[0]))
            yield f"a number {'higher' if step > 0 else 'lower'}", state[: found.start()] + number
