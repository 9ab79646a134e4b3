"""Sets of faults in words: for a line, and for a table's cell."""

from __future__ import annotations

from mrtr_options.review.bench.driver import rounds_of
from mrtr_options.review.bench.faults import Fault, Faults

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
