"""Changed states: a malicious client changes what it can read of a state, or damages it.

Signatures are left off, moved, made without a key, or taken from a refusal. Each function yields
changed states with a description.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, cast

from mrtr_options.review.bench.history.state_text import (
    DIGESTS,
    ENCODINGS,
    SEPARATORS,
    Encoding,
    Part,
    decode_base64,
    decoded_once,
    json_written_like,
    objects_in,
    parts,
    put_in,
    read_json,
)

Changes = Iterator[tuple[str, str]]
"""Changed states, each behind its description."""

_Values = Iterator[tuple[str, Any]]
"""Changed JSON values, each behind its description."""

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


def change_readable(state: str) -> Changes:
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
                yield name, part.write_json(changed)


def _numbers(part: Part) -> Changes:
    """Make a time or a number inside a text larger."""
    if len(part.data) > 400 or not part.data.isascii() or not part.data.decode().isprintable():
        return
    for found in re.finditer(rb"(?<![\w])\d{1,12}(?![\w])", part.data):
        later = str(int(found[0]) + 100_000).encode()
        yield (
            f"{found[0].decode()} made {later.decode()}",
            part.write(part.data[: found.start()] + later + part.data[found.end() :]),
        )


def _changed(value: Any, path: str = "") -> _Values:
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


def _changed_object(fields: dict[str, Any], path: str) -> _Values:
    for key, part in fields.items():
        where = f"{path}.{key}".strip(".")
        for name, changed in _changed(part, where):
            yield name, {**fields, key: changed}
        yield f"{where} left out", {name: each for name, each in fields.items() if name != key}


def _changed_list(items: list[Any], path: str) -> _Values:
    for place, part in enumerate(items):
        for name, changed in _changed(part, f"{path}[{place}]"):
            yield name, put_in(items, place, changed)


def _changed_text(value: str, path: str) -> _Values:
    """Change one thing in a text that is JSON; replace any other text."""
    if value[:1] not in ("{", "["):
        yield f"{path} replaced", "Springfield, Missouri" if "," in value else "mallory"
        return
    with suppress(ValueError):
        for name, changed in _changed(read_json(value), path):
            yield name, json_written_like(value, changed)


def splice(state: str, others: Sequence[str]) -> Changes:
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
                mixed = part.write_json({**theirs, key: mine[key]})
                yield f"another state with this one's {key}", mixed


def _mixed(pieces: list[str], theirs: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Put one segment of another state in, and then the whole end of it."""
    for place in range(len(pieces)):
        if pieces[place] != theirs[place]:
            yield f"segment {place + 1} of another state", put_in(pieces, place, theirs[place])
    for cut in range(2, len(pieces) - 1):
        mixed = [*pieces[:cut], *theirs[cut:]]
        if mixed not in (pieces, theirs):
            yield f"another state from segment {cut + 1} on", mixed


def damage(state: str) -> Changes:
    """Cut a state short, or change one character, never the last one."""
    yield "cut short by 8", state[:-8]
    yield "its first half", state[: len(state) // 2]
    places = [int(len(state) * share) for share in (0.03, 0.25, 0.5, 0.75)]
    for place in (*places, len(state) - 6):  # in each part of it, and near the end of a signature
        if 0 <= place < len(state) - 1:
            letter = "A" if state[place] not in "Aa" else "B"
            yield f"character {place} changed", state[:place] + letter + state[place + 1 :]


def flip_bits(state: str) -> Changes:
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


def guess_neighbours(state: str) -> Changes:
    """Yield the neighbours of a state that ends in a number."""
    found = re.search(r"\d{1,9}$", state)
    if found is not None and len(state) < 40:
        for step in (*range(1, 10), *range(-9, 0)):
            number = str(max(0, int(found[0]) + step)).zfill(len(found[0]))
            yield f"a number {'higher' if step > 0 else 'lower'}", state[: found.start()] + number


_KNOWN_KEYS = b"", b"secret", b"key", b"changeme"


_QUOTED = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
"""A text that may be a signature."""


def signed_as_told(forged: str, says: str) -> Iterator[str]:
    """Yield a refused state with each signature that the refusal quotes in place of its own."""
    for quoted in dict.fromkeys(_QUOTED.findall(says)):
        if quoted not in forged:
            yield from _with_segment(forged, quoted)
            yield from _with_field(forged, quoted)
            yield from _with_signature(forged, quoted)


def _with_segment(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a text in place of its last segment, and of its first."""
    for separator in SEPARATORS:
        pieces = forged.split(separator)
        if len(pieces) > 1:
            yield separator.join([*pieces[:-1], quoted])
            yield separator.join([quoted, *pieces[1:]])


def _with_field(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a text in place of each field that may be a signature."""
    for part, fields in objects_in(forged):
        for name, value in fields.items():
            if isinstance(value, str) and _QUOTED.fullmatch(value):
                yield part.write_json({**fields, name: quoted})


def _with_signature(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a decoded text in place of its signature, if the lengths are the same."""
    for text, length, join in _signed(forged):
        for encoding in ENCODINGS[:-1]:
            with suppress(ValueError):
                signature = encoding.undo(quoted.encode())
                if len(signature) == length:
                    yield join(text, signature)


def unsigned_tokens(state: str) -> Changes:
    """Yield JSON web tokens that say they are not signed."""
    pieces = state.split(".")
    if len(pieces) != 3:
        return
    try:
        header: Any = read_json(decode_base64(pieces[0].encode(), b"-_"))
    except ValueError:
        return
    if not isinstance(header, dict) or "alg" not in header:
        return
    payloads = [pieces[1]]
    for change in ("made larger", "written for"):
        for name, forged in change_readable(state):
            if change in name and forged.count(".") == 2:
                payloads.append(forged.split(".")[1])
    for algorithm in ("none", "None"):
        text = json.dumps({**cast("dict[str, Any]", header), "alg": algorithm}).encode()
        first = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
        for payload in payloads:
            yield f"alg {algorithm}", f"{first}.{payload}."
            yield f"alg {algorithm}, the signature kept", f"{first}.{payload}.{pieces[2]}"


def damage_signatures(state: str) -> Changes:
    """Leave the signature off, empty it, cut it short or move it; also beside a changed payload."""
    changed = [forged for name, forged in change_readable(state) if "written for" in name][:2]
    for separator in SEPARATORS:
        for text, what in ((state, ""), *((forged, ", the payload changed") for forged in changed)):
            pieces = text.split(separator)
            if not 2 <= len(pieces) <= 6:
                continue
            for place in (len(pieces) - 1, 0):
                which = "first" if place == 0 else "last"
                for how, left in {
                    "left off": (),
                    "emptied": ("",),
                    "cut short": (pieces[place][:8],),
                }.items():
                    shorter = separator.join(put_in(pieces, place, *left))
                    yield f"the {which} segment {how}{what}", shorter
            yield f"a segment added{what}", separator.join([*pieces, pieces[0][:8] or "x"])


def sign_again(state: str) -> Changes:
    """Sign a changed state without a key, or with a key that everybody knows."""
    for text, length, join in _signed(state):
        for name, changed in islice(change_readable(text), 2):
            # As it is written, and the first part that it decodes to.
            for part in parts(changed)[:2]:
                for how, signature in _signatures_of(part.data, length):
                    yield f"{name}, signed {how}", join(changed, signature)


MAX_HEADS = 8
"""The most heads that are made of one state."""

MAX_MESSAGES = 4
"""The most parts of a state that are tried as the signed text."""


def sign_other_heads(state: str) -> Changes:
    """Change a field that says how a state is protected, such as a key's name, and sign it anew.

    The signature is made with an empty key, with a key that everybody knows, or left empty: a
    server that does not find a key may take an empty one.
    """
    for text, length, join in _signed(state):
        for name, changed in islice(_other_heads(text), MAX_HEADS):
            for message in _signable(changed)[:MAX_MESSAGES]:
                for how, signature in _signatures_of(message, length):
                    yield f"{name}, signed {how}", join(changed, signature)


def _other_heads(text: str) -> Changes:
    """Yield a text with another value in one field of an object, or in one short segment."""
    for part, fields in objects_in(text):
        for key, value in fields.items():
            if isinstance(value, str):
                yield f"{key} made 'unknown'", part.write_json({**fields, key: "unknown"})
    for separator in SEPARATORS:
        pieces = text.split(separator)
        for place, piece in enumerate(pieces):
            if 2 <= len(pieces) <= 6 and 0 < len(piece) <= MAX_KEY_NAME:
                other = separator.join(put_in(pieces, place, "unknown"))
                yield f"segment {place + 1} made 'unknown'", other


MAX_KEY_NAME = 40
"""The longest segment that may name a key."""


def _signable(text: str) -> list[bytes]:
    """Return the bytes of a text that may be signed: all, its decoded segments, its segments."""
    pieces = [
        piece
        for separator in filter(text.__contains__, SEPARATORS)
        for piece in text.split(separator)
        if len(piece) > MAX_KEY_NAME
    ]
    found = [text.encode()]
    for piece in pieces or [text]:
        part = Part(piece.encode(), bytes.decode)
        found += [inner.data for inner in decoded_once(part, 0)][:1]
    found += [piece.encode() for piece in pieces]
    return list(dict.fromkeys(found))


def _signatures_of(message: bytes, length: int) -> Iterator[tuple[str, bytes]]:
    yield "not at all", b""
    yield "without a key", hashlib.new(DIGESTS[length], message).digest()
    for key in _KNOWN_KEYS:
        yield f"with the key {key.decode()!r}", hmac.digest(key, message, DIGESTS[length])


def _signed(state: str) -> Iterator[tuple[str, int, Callable[[str, bytes], str]]]:
    """Yield a text that may be signed, the length of its signature, and how to join the two."""
    for separator in filter(state.__contains__, SEPARATORS):
        body, _, last = state.rpartition(separator)
        first, _, rest = state.partition(separator)
        for text, signature, is_last in ((body, last, True), (rest, first, False)):
            encoding = _encoding_of(signature)
            if encoding is not None:
                length = len(encoding.undo(signature.encode()))
                join = partial(_join, separator=separator, encoding=encoding, is_last=is_last)
                yield text, length, join
    for part in parts(state)[1:]:
        for length in DIGESTS:
            for is_last in (True, False):
                cut = -length if is_last else length
                head = part.data[:cut]
                tail = part.data[cut:]
                body, signature = (head, tail) if is_last else (tail, head)
                if len(body) >= 4 and body.isascii() and not signature.isascii():
                    yield body.decode(), length, partial(_put_beside, part=part, is_last=is_last)


def _join(text: str, signature: bytes, *, separator: str, encoding: Encoding, is_last: bool) -> str:
    signed = encoding.redo(signature).decode()
    return separator.join((text, signed) if is_last else (signed, text))


def _put_beside(text: str, signature: bytes, *, part: Part, is_last: bool) -> str:
    return part.write(text.encode() + signature if is_last else signature + text.encode())


def _encoding_of(signature: str) -> Encoding | None:
    """Return the encoding of a text that may be a signature."""
    for encoding in ENCODINGS[:-1]:
        with suppress(ValueError):
            if len(encoding.undo(signature.encode())) in DIGESTS:
                return encoding
    return None
