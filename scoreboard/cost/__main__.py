"""`python -m scoreboard.cost` measures everything in minutes, prints it and keeps each part.

The figures are in docs/data/cost.json, from which `python -m documents --kept` writes the
documents' tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Literal

import anyio
from rich.table import Table

from mrtr_options.review.bench.deployments import quiet_servers
from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.review.show.progress import progress
from mrtr_options.terminal import Parser, console, run
from scoreboard.cost.bounds import measure_bounds, steps
from scoreboard.cost.measure import NOTHING, PARTS, measure
from scoreboard.cost.report import (
    BOUNDS_HEAD,
    ENGINES_HEAD,
    FILE,
    HEAD,
    Bound,
    Report,
    bounds_table,
    engines_notes,
    engines_table,
    notes,
    table,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.cost",
        description="What each option costs, as ratios to the same tool by hand.",
        allow_abbrev=False,
    )
    measured_alone = parser.add_mutually_exclusive_group()
    measured_alone.add_argument(
        "--only",
        action="append",
        metavar="PART",
        choices=PARTS,
        help=f"measure only this part again ({', '.join(PARTS)}; may be given again)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    measured_alone.add_argument(
        "--bounds", action="store_true", help="measure only what has a bound (two minutes)"
    )
    args = parser.parse_args(argv)
    if args.bounds:
        with quiet_servers(), progress(quiet=args.json) as bar:
            bounds = anyio.run(
                measure_bounds, partial(bar.advance, bar.add_task("bounds", total=steps()))
            )
        print_bounds(bounds, as_json=args.json)
        is_over = any(each.found.median > each.at_most for each in bounds)
        return 1 if is_over else 0
    if args.only and not FILE.exists():
        parser.error(f"--only renews {FILE.name}, which is not there: measure everything first")
    file = KeptFile(FILE, Report)
    report = file.read(NOTHING)
    with quiet_servers(), progress(quiet=args.json) as bar:
        for measured in measure(bar, args.only or PARTS, report):
            report = measured
            if keeps(report):
                file.write(report)
    if args.json:
        print(report.model_dump_json(indent=1))
    else:
        print_tables(report)
    for line in report.left_out:
        print(f"not measured: {line}", file=sys.stderr)
    if keeps(report):
        print(f"kept in {FILE.parent.name}/{FILE.name}", file=sys.stderr)
    return 0


def keeps(report: Report) -> bool:
    """Say whether a report is kept: it is whole, and this is a checkout."""
    return FILE.parent.is_dir() and not report.left_out


def print_bounds(bounds: Sequence[Bound], *, as_json: bool) -> None:
    """Print a row for each bound, or one JSON array."""
    if as_json:
        print(json.dumps([each.model_dump() for each in bounds], indent=1))
        return
    console().print(_table(BOUNDS_HEAD, bounds_table(bounds), "left"))


def print_tables(report: Report) -> None:
    """Print the tables for a terminal of 100 columns, and under each its notes."""
    out = console()
    shown = [(HEAD, table(report), notes(report))]
    if report.rounds:
        shown.append((ENGINES_HEAD, engines_table(report), engines_notes(report)))
    for head, rows, said in shown:
        out.print(_table(head, rows, "right"), *said, sep="\n")


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], figures: Literal["left", "right"]
) -> Table:
    """Return a table for the terminal, its columns with a heading on one side."""
    made = Table(box=None, padding=(0, 1, 0, 0))
    for heading in head:
        made.add_column(heading, justify=figures if heading else "left")
    for row in rows:
        made.add_row(*row)
    return made


if __name__ == "__main__":
    sys.exit(run(main))
