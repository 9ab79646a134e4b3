"""The text of a state: what a client can read of it, decoded again and again, and its spellings.

Of servers it knows nothing: a state is text. `Part.write` puts other bytes in the place of a part.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")

MAX_DEPTH = 4
"""The most encodings inside each other that are undone."""


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


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is none, or deeper than this process can read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("too deep") from error


def decode_base64(text: bytes, alphabet: bytes) -> bytes:
    if not text.isascii():
        raise ValueError("no base64")
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=alphabet, validate=True)


def _from_padded(text: bytes, alphabet: bytes) -> bytes:
    if len(text) % 4:
        raise ValueError("no padding")
    return decode_base64(text, alphabet)


def _from_base85(text: bytes, decode: Callable[[bytes], bytes]) -> bytes:
    if re.fullmatch(rb"[\w=+/.:~-]*", text):  # base64, which decodes to chance bytes
        raise ValueError("no base85")
    return decode(text)


def _from_ascii85(text: bytes) -> bytes:
    if not re.fullmatch(rb"[!-uz\s]*", text):  # the decoder finds that out byte by byte
        raise ValueError("no Ascii85")
    return _from_base85(text, base64.a85decode)


def _inflated(data: bytes) -> bytes:
    # RFC 1950: the check bits of its header; RFC 1952: its magic number.
    if int.from_bytes(data[:2]) % 31 and data[:2] != b"\x1f\x8b":
        raise ValueError("neither zlib nor gzip")
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, 1 << 20)
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
        lambda text: decode_base64(text, b"-_"),
        lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
    ),
    Encoding("base32", lambda text: base64.b32decode(text, casefold=True), base64.b32encode),
    Encoding("base85", lambda text: _from_base85(text, base64.b85decode), base64.b85encode),
    Encoding("Ascii85", _from_ascii85, base64.a85encode),
    Encoding("zlib", _inflated, zlib.compress),
)


@dataclass(frozen=True)
class Part:
    """A readable part of a state.

    Attributes:
        data: The bytes that it says.
        write: The whole state with other bytes in its place.
    """

    data: bytes
    write: Callable[[bytes], str]

    def write_json(self, value: Any) -> str:
        """Return the state with another JSON value in place of this one, written alike."""
        return self.write(json_written_like(self.data, value).encode())


@lru_cache(16)  # a state is taken apart for each way to change it
def parts(state: str) -> tuple[Part, ...]:
    """Return all readable parts of a state: whole, by segments, decoded again and again."""
    return tuple(part for segment in _segments(state) for part in _decoded(segment, 0))


def put_in(pieces: Sequence[T], place: int, *new: T) -> list[T]:
    """Return pieces with others in one place, or with none there."""
    return [*pieces[:place], *new, *pieces[place + 1 :]]


def _segments(state: str) -> Iterator[Part]:
    yield Part(state.encode("utf-8", "surrogatepass"), lambda data: data.decode("utf-8", "replace"))
    for separator in f"{SEPARATORS}-_, /":
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
                return separator.join(put_in(pieces, place, text))

            if piece:
                yield Part(piece.encode("utf-8", "surrogatepass"), write)


DIGESTS = {16: "md5", 20: "sha1", 28: "sha224", 32: "sha256", 48: "sha384", 64: "sha512"}
"""Hash functions by the length of their digests, in bytes."""


def _decoded(reading: Part, depth: int) -> Iterator[Part]:
    yield reading
    for inner in decoded_once(reading, depth):
        yield from _decoded(inner, depth + 1)


def decoded_once(reading: Part, depth: int) -> Iterator[Part]:
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
    for length in DIGESTS:
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
        level = {
            inner.data: inner for part in level.values() for inner in decoded_once(part, depth)
        }
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
        value = read_json(text)
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


SEPARATORS = ".:|~#$;!"
"""Separators between the parts of a state. No part that is base64 contains one."""


def json_written_like(text: str | bytes, changed: Any) -> str:
    """Write another JSON value as this one is written, with or without spaces.

    A server may compare texts.
    """
    spaced = json.dumps(read_json(text))
    is_spaced = text in (spaced, spaced.encode())
    return json.dumps(changed, separators=None if is_spaced else (",", ":"))


def objects_in(state: str) -> Iterator[tuple[Part, dict[str, Any]]]:
    """Yield the readable JSON objects of a state."""
    for part in parts(state):
        with suppress(ValueError):
            value = read_json(part.data)
            if isinstance(value, dict):
                yield part, cast("dict[str, Any]", value)
