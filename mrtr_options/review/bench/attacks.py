"""Attacks on a state: what a client can read of it, and the states that it can forge from it.

A malicious client decodes what can be decoded and changes what it understands. Of servers it
knows how long a state may be: a state is text, and each attack makes texts of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any, cast

from mrtr_options.review.bench.payloads import PAYLOADS
from mrtr_options.review.bench.scenario import KeyEdit, StateEdit
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES

MAX_DEPTH = 4
"""The most encodings inside each other that are undone."""


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoding:
    """One way to write bytes.

    Attributes:
        name: Of the encoding.
        undo: Decodes; raises ValueError for what is not in this encoding.
        redo: Encodes.
    """

    name: str
    undo: Callable[[bytes], bytes]
    redo: Callable[[bytes], bytes]


def _json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is none, or deeper than this process can read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("too deep") from error


def _from_base64(text: bytes, alphabet: bytes) -> bytes:
    if not text.isascii():
        raise ValueError("no base64")
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=alphabet, validate=True)


def _from_padded(text: bytes, alphabet: bytes) -> bytes:
    if len(text) % 4:
        raise ValueError("no padding")
    return _from_base64(text, alphabet)


def _inflated(data: bytes) -> bytes:
    if int.from_bytes(data[:2]) % 31:  # RFC 1950: the check bits of its header
        raise ValueError("no zlib")
    try:
        return zlib.decompressobj().decompress(data, 1 << 20)
    except zlib.error as error:
        raise ValueError(str(error)) from error


ENCODINGS = (
    Encoding("hex", binascii.unhexlify, binascii.hexlify),
    Encoding(
        "base64url",
        lambda text: _from_padded(text, b"-_"),
        lambda data: base64.urlsafe_b64encode(data),
    ),
    Encoding("base64", lambda text: _from_padded(text, b"+/"), base64.b64encode),
    Encoding(
        "base64url without padding",
        lambda text: _from_base64(text, b"-_"),
        lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
    ),
    Encoding("zlib", _inflated, zlib.compress),
)


@dataclass(frozen=True)
class Part:
    """A readable part of a state.

    Attributes:
        data: What it says.
        write: The whole state with other bytes in its place.
    """

    data: bytes
    write: Callable[[bytes], str]


def parts(state: str) -> list[Part]:
    """Return all readable parts of a state: whole, by segments, decoded again and again."""
    return [part for segment in _segments(state) for part in _decoded(segment, 0)]


def _segments(state: str) -> Iterator[Part]:
    yield Part(state.encode("utf-8", "surrogatepass"), lambda data: data.decode("utf-8", "replace"))
    for separator in f"{_SEPARATORS}-_,":
        pieces = state.split(separator)
        if not 2 <= len(pieces) <= 8:
            continue
        for place, piece in enumerate(pieces):

            def write(
                data: bytes,
                place: int = place,
                pieces: list[str] = pieces,
                separator: str = separator,
            ) -> str:
                text = data.decode("utf-8", "replace")
                return separator.join([*pieces[:place], text, *pieces[place + 1 :]])

            if piece:
                yield Part(piece.encode("utf-8", "surrogatepass"), write)


_DIGESTS = {16: "md5", 20: "sha1", 28: "sha224", 32: "sha256", 48: "sha384", 64: "sha512"}
"""Hash functions by the length of their digests, in bytes."""


def _decoded(reading: Part, depth: int) -> Iterator[Part]:
    yield reading
    for inner in _inside(reading, depth):
        yield from _decoded(inner, depth + 1)


def _inside(reading: Part, depth: int) -> Iterator[Part]:
    """Yield the parts that one step of decoding finds."""
    if depth >= MAX_DEPTH or len(reading.data) < 4:
        return
    if depth > 0:
        yield from _beside_signatures(reading)
    for encoding in ENCODINGS:
        try:
            inner = encoding.undo(reading.data)
        except (ValueError, binascii.Error):
            continue
        if not inner:
            continue

        def write(data: bytes, encoding: Encoding = encoding) -> str:
            return reading.write(encoding.redo(data))

        yield Part(inner, write)


def _beside_signatures(reading: Part) -> Iterator[Part]:
    """Yield the readable part before or behind bytes that may be a signature."""
    for length in _DIGESTS:
        for head, body, tail in (
            (reading.data[:length], reading.data[length:], b""),
            (b"", reading.data[:-length], reading.data[-length:]),
        ):
            if len(body) < 4 or (head or tail).isascii() or not _is_readable(body):
                continue

            def write(data: bytes, head: bytes = head, tail: bytes = tail) -> str:
                return reading.write(head + data + tail)

            yield Part(body, write)


def _is_readable(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        return bool(_inflated(data))
    except ValueError:
        return False


@lru_cache(64)  # a state often comes in several responses of a run
def readings(state: str) -> tuple[str, ...]:
    """Return every text that a client finds in a state."""
    texts: dict[str, None] = {}
    found: dict[bytes, None] = {}
    level = {part.data: part for part in _segments(state)}
    for depth in range(MAX_DEPTH + 1):
        found |= dict.fromkeys(level)
        level = {inner.data: inner for part in level.values() for inner in _inside(part, depth)}
    for data in found:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        texts[text] = None
        for inner in _json_strings(text):
            texts[inner] = None
    return tuple(texts)


def _json_strings(text: str) -> Iterator[str]:
    if text.lstrip()[:1] not in '{["':
        return
    try:
        value = _json(text)
    except ValueError:
        return
    yield from _strings(value, 0)


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if depth < MAX_DEPTH and value[:1] in ("{", "["):
            yield from _json_strings(value)
    elif isinstance(value, dict):
        for each in cast("dict[str, Any]", value).values():
            yield from _strings(each, depth + 1)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _strings(each, depth + 1)


@lru_cache(1024)
def spelling(state: str) -> str:
    """Return a normal form: two spellings of the same state have the same.

    They may differ in base64's alphabet and padding, in white space, or in letters and digits that
    Unicode calls compatible.
    """
    plain = "".join(unicodedata.normalize("NFKC", state).split())
    plain = plain.replace("=", "").replace("+", "-").replace("/", "_")
    return _BASE64.sub(lambda found: _without_spare_bits(found[0]), plain)


_BASE64 = re.compile(r"[A-Za-z0-9_-]{16,}")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _without_spare_bits(text: str) -> str:
    """Set the bits of base64's last letter that carry no data to zero. Hex has no such bits."""
    spare = {2: 16, 3: 4}.get(len(text) % 4, 1)
    if spare == 1 or re.fullmatch("[0-9a-f]+", text):
        return text
    last = _ALPHABET.index(text[-1])
    return text[:-1] + _ALPHABET[last - last % spare]


# --- forging ------------------------------------------------------------------------------------

_SEPARATORS = ".:|~#$;!"
"""Separators between the parts of a state. No part that is base64 contains one."""

_KNOWN_KEYS = b"", b"secret", b"key", b"changeme"

MAX_FORGERIES = 350
"""The most states that are forged from one."""

_SWAPS = (
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

_MADE_UP = (
    "",
    "0",
    "1",
    "null",
    "{}",
    "[]",
    "not a state",
    "\u00e9\u2603",
    "../../etc/passwd",
    "Springfield, Missouri",
    '{"place": "Springfield, Missouri"}',
    base64.urlsafe_b64encode(b'{"place": "Springfield, Missouri"}').decode(),
    "A" * (20 * 1024),
)


def forgeries(state: str, others: Sequence[str]) -> list[tuple[str, str]]:
    """Return forged states, each with a description, made of a state and others.

    States that the client was given are left out, unless a client could guess them.
    """
    found: dict[str, str] = {}
    given = {spelling(each) for each in (state, *others)}
    for attack in (
        _signed_again,
        _heads_signed,
        _readable,
        _tokens,
        _signatures,
        _spliced,
        _damaged,
        _guessed,
        _flipped,
    ):
        for name, forged in attack(state, others):
            if spelling(forged) not in given or (attack is _guessed and forged != state):
                found.setdefault(forged, name)
    made_up = [(f"made up: {text[:40]!r}", text) for text in _MADE_UP]
    made_up += _foreign(state)
    made_up += [
        ("white space around it", f" {state}\n"),
        ("its end in full width", state[:-10] + in_full_width(state[-10:])),
    ]
    made_up += [
        (f"17000 times {mark!r} behind it", state + 17_000 * mark) for mark in (" ", "=", "A")
    ]
    kept = [(name, forged) for forged, name in found.items()][: MAX_FORGERIES - len(made_up)]
    names: dict[str, int] = {}
    numbered: list[tuple[str, str]] = []
    for name, forged in [*kept, *made_up]:
        number = names.get(name, 0) + 1
        names[name] = number
        numbered.append((name if number == 1 else f"{name} ({number})", forged))
    return numbered


def edited(state: str | None, edit: StateEdit | None) -> str | None:
    """Apply an edit to a state. Return it unchanged if there is no state or no edit."""
    if state is None or edit is None:
        return state
    middle = len(state) // 2
    forged = ".".join(map(_in_another_place, state.split(".")))
    letter = "A" if state[middle : middle + 1] not in ("A", "a") else "B"
    changed = state[:middle] + letter + state[middle + 1 :]
    edits: dict[StateEdit, str | None] = {
        "drop": None,
        "changed": changed,
        "cut short": state[:-8],
        "not a state": "not a state",
        "too long": state + "A" * (4 * MAX_TOKEN_BYTES),  # and a body that a server reads
        "another place": forged if forged != state else changed,
    }
    return edits[edit]


def edited_key(key: str, edit: KeyEdit) -> str:
    """Return another key that a careless server may take for this one.

    A key that the edit leaves as it is gets an underscore: it has no letters, for example.
    """
    edits: dict[KeyEdit, str] = {
        "in capitals": key.upper(),
        "in other case": key.swapcase(),
        "a space before it": f" {key}",
        "a space behind it": f"{key} ",
        "with a prefix": f"the-{key}",
        "cut short": key[:-1],
        "in full width": in_full_width(key),
        "an underscore behind it": f"{key}_",
        "behind a slash": f"old/{key}",
        "behind a dot": f"old.{key}",
        "before a dot": f"{key}.old",
        "with an index": f"{key}[0]",
    }
    changed = edits[edit]
    return changed if changed != key else f"{key}_"


def spread(made: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return `most` of the forged states, at equal distances; the last one always."""
    if len(made) <= most:
        return list(made)
    distance = len(made) / most
    return [made[int((number + 1) * distance) - 1] for number in range(most)]


def _in_another_place(part: str) -> str:
    """Put another place into a part of a token; return it unchanged if it has none in base64."""
    try:
        payload = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return part
    forged = base64.urlsafe_b64encode(payload.replace(b"Illinois", b"Missouri")).decode()
    return part if b"Illinois" not in payload else forged[: len(part)]


def in_full_width(text: str) -> str:
    """Return a text in full-width letters, which Unicode calls compatible."""
    return text.translate({ordinal: ordinal + 0xFEE0 for ordinal in range(ord("!"), ord("~") + 1)})


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
    for separator in _SEPARATORS:
        head, found, _ = forged.rpartition(separator)
        if found:
            yield f"{head}{separator}{quoted}"
        _, found, tail = forged.partition(separator)
        if found:
            yield f"{quoted}{separator}{tail}"


def _with_field(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a text in place of each field that may be a signature."""
    for part, fields in _objects(forged):
        for name, value in fields.items():
            if isinstance(value, str) and _QUOTED.fullmatch(value):
                changed = _as_written(part.data, {**fields, name: quoted})
                yield part.write(changed.encode())


def _with_signature(forged: str, quoted: str) -> Iterator[str]:
    """Yield a state with a decoded text in place of its signature, if the lengths are the same."""
    for text, length, join in _signed(forged):
        for encoding in ENCODINGS[:-1]:
            with suppress(ValueError):
                signature = encoding.undo(quoted.encode())
                if len(signature) == length:
                    yield join(text, signature)


def _readable(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Change what can be read, and write it back."""
    for part in parts(state):
        for old, new in _SWAPS:
            if old in part.data:
                yield (
                    f"{new.decode()!r} written for {old.decode()!r}",
                    part.write(part.data.replace(old, new)),
                )
    for part in parts(state):
        try:
            value = _json(part.data)
        except ValueError:
            yield from _numbers(part)
            continue
        if isinstance(value, dict | list):
            for name, changed in _changed(value):
                yield name, part.write(_as_written(part.data, changed).encode())


def _as_written(text: str | bytes, changed: Any) -> str:
    """Write another JSON value as this one is written, with or without spaces.

    A server may compare texts.
    """
    spaced = json.dumps(_json(text))
    is_spaced = text in (spaced, spaced.encode())
    return json.dumps(changed, separators=None if is_spaced else (",", ":"))


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
    """Yield a text that is JSON with one thing changed in it; any other text replaced."""
    if value[:1] not in ("{", "["):
        yield f"{path} replaced", "Springfield, Missouri" if "," in value else "mallory"
        return
    with suppress(ValueError):
        for name, changed in _changed(_json(value), path):
            yield name, _as_written(value, changed)


def _tokens(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield JSON web tokens that say they are not signed."""
    pieces = state.split(".")
    if len(pieces) != 3:
        return
    try:
        header: Any = _json(_from_base64(pieces[0].encode(), b"-_"))
    except ValueError:
        return
    if not isinstance(header, dict) or "alg" not in header:
        return
    payloads = [pieces[1]]
    for change in ("made larger", "written for"):
        for name, forged in _readable(state, others):
            if change in name and forged.count(".") == 2:
                payloads.append(forged.split(".")[1])
    for algorithm in ("none", "None"):
        text = json.dumps({**cast("dict[str, Any]", header), "alg": algorithm}).encode()
        first = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
        for payload in payloads:
            yield f"alg {algorithm}", f"{first}.{payload}."
            yield f"alg {algorithm}, the signature kept", f"{first}.{payload}.{pieces[2]}"


def _signatures(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Leave the signature off, empty it, cut it short or move it; also beside a changed payload."""
    changed = [forged for name, forged in _readable(state, others) if "written for" in name][:2]
    for separator in _SEPARATORS:
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


def _spliced(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Put parts of one state beside parts of another, a signature for example."""
    for separator in _SEPARATORS:
        pieces = state.split(separator)
        for other in others[-4:]:
            theirs = other.split(separator)
            if 2 <= len(pieces) == len(theirs) <= 6:
                for name, mixed in _mixed(pieces, theirs):
                    yield name, separator.join(mixed)
    for other in others[-4:]:
        for (_, mine), (part, theirs) in zip(_objects(state), _objects(other), strict=False):
            for key in sorted(mine.keys() & theirs.keys()):
                mixed = _as_written(part.data, {**theirs, key: mine[key]}).encode()
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


def _objects(state: str) -> Iterator[tuple[Part, dict[str, Any]]]:
    """Yield the readable JSON objects of a state."""
    for part in parts(state):
        with suppress(ValueError):
            if isinstance(value := _json(part.data), dict):
                yield part, cast("dict[str, Any]", value)


def _signed_again(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sign a changed state without a key, or with a key that everybody knows."""
    for text, length, join in _signed(state):
        for name, changed in islice(_readable(text, others), 2):
            # As it is written, and the first part that it decodes to.
            for part in parts(changed)[:2]:
                for how, signature in _signatures_of(part.data, length):
                    yield f"{name}, signed {how}", join(changed, signature)


MAX_HEADS = 8
"""The most heads that are made of one state."""

MAX_MESSAGES = 4
"""The most parts of a state that are tried as the signed text."""


def _heads_signed(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
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
    for part, fields in _objects(text):
        for key, value in fields.items():
            if isinstance(value, str):
                changed = _as_written(part.data, {**fields, key: "unknown"})
                yield f"{key} made 'unknown'", part.write(changed.encode())
    for separator in _SEPARATORS:
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
        for separator in filter(text.__contains__, _SEPARATORS)
        for piece in text.split(separator)
        if len(piece) > MAX_KEY_NAME
    ]
    found = [text.encode()]
    for piece in pieces or [text]:
        part = Part(piece.encode(), bytes.decode)
        found += [inner.data for inner in _inside(part, 0)][:1]
    found += [piece.encode() for piece in pieces]
    return list(dict.fromkeys(found))


def _foreign(state: str) -> list[tuple[str, str]]:
    """Return states in well-formed formats that this server does not use.

    Each stands alone, and in place of a readable part of the state.
    """
    found: list[tuple[str, str]] = []
    for name, payload in PAYLOADS.items():
        found.append((f"{name} in base64", base64.urlsafe_b64encode(payload).decode()))
        if payload.isascii():
            found.append((name, payload.decode()))
        for part in parts(state)[1:MAX_PLACES]:
            forged = part.write(payload)
            if len(forged) <= MAX_TOKEN_BYTES:
                found.append((f"{name} in place of a part", forged))
    return found


MAX_PLACES = 4
"""The most parts of a state that are replaced by a foreign payload."""


def _signatures_of(message: bytes, length: int) -> Iterator[tuple[str, bytes]]:
    yield "not at all", b""
    yield "without a key", hashlib.new(_DIGESTS[length], message).digest()
    for key in _KNOWN_KEYS:
        yield f"with the key {key.decode()!r}", hmac.digest(key, message, _DIGESTS[length])


def _signed(state: str) -> Iterator[tuple[str, int, Callable[[str, bytes], str]]]:
    """Yield a text that may be signed, the length of its signature, and how to join the two."""
    for separator in filter(state.__contains__, _SEPARATORS):
        body, _, last = state.rpartition(separator)
        first, _, rest = state.partition(separator)
        for text, signature, is_last in ((body, last, True), (rest, first, False)):
            if (encoding := _encoding_of(signature)) is not None:
                length = len(encoding.undo(signature.encode()))
                join = partial(_join, separator=separator, encoding=encoding, is_last=is_last)
                yield text, length, join
    for part in parts(state)[1:]:
        for length in _DIGESTS:
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
            if len(encoding.undo(signature.encode())) in _DIGESTS:
                return encoding
    return None


def _damaged(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Cut a state short, or change one character, never the last one."""
    yield "cut short by 8", state[:-8]
    yield "its first half", state[: len(state) // 2]
    places = [int(len(state) * share) for share in (0.03, 0.25, 0.5, 0.75)]
    for place in (*places, len(state) - 6):  # in each part of it, and near the end of a signature
        if 0 <= place < len(state) - 1:
            letter = "A" if state[place] not in "Aa" else "B"
            yield f"character {place} changed", state[:place] + letter + state[place + 1 :]


def _flipped(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Turn one place into another by flipping bits, wherever its name may be in hidden bytes.

    A state that is hidden and not signed can be changed by anyone who knows its content.
    """
    mask = bytes(one ^ other for one, other in zip(*_SWAPS[0], strict=True))
    hidden = [part for part in parts(state) if not part.data.isascii() and len(part.data) <= 200]
    for part in hidden[:1]:
        for start in range(len(part.data) - len(mask) + 1):
            flipped = bytes(
                byte ^ mask[place - start] if 0 <= place - start < len(mask) else byte
                for place, byte in enumerate(part.data)
            )
            yield (
                f"{_SWAPS[0][1].decode()!r} for {_SWAPS[0][0].decode()!r} from byte {start + 1} on",
                part.write(flipped),
            )


def _guessed(state: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the neighbours of a state that ends in a number."""
    found = re.search(r"\d{1,9}$", state)
    if found is not None and len(state) < 40:
        for step in (*range(1, 10), *range(-9, 0)):
            number = str(max(0, int(found[0]) + step)).zfill(len(found[0]))
            yield f"a number {'higher' if step > 0 else 'lower'}", state[: found.start()] + number
