"""Verdicts of all searches, as they are kept: `python -m model --json`."""

import json
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from model.actions import Action
from model.check import MOST, MOST_WITH_EXTRAS, Cell, cells, check, with_extras
from model.digest import GraphDigest, of_code
from model.extras import NONE, Extras
from model.reading import NAMES

PROCESSES = 2


class Task(NamedTuple):
    """A search: a cell, and what else may happen."""

    cell: Cell
    extras: Extras

    @property
    def name(self) -> str:
        """The words of the cell and its extras."""
        return " / ".join((*self.cell, *sorted(self.extras)))


class Verdict(NamedTuple):
    """What a search found. `anomalies` has each shortest counterexample, `graph` a digest."""

    task: Task
    states: int
    transitions: int
    depth: int
    closed: bool
    anomalies: dict[str, list[Action]]
    graph: str
    seconds: float

    def as_json(self) -> dict[str, object]:
        """Return one JSON object, with the lengths of the counterexamples and without the time."""
        mechanism, client, destination = self.task.cell
        return {
            "mechanism": mechanism,
            "client": client,
            "destination": destination,
            "extra": " ".join(sorted(self.task.extras)),
            "states": self.states,
            "transitions": self.transitions,
            "depth": self.depth,
            "closed": self.closed,
            "anomalies": {name: len(how) for name, how in self.anomalies.items()},
            "graph": self.graph,
        }


def tasks() -> list[Task]:
    """Return every search."""
    return [*(Task(cell, NONE) for cell in cells()), *(Task(*each) for each in with_extras())]


def verdict_of(task: Task) -> Verdict:
    """Search all states of a task."""
    begun = time.perf_counter()
    most = MOST_WITH_EXTRAS if task.extras else MOST
    graph = GraphDigest()
    found = check(task.cell, most=most, leave_out=graph, extras=task.extras)
    seconds = time.perf_counter() - begun
    return Verdict(task, *found[:4], found.counterexamples, graph.hex, seconds)


def verdicts(chosen: Iterable[Task]) -> Iterable[Verdict]:
    """Yield the verdicts of some searches, in their order."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        yield from pool.map(verdict_of, chosen)


def as_text(found: Iterable[Verdict]) -> str:
    """Return the verdicts as JSON, a line for each, with a digest of the code and the anomalies."""
    lines = ",\n".join(json.dumps(each.as_json()) for each in found)
    names = json.dumps(NAMES)
    return f'{{"code": "{of_code()}", "names": {names}, "searches": [\n{lines}\n]}}\n'
