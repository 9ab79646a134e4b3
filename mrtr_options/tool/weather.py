"""The weather tool's domain: places, questions, texts, effects and the ledger that counts them.

Of `sdk` it knows what a question is; how one reaches the user is up to whoever imports this module.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args

import anyio.to_thread
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from mrtr_options.errors import UsageError
from mrtr_options.files import replaced
from mrtr_options.sdk.questions import Question

# --- places -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """Today's weather of one place: temperature in whole degrees Celsius, and the sky."""

    celsius: int
    sky: str


REPORTS = {
    "Lisbon, Portugal": Report(24, "sunny"),
    "Nairobi, Kenya": Report(23, "light cloud"),
    "Portland, Maine": Report(14, "fog"),
    "Portland, Oregon": Report(16, "drizzle"),
    "Reykjavik, Iceland": Report(7, "windy"),
    "Springfield, Illinois": Report(22, "partly cloudy"),
    "Springfield, Massachusetts": Report(17, "rain"),
    "Springfield, Missouri": Report(26, "sunny"),
    "Tokyo, Japan": Report(19, "clear"),
}
"""Every place there is, by its label ("City, Region")."""


class UnknownPlace(Exception):
    """No place has this name. The text is for the caller of the tool."""


def in_one_form(location: str) -> str:
    """Return a location as the tool reads it, in whatever letters it is written."""
    return location.strip().casefold()


def places_named(location: str) -> tuple[str, ...]:
    """Return the labels that `location` may mean: a city or a full label, in any case.

    Raises:
        UnknownPlace: Nothing by that name.
    """
    wanted = in_one_form(location)
    labels = tuple(
        label for label in REPORTS if wanted in (label.casefold(), label.split(",")[0].casefold())
    )
    if not labels:
        raise UnknownPlace(f"Unknown location: {location!r}.")
    return labels


def only_place(location: str) -> str | None:
    """Return the label of the one place called `location`, or None if there are several.

    Raises:
        UnknownPlace: Nothing by that name.
    """
    labels = places_named(location)
    return labels[0] if len(labels) == 1 else None


# --- arguments and questions --------------------------------------------------------------------


class WeatherArguments(BaseModel):
    """What the tool is called with."""

    model_config = ConfigDict(extra="forbid", strict=True)

    location: Annotated[str, AfterValidator(in_one_form)] = Field(
        min_length=1,
        max_length=100,
        description='A city ("Tokyo") or a city and its region ("Springfield, Illinois").',
    )


class PlaceAnswer(BaseModel):
    """Answer to `which_place`: the label of the place that was meant."""

    place: str


class UnitsAnswer(BaseModel):
    """Answer to `which_units`."""

    units: Literal["metric", "imperial"]


class UnitsAssumed(UnitsAnswer):
    """Takes the place of an answer where the client cannot be asked; the report says so."""


_METRIC = UnitsAssumed(units="metric")

MUST_ASK = "This tool asks its user, and this client cannot be asked."
"""The refusal of a client that cannot be asked, where an option has nothing else for it."""


def _one_of(labels: tuple[str, ...]) -> Any:
    return Literal[labels]  # a choice that is known only at run time


@cache  # by labels, of which the table has a few; the spellings of a name are without number
def _place_of(labels: tuple[str, ...]) -> type[PlaceAnswer]:
    return create_model(
        "Place", __base__=PlaceAnswer, place=(_one_of(labels), Field(title="Place"))
    )


def which_place(location: str, *, unasked: Literal["error"] | None = None) -> Question[PlaceAnswer]:
    """Question "place": which of the places called `location` was meant?

    Args:
        location: The tool's argument.
        unasked: What a client that cannot be asked gets: an error that names the places. Without
            it such a client is refused.

    Raises:
        UnknownPlace: Nothing by that name.
    """
    labels = places_named(location)
    return Question(
        "place",
        f"Which {location.strip()}?",
        _place_of(labels),
        unasked=MUST_ASK if unasked is None else _name_one_of(location, labels),
    )


def _name_one_of(location: str, labels: tuple[str, ...]) -> str:
    return f"{location.strip()!r} is ambiguous. Call again with one of: {'; '.join(labels)}."


def which_units(place: str, *, unasked: Literal["metric"] | None = None) -> Question[UnitsAnswer]:
    """Question "units".

    Args:
        place: The label of the place that it is about.
        unasked: What a client that cannot be asked gets: a report in these units. Without it such
            a client is refused.
    """
    assumed = None if unasked is None else _METRIC
    return Question("units", f"Which units for {place}?", UnitsAnswer, assumed, MUST_ASK)


# --- texts --------------------------------------------------------------------------------------


def report(place: str, answer: UnitsAnswer) -> str:
    """Return the tool's result for the place with this label."""
    today = REPORTS[place]
    degrees = (
        f"{today.celsius} °C"
        if answer.units == "metric"
        else f"{round(today.celsius * 1.8 + 32)} °F"
    )
    note = (
        " (metric assumed: this client cannot be asked)" if isinstance(answer, UnitsAssumed) else ""
    )
    return f"{place}: {degrees}, {today.sky}.{note}"


def declined(key: str) -> str:
    """Return the tool's result when the user declined the question with this key."""
    return f"No lookup was made: the question {key!r} was declined."


def cancelled(key: str) -> str:
    """Return the tool's result when the user cancelled the question with this key."""
    return f"No lookup was made: the question {key!r} was cancelled."


# --- effects ------------------------------------------------------------------------------------

EffectKind = Literal["audit", "bill"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing done to the outside world.

    Attributes:
        kind: "audit" (a lookup was requested) or "bill" (the lookup is metered).
        subject: The location as requested (audit) or the place's label (bill).
        key: An idempotency key, the same on every attempt at the same effect, or None.

    What an effect is about, kind and subject, is its *business key* (also: natural key).
    """

    kind: EffectKind
    subject: str
    key: str | None = None


Destination = Literal["ignores keys", "honours keys", "business key"]
"""The answer of the outside world to an effect that it has seen.

It does each one again, as most of the world does. It absorbs one whose idempotency key it has
recorded. Or it absorbs one about the same thing, as a database does with a unique constraint on an
order's number.
"""

DESTINATIONS: tuple[Destination, ...] = get_args(Destination)


def identity_of(effect: Effect, destination: Destination) -> tuple[EffectKind, str] | None:
    """Return the identity of an effect at a destination; None if every effect counts as new."""
    if destination == "business key":
        return effect.kind, effect.subject
    if destination == "honours keys" and effect.key is not None:
        return effect.kind, effect.key
    return None


class LedgerUnusable(UsageError):
    """A ledger file cannot be used. The text is one line that names it and says what to do."""


class Ledger(Protocol):
    """The outside world. Counts every effect that reaches it.

    What it does with an effect that it has recorded is up to its `Destination`.
    """

    async def record(self, effect: Effect) -> None:
        """Do the effect (or absorb it)."""
        ...

    async def effects(self) -> tuple[Effect, ...]:
        """Return every effect that took place, oldest first."""
        ...


class MemoryLedger:
    """A ledger for one process."""

    def __init__(self, destination: Destination = "ignores keys") -> None:
        self._destination: Destination = destination
        self._effects: list[Effect] = []
        self._identities: set[tuple[EffectKind, str]] = set()

    async def record(self, effect: Effect) -> None:
        identity = identity_of(effect, self._destination)
        if identity is not None:
            if identity in self._identities:
                return
            self._identities.add(identity)
        self._effects.append(effect)

    async def effects(self) -> tuple[Effect, ...]:
        return tuple(self._effects)


COLUMNS: dict[Destination, str | None] = {
    "ignores keys": None,
    "honours keys": "key",
    "business key": "subject",
}
"""The column by which a destination knows an effect of a kind, in a ledger's table."""


class SqliteLedger:
    """A ledger in a SQLite file, for several processes at once.

    One table, `effects(seq, kind, subject, key, at)`; `at` is an ISO 8601 time in UTC.

    Args:
        path: The file; made if it is not there. Also an attribute.
        destination: Which effects it absorbs.

    A file that is deleted or replaced while the ledger is in use is refused: what is recorded in
    the new one would be unknown to whoever has the old one.

    Raises:
        LedgerUnusable: The file cannot be opened or is not a SQLite database. Also at any effect.
    """

    _TIMEOUT_SECONDS = 30.0

    def __init__(self, path: Path | str, destination: Destination = "ignores keys") -> None:
        self.path = Path(path)
        self._destination: Destination = destination
        self._file: os.stat_result | None = None
        if str(path) == ":memory:":
            raise LedgerUnusable("a ledger in SQLite is a file; for one process use none at all")
        with self._transaction() as db:
            db.execute("BEGIN IMMEDIATE")  # a file that cannot be written is found out here
            db.execute(
                "CREATE TABLE IF NOT EXISTS effects"
                " (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL,"
                " key TEXT, at TEXT NOT NULL)"
            )
        self._file = self.path.stat()

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Open a transaction on the file, which must be the one that was opened first."""
        if why := replaced(self.path, self._file):
            raise LedgerUnusable(why)
        try:
            with closing(sqlite3.connect(self.path, timeout=self._TIMEOUT_SECONDS)) as db, db:
                yield db
        except sqlite3.Error as error:
            raise LedgerUnusable(
                f"cannot use {self.path} as a ledger ({error}); name a writable SQLite file"
            ) from error

    async def record(self, effect: Effect) -> None:
        await anyio.to_thread.run_sync(partial(self._record, effect))

    def _record(self, effect: Effect) -> None:
        row = (effect.kind, effect.subject, effect.key, datetime.now(UTC).isoformat())
        identity = identity_of(effect, self._destination)
        insert = "INSERT INTO effects (kind, subject, key, at) SELECT ?, ?, ?, ?"
        column = COLUMNS[self._destination]
        with self._transaction() as db:
            if identity is None or column is None:
                db.execute(insert, row)
                return
            # One statement, so that two processes with the same key cannot both find it missing.
            seen = f"SELECT 1 FROM effects WHERE kind = ? AND {column} = ?"
            db.execute(f"{insert} WHERE NOT EXISTS ({seen})", (*row, *identity))

    async def effects(self) -> tuple[Effect, ...]:
        return await anyio.to_thread.run_sync(self._effects)

    def _effects(self) -> tuple[Effect, ...]:
        with self._transaction() as db:
            rows = db.execute("SELECT kind, subject, key FROM effects ORDER BY seq").fetchall()
        return tuple(Effect(*row) for row in rows)


@dataclass(frozen=True, slots=True)
class Desk:
    """The way of a tool to its effects. One per server, handed to the handler with the request."""

    ledger: Ledger

    async def audit(self, location: str, *, key: str | None = None) -> None:
        """Effect "audit": a lookup of `location` was requested."""
        await self.ledger.record(Effect("audit", location, key))

    async def bill(self, place: str, *, key: str | None = None) -> None:
        """Effect "bill": the lookup for the place with this label is metered."""
        await self.ledger.record(Effect("bill", place, key))


def count(effects: tuple[Effect, ...]) -> dict[EffectKind, int]:
    """Count the effects of each kind. A stranger's ledger may have more kinds."""
    counts: dict[EffectKind, int] = {"audit": 0, "bill": 0}
    for effect in effects:
        counts[effect.kind] = counts.get(effect.kind, 0) + 1
    return counts
