"""Check every cell and print the table: `python -m model [--paths] [PART OF A NAME]`."""

import sys
import time
from concurrent.futures import ProcessPoolExecutor

from model.check import Cell, cells, check
from model.search import Found
from model.world import World


def timed(cell: Cell) -> tuple[Cell, Found[World], float]:
    """Check a cell and say how long it took."""
    begun = time.perf_counter()
    return cell, check(cell), time.perf_counter() - begun


def main(words: list[str]) -> None:
    """Print one line a cell, and the shortest counterexamples with `--paths`."""
    paths = "--paths" in words
    parts = [each for each in words if each != "--paths"]
    chosen = [cell for cell in cells() if all(part in " / ".join(cell) for part in parts)]
    print("mechanism / client / destination: states, transitions, depth, seconds: verdict")
    with ProcessPoolExecutor(2) as pool:
        for cell, found, seconds in pool.map(timed, chosen):
            shown = [f"{name} ({len(how)})" for name, how in found.counterexamples.items()]
            verdict = ", ".join(shown) or "none"
            rest = "all others never" if found.closed else f"bound of {found.states} states"
            size = f"{found.states}, {found.transitions}, {found.depth}, {seconds:.1f}"
            print(f"{' / '.join(cell)}: {size}: {verdict}; {rest}", flush=True)
            for name, how in found.counterexamples.items() if paths else ():
                print(f"  {name}:", *how, sep="\n    ")


if __name__ == "__main__":
    main(sys.argv[1:])
