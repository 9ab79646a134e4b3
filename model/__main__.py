"""Check every cell and print the table: `python -m model [--paths] [--json] [PART OF A NAME]`."""

import sys
import time

from model.kept import Verdict, as_text, tasks, verdicts
from mrtr_options.review.judge.anomalies import listed

OPTIONS = ("--paths", "--json")


def main(words: list[str]) -> None:
    """Print one line a cell, and the shortest counterexamples with `--paths`."""
    parts = [each for each in words if each not in OPTIONS]
    chosen = [task for task in tasks() if all(part in task.name for part in parts)]
    if "--json" in words:
        print(as_text(verdicts(chosen)), end="")
        return
    print("mechanism / client / destination / extra: states, transitions, depth, seconds: verdict")
    begun = time.perf_counter()
    for found in verdicts(chosen):
        print(line(found), flush=True)
        for name, how in found.anomalies.items() if "--paths" in words else ():
            print(f"  {name}:", *how, sep="\n    ")
    print(f"{len(chosen)} searches in {time.perf_counter() - begun:.0f} seconds")


def line(found: Verdict) -> str:
    """Return the line of a search."""
    shown = [f"{name} ({len(how)})" for name, how in found.anomalies.items()]
    verdict = listed(shown) or "none"
    rest = "all others never" if found.closed else f"bound of {found.states} states"
    size = f"{found.states}, {found.transitions}, {found.depth}, {found.seconds:.1f}"
    return f"{found.task.name}: {size}: {verdict}; {rest}"


if __name__ == "__main__":
    main(sys.argv[1:])
