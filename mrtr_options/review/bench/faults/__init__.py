"""What can go wrong: each kind of fault, and a fault as one kind at one request.

A kind is a function in the module of its family, with its sentence and its condition above it:
`before` a request, on its way (`delivery`), at an effect (`effects`), and `after` it.
`kinds` says what such a function gets. A new kind is one function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import ModuleType

from mrtr_options.errors import UsageError
from mrtr_options.names import by_name, nearest
from mrtr_options.review.bench.faults import after, before, delivery, effects
from mrtr_options.review.bench.faults.kinds import Kind, rounds_of


def _kinds_in(family: ModuleType) -> Iterator[Kind]:
    """Yield the kinds of a module, in the order in which they stand there."""
    for found in vars(family).values():
        match found:
            case Kind():
                yield found
            case (Kind() as at_audit, Kind() as at_bill):
                yield from (at_audit, at_bill)
            case _:
                pass


KINDS = by_name(chain.from_iterable(map(_kinds_in, (before, delivery, effects, after))), "faults")
"""Every kind by its name."""

PLAYABLE: dict[str, Kind] = {name: kind for name, kind in KINDS.items() if kind.tried != "script"}
"""The kinds that `play` takes."""

EXPLORED: dict[str, Kind] = {
    name: kind for name, kind in PLAYABLE.items() if kind.tried in ("explore", "alone")
}
"""The kinds that each exploration tries."""

ASKED: dict[str, Kind] = {name: kind for name, kind in KINDS.items() if kind.tried == "asked"}
"""The kinds that an exploration tries if it is asked to."""


# --- a fault ------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Fault:
    """One fault at one request.

    Attributes:
        round: The number of the round in its call, from 1. The round that answers a question has
            the same number in every run; one that answers a question of a later version comes last.
        attempt: The number of the client's attempt at that round, from 1. A client that calls again
            attempts round 1 again.
        name: The kind's name in `KINDS`.
    """

    round: int
    attempt: int
    name: str

    def __str__(self) -> str:
        name = f"{self.name}{self.round}"
        return name if self.attempt == 1 else f"{name}.{self.attempt}"

    @property
    def kind(self) -> Kind:
        """Return what the fault does, and when it can happen."""
        return KINDS[self.name]

    @property
    def says(self) -> str:
        """The fault in a sentence that names the round."""
        number = f"{self.round}"
        if self.attempt > 1:
            number = f"{self.round} (attempt {self.attempt})"
        said = self.kind.says
        for what in ("request", "response"):
            said = re.sub(rf"\bthe {what}\b(?! before)", f"{what} {number}", said, count=1)
        return said if said != self.kind.says else f"in round {number} {said}"


Faults = tuple[Fault, ...]


class NoFault(UsageError, ValueError):
    """An unknown fault. The text is one line that says what to write."""


def parse(text: str) -> Faults:
    """Return the faults of these names: "lost3", "restart2 crash@bill3"; none for an empty text.

    Raises:
        NoFault: A name is unknown.
    """
    found: list[Fault] = []
    for name in filter(None, re.split(r"[\s,|+]+", text)):
        match = re.fullmatch(r"([a-z@]+)([1-9]\d*)(?:\.([1-9]\d*))?", name)
        if match is None or match[1] not in PLAYABLE:
            raise NoFault(_no_fault(name))
        found.append(Fault(int(match[2]), int(match[3] or 1), match[1]))
    return tuple(sorted(set(found)))


def _no_fault(name: str) -> str:
    kind = re.split(r"\d", name)[0]
    text = (
        f"{name!r} is not a fault; write what goes wrong and the round, from 1, as in lost3,"
        " or lost3.2 for its second attempt"
    )
    if kind in PLAYABLE:
        return text
    near = nearest(kind, PLAYABLE) or f"there are {', '.join(PLAYABLE)}"
    return f"{text}; {near}"


def names_of(faults: Faults) -> str:
    """Return faults as `parse` takes them."""
    return " ".join(map(str, faults))


# --- in words -----------------------------------------------------------------------------------

COUNTS = {1: "one fault", 2: "two faults", 3: "three faults", 4: "four faults"}


def describe_faults(faults: Faults) -> str:
    """Return some faults as in "one fault: response 3 is lost (lost3)"; "every call" for none."""
    if not faults:
        return "every call"
    said = "; ".join(f"{each.says} ({each})" for each in faults)
    return f"{COUNTS.get(len(faults), f'{len(faults)} faults')}: {said}"


def in_words(faults: Faults, location: str = "Springfield") -> str:
    """Return some faults in the words of a table's cell: "result lost, state expired".

    No fault is "every call", since every call shows what follows from it. The last response to a
    location is called the result.
    """
    nth = {1: "1st", 2: "2nd", 3: "3rd"}

    def describe(fault: Fault) -> str:
        number = nth.get(fault.round, f"{fault.round}th")
        response = "result" if fault.round == rounds_of(location) else f"{number} response"
        return fault.kind.words.format(nth=number, response=response)

    return ", ".join(map(describe, faults)) or "every call"
