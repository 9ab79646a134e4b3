"""`python -m scoreboard.cost`: measure everything (minutes), print it, keep it in docs/cost.json
from which `python -m documents --kept` writes the documents' tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mrtr_options.review.bench.deployments import quiet_servers
from mrtr_options.terminal import Parser, console, run
from scoreboard.cost.measure import measure
from scoreboard.cost.report import (
    ENGINES_HEAD,
    FILE,
    HEAD,
    Report,
    engines_notes,
    engines_table,
    notes,
    table,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = Parser(
        prog="python -m scoreboard.cost",
        description="What each option costs, as ratios to the same tool by hand.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=console(stderr=True, quiet=args.json), transient=True)
    with quiet_servers(), bar:
        report = measure(bar)
    text = report.model_dump_json(indent=1)
    if args.json:
        print(text)
    else:
        print_tables(report)
    for line in report.left_out:
        print(f"not measured: {line}", file=sys.stderr)
    if FILE.parent.is_dir() and not report.left_out:
        FILE.write_text(text + "\n", encoding="utf-8")
        print(f"kept in {FILE.parent.name}/{FILE.name}", file=sys.stderr)
    return 0


def print_tables(report: Report) -> None:
    """The tables for a terminal of 100 columns, each with its notes under it."""
    out = console()
    shown = [(HEAD, table(report), notes(report))]
    if report.rounds:
        shown.append((ENGINES_HEAD, engines_table(report), engines_notes(report)))
    for head, rows, said in shown:
        made = Table(box=None, padding=(0, 1, 0, 0))
        for heading in head:
            made.add_column(heading, justify="right" if heading else "left")
        for row in rows:
            made.add_row(*row)
        out.print(made)
        for note in said:
            out.print(note)


if __name__ == "__main__":
    sys.exit(run(main))
