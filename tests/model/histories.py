"""Every history that `explore` makes, followed through the model.

`python -m tests.model.histories [PART OF A NAME]` prints a line for each mechanism, client and
destination: its histories, those that the model accepts, those that are left out by reason, and
seconds; and each difference with the model's steps before it. The runs are the explorer's own: the
same subjects, clients, faults and bound.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from model.check import Cell
from model.destination import KINDS
from mrtr_options.review.bench.faults import Fault, Faults
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.setup import POLICIES
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.explore.combinations import possible
from mrtr_options.review.explore.counterexamples import histories
from mrtr_options.review.explore.workers import options_of
from mrtr_options.tool.weather import Destination
from tests.model import subjects
from tests.model.accepting import follow
from tests.model.comparing import left_out

SUBJECTS = subjects.SUBJECTS | {"guard, named by argument (J)": "J+guard+named"}
"""The subjects whose histories are followed, by the model's mechanism."""
DESTINATIONS: dict[str, Destination] = dict(
    zip(KINDS, ("ignores keys", "honours keys", "business key"), strict=True)
)
BOUND = 2
"""The explorer's usual bound."""
SEED = 50
WIDTH = 150
"""The most characters of a difference in a line."""


class Sample(NamedTuple):
    """A sample of the faults with which sets of faults begin."""

    size: int
    seed: int


@dataclass
class Followed:
    """The result of following the histories of a cell.

    Attributes:
        histories: The number of histories.
        accepted: The number of those that are paths of the model.
        left_out: The number of those that the model cannot follow, by the reason.
        known: The number of those whose verdict differs as is known, by the reason.
        refused: A line for each of the others: its faults, and the difference.
        paths: The model's steps before each difference.
        running, following: Seconds that the runs and the checker took.
    """

    histories: int = 0
    accepted: int = 0
    left_out: Counter[str] = field(default_factory=Counter[str])
    known: Counter[str] = field(default_factory=Counter[str])
    refused: list[str] = field(default_factory=list[str])
    paths: list[list[str]] = field(default_factory=list[list[str]])
    running: float = 0.0
    following: float = 0.0

    def take(self, cell: Cell, history: History) -> None:
        """Follow one history."""
        begun = time.perf_counter()
        self.histories += 1
        why = left_out(history)
        if why:
            self.left_out[why] += 1
            return
        found = follow(cell, history)
        if found.is_accepted:
            self.accepted += 1
        elif found.known:
            self.known[found.known] += 1
        else:
            self.refused.append(f"{history.scenario.name}: {found.event or found.differs}")
            self.paths.append(found.path)
        self.following += time.perf_counter() - begun


def bound_of(subject: Subject) -> int:
    """Return how many faults at a time the documents' exploration of a subject has."""
    is_race = subject.keyed and subject.option.extra is not None
    return 1 if is_race else BOUND


async def drawn(subject: Subject, scenario: Scenario, sample: Sample) -> list[Fault]:
    """Return some of the faults that can happen in a call, drawn with a seed."""
    every = [
        fault
        async for history in histories(subject, scenario, 0)
        for fault in possible(subject, history)
    ]
    return random.Random(sample.seed).sample(sorted(every), min(sample.size, len(every)))


def follow_cell(
    cell: Cell,
    bound: int | None = None,
    *,
    first: Collection[Fault] | Sample | None = None,
    made: dict[Faults, History] | None = None,
) -> Followed:
    """Follow the explorer's histories of a cell.

    Args:
        cell: The cell.
        bound: The most faults at a time; None for as many as the documents' exploration has.
        first: The faults with which the sets begin, or how to draw them; None for all.
        made: See `histories`.
    """
    subject = subject_named(SUBJECTS[cell.mechanism])
    policy = POLICIES[[*POLICIES].index(cell.policy)]
    scenario = calling(policy=policy, destination=DESTINATIONS[cell.destination])
    most = bound_of(subject) if bound is None else bound
    found = Followed()

    async def all_histories() -> None:
        some = await drawn(subject, scenario, first) if isinstance(first, Sample) else first
        async for history in histories(subject, scenario, most, first=some, made=made):
            found.take(cell, history)

    begun = time.perf_counter()
    anyio.run(all_histories, backend_options=options_of(subject))
    found.running = time.perf_counter() - begun - found.following
    return found


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.model.histories",
        description="Follow explore's histories in the model.",
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help="a part of 'mechanism / client / destination', such as 'guard (F)' or 'honours'",
    )
    parser.add_argument(
        "--bound", type=int, choices=(0, 1, 2), help="the most faults at a time (as `explore`)"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="follow the sets that begin with one of N faults, which are drawn",
    )
    return parser.parse_args()


def main() -> None:
    """Print a line for each cell, and the differences below it."""
    asked = arguments()
    sample = Sample(asked.sample, SEED) if asked.sample else None
    print(
        "mechanism / client / destination: histories, accepted, left out, seconds (runs, checker)"
    )
    for mechanism in SUBJECTS:
        for destination in DESTINATIONS:
            made: dict[Faults, History] = {}
            for policy in POLICIES:
                cell = Cell(mechanism, policy, destination)
                name = " / ".join(cell)
                if all(part in name for part in asked.parts):
                    show(name, follow_cell(cell, asked.bound, first=sample, made=made))


def show(name: str, found: Followed) -> None:
    """Print the results of a cell."""
    left = sum(found.left_out.values())
    seconds = f"{found.running:.0f}, {found.following:.0f}"
    print(f"{name}: {found.histories}, {found.accepted}, {left}, {seconds}", flush=True)
    for why, number in found.left_out.items():
        print(f"  left out {number}: {why}")
    for why, number in found.known.items():
        print(f"  known difference {number}: {why}")
    for line, path in zip(found.refused, found.paths, strict=True):
        print(f"  {line[:WIDTH]}")
        print(*path, sep="\n    ")


if __name__ == "__main__":
    main()
