"""The smallest inputs that once did harm, played on the package as it is installed.

    python -m tests.smallest_inputs            # all of them, a few minutes
    python -m tests.smallest_inputs 1 5 --json

Each line: the point, what was tried, what happened, and whether the promise is kept. The exit code
is 1 where one is broken. Each is played in a process of its own, for a bounded time.

To play them on an older package, copy this file and `tests/smallest` into a checkout of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

from tests.smallest import calls, effects, wire
from tests.smallest.shared import INPUTS, Input, Seen

PARTS = (effects, calls, wire)
"""The modules whose inputs are played; each registers them when it is imported."""
SECONDS = 60.0
"""How long one may take; it ends what hangs."""
WIDTH = 100


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    point: int
    claim: str
    tried: str
    happened: str
    verdict: str


def play(each: Input) -> Seen:
    """Play an input in this process, in an empty folder."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return anyio.run(each.play, Path(folder))


def line_of(each: Input) -> Line:
    """Play an input in a process of its own, and say what happened."""
    command = [sys.executable, "-m", "tests.smallest_inputs", "--alone", each.name]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MRTR_")}
    try:
        ran = subprocess.run(
            command, env=inherited, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _line(each, Seen(f"did not end in {SECONDS:.0f} s", is_kept=False))
    if ran.returncode == 0:
        return _line(each, Seen(**json.loads(ran.stdout.splitlines()[-1])))
    reason = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
    return _line(each, Seen(f"cannot be played: {reason}", is_kept=False))


def _line(each: Input, seen: Seen) -> Line:
    verdicts = {True: "kept", False: "broken", None: "not there"}
    return Line(each.point, each.name, each.tried, seen.happened, verdicts[seen.is_kept])


def table_of(lines: Sequence[Line]) -> Table:
    """Return the lines as a table."""
    table = Table(box=None, pad_edge=False, width=WIDTH)
    table.add_column("", justify="right", width=2)
    table.add_column("tried", ratio=1)
    table.add_column("happened", ratio=1)
    table.add_column("", width=9)
    for line in lines:
        table.add_row(f"{line.point}", line.tried, line.happened, line.verdict)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Play inputs, and print what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.smallest_inputs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("points", nargs="*", type=int, metavar="POINT", help="1 to 21; all of them")
    parser.add_argument("--json", action="store_true", help="print the lines as JSON")
    parser.add_argument("--alone", metavar="CLAIM", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.alone:
        (only,) = (each for each in INPUTS if each.name == given.alone)
        print(json.dumps(vars(play(only))))
        return 0
    points = sorted({each.point for each in INPUTS})
    chosen = [each for point in given.points or points for each in INPUTS if each.point == point]
    if not chosen:
        parser.error(f"no such point; there are {points[0]} to {points[-1]}")
    lines = [line_of(each) for each in chosen]
    if given.json:
        print(json.dumps([vars(line) for line in lines], indent=2))
    else:
        Console(width=WIDTH, highlight=False, markup=False).print(table_of(lines))
    return int(any(line.verdict == "broken" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
