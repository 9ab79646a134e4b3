"""The guarantees of an option, as data: the model of `guarantees.toml` and its reader.

The demo, the tests and the review hold what they see against it. Knows no other part.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrtr_options.errors import UsageError

Survivable = Literal["failover", "restart"]
Delivery = Literal[
    "lost-first",
    "lost-interim",
    "lost-final",
    "duplicate-interim",
    "duplicate-final",
    "concurrent-final",
]
"""The schedules of the review in which a response is lost or a request arrives twice."""

EVERY_DELIVERY: tuple[Delivery, ...] = get_args(Delivery)

Counts = Annotated[str, Field(pattern=r"^\d+/\d+$")]
_ARRAY = Field(strict=False)  # an array of TOML becomes a tuple
Deliveries = Annotated[tuple[Delivery, ...], _ARRAY]
Names = Annotated[tuple[str, ...], _ARRAY]


class CannotLoad(UsageError):
    """A file is not an option that can be run, or its guarantees cannot be read.

    The text is one line that says what to do, or names the file, the option and the key.
    """


class Guarantees(BaseModel):
    """The guarantees of one option.

    The first four say how often each effect happens in one clean call ("audit/bill").

    Attributes:
        modern_tokyo: One question (units).
        modern_springfield: Two questions, the second depends on the first (place, units).
        legacy_tokyo: As modern, or with the units assumed where an old client cannot be asked.
        legacy_springfield: As modern, or an error that tells the caller to name the place.
        asks_legacy: Whether an old client is asked.
        reexecution: Whether the author's code runs again after a question. Its source may show it
            by guards ("visible"). If not, the code may be safe because guards or keys stand around
            what must not happen twice ("hidden"), or nothing does ("unsafe").
        survives: What a modern call survives between two rounds: another instance, a restart. With
            neither, the call lives in the server's memory.
        audit_once: The deliveries under which the effect above the questions happens once.
        bill_once: The deliveries under which the effect below the questions happens once.
        readable: Whether the client can read the state.
        writes: What the author writes, in the few words of a table's cell.
        does: What the SDK does, in the few words of a table's cell.
        task: Whether a client that takes tasks is given one.
        departs: The rules of the contract that the option does not keep, by their names in the
            review. The review must see each of them broken.
        shown_in: The wrappers that tables show the option in, as in "guard+call-key".
        keyed_effects: Whether every effect has an idempotency key, so that a round may run again
            where the destination honours keys.
        needs: The extra of this package without which the file does not import.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    modern_tokyo: Counts
    modern_springfield: Counts
    legacy_tokyo: Counts
    legacy_springfield: Counts
    asks_legacy: bool
    reexecution: Literal["never", "visible", "hidden", "unsafe"]
    survives: Annotated[tuple[Survivable, ...], _ARRAY]
    audit_once: Deliveries
    bill_once: Deliveries
    readable: bool
    writes: str = ""
    does: str = ""
    task: bool = False
    departs: Names = ()
    shown_in: Names = ()
    keyed_effects: bool = False
    needs: str | None = None


def guarantees_of(path: Path) -> Guarantees:
    """Return the guarantees of one option, which stand at the top level of a file.

    Raises:
        CannotLoad: The file is not TOML, or a key is missing, unknown, or has a wrong value.
    """
    return _checked(path, read_toml(path))


def guarantees_by_letter(path: Path) -> dict[str, Guarantees]:
    """Return the guarantees of several options from a file with one table for each.

    Raises:
        CannotLoad: As `guarantees_of`.
    """
    return _by_letter(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _by_letter(path: Path, _changed: int) -> dict[str, Guarantees]:
    return {
        letter: _checked(path, table, f"[{letter}]") for letter, table in read_toml(path).items()
    }


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file has.

    Raises:
        CannotLoad: The file cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CannotLoad(f"{path}: {error}") from error


def _checked(path: Path, table: object, option: str = "") -> Guarantees:
    try:
        return Guarantees.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = [option, ".".join(str(part) for part in first["loc"])]
        message = f"{path}: {' '.join(filter(None, where))}: {first['msg']}"
        raise CannotLoad(message) from error
