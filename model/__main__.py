"""Check every cell and print the table: `python -m model [--paths] [PART OF A NAME]`."""

import sys
import time
from concurrent.futures import ProcessPoolExecutor

from model.check import MOST, MOST_WITH_EXTRAS, Cell, cells, check, with_extras
from model.extras import NONE, Extras
from model.search import Found
from model.world import World

Task = tuple[Cell, Extras]


def timed(task: Task) -> tuple[Task, Found[World], float]:
    """Check a cell and say how long it took."""
    cell, extras = task
    begun = time.perf_counter()
    most = MOST_WITH_EXTRAS if extras else MOST
    return task, check(cell, most=most, extras=extras), time.perf_counter() - begun


def named(task: Task) -> str:
    """Return the words of a cell and its extras."""
    cell, extras = task
    return " / ".join((*cell, *sorted(extras)))


def main(words: list[str]) -> None:
    """Print one line a cell, and the shortest counterexamples with `--paths`."""
    paths = "--paths" in words
    parts = [each for each in words if each != "--paths"]
    tasks: list[Task] = [*((cell, NONE) for cell in cells()), *with_extras()]
    chosen = [task for task in tasks if all(part in named(task) for part in parts)]
    print("mechanism / client / destination / extra: states, transitions, depth, seconds: verdict")
    begun = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        for task, found, seconds in pool.map(timed, chosen):
            shown = [f"{name} ({len(how)})" for name, how in found.counterexamples.items()]
            verdict = ", ".join(shown) or "none"
            rest = "all others never" if found.closed else f"bound of {found.states} states"
            size = f"{found.states}, {found.transitions}, {found.depth}, {seconds:.1f}"
            print(f"{named(task)}: {size}: {verdict}; {rest}", flush=True)
            for name, how in found.counterexamples.items() if paths else ():
                print(f"  {name}:", *how, sep="\n    ")
    print(f"{len(chosen)} searches in {time.perf_counter() - begun:.0f} seconds")


if __name__ == "__main__":
    main(sys.argv[1:])
