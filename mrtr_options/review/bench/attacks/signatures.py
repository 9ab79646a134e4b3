"""Signatures of forged states: left off, moved, made without a key, or taken from a refusal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, cast

from mrtr_options.review.bench.attacks.state_changes import change_readable
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
    read_json,
)

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
        head, found, _ = forged.rpartition(separator)
        if found:
            yield f"{head}{separator}{quoted}"
        _, found, tail = forged.partition(separator)
        if found:
            yield f"{quoted}{separator}{tail}"


def _with_field(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a text in place of each field that may be a signature."""
    for part, fields in objects_in(forged):
        for name, value in fields.items():
            if isinstance(value, str) and _QUOTED.fullmatch(value):
                changed = json_written_like(part.data, {**fields, name: quoted})
                yield part.write(changed.encode())


def _with_signature(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a decoded text in place of its signature, if the lengths are the same."""
    for text, length, join in _signed(forged):
        for encoding in ENCODINGS[:-1]:
            with suppress(ValueError):
                signature = encoding.undo(quoted.encode())
                if len(signature) == length:
                    yield join(text, signature)


def unsigned_tokens(state: str) -> Iterator[tuple[str, str]]:
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


def damage_signatures(state: str) -> Iterator[tuple[str, str]]:
    """Leave the signature off, empty it, cut it short or move it; also beside a changed payload."""
    changed = [forged for name, forged in change_readable(state) if "written for" in name][:2]
    for separator in SEPARATORS:
        for text, what in ((state, ""), *((forged, ", the payload changed") for forged in changed)):
            pieces = text.split(separator)
            if not 2 <= len(pieces) <= 6:
                continue
            for place in (len(pieces) - 1, 0):
                rest = [*pieces[:place], *pieces[place + 1 :]]
                emptied = [*pieces[:place], "", *pieces[place + 1 :]]
                short = [*pieces[:place], pieces[place][:8], *pieces[place + 1 :]]
                which = "first" if place == 0 else "last"
                yield f"the {which} segment left off{what}", separator.join(rest)
                yield f"the {which} segment emptied{what}", separator.join(emptied)
                yield f"the {which} segment cut short{what}", separator.join(short)
            yield f"a segment added{what}", separator.join([*pieces, pieces[0][:8] or "x"])


def sign_again(state: str) -> Iterator[tuple[str, str]]:
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


def sign_other_heads(state: str) -> Iterator[tuple[str, str]]:
    """Change a field that says how a state is protected, such as a key's name, and sign it anew.

    The signature is made with an empty key, with a key that everybody knows, or left empty: a
    server that does not find a key may take an empty one.
    """
    for text, length, join in _signed(state):
        for name, changed in islice(_other_heads(text), MAX_HEADS):
            for message in _signable(changed)[:MAX_MESSAGES]:
                for how, signature in _signatures_of(message, length):
                    yield f"{name}, signed {how}", join(changed, signature)


def _other_heads(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text with another value in one field of an object, or in one short segment."""
    for part, fields in objects_in(text):
        for key, value in fields.items():
            if isinstance(value, str):
                changed = json_written_like(part.data, {**fields, key: "unknown"})
                yield f"{key} made 'unknown'", part.write(changed.encode())
    for separator in SEPARATORS:
        pieces = text.split(separator)
        for place, piece in enumerate(pieces):
            if 2 <= len(pieces) <= 6 and 0 < len(piece) <= MAX_KEY_NAME:
                other = separator.join([*pieces[:place], "unknown", *pieces[place + 1 :]])
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
