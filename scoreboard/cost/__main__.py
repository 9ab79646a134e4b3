"""`python -m scoreboard.cost`: measure everything (minutes), print it, keep it in docs/cost.json and the
documents' tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mrtr_options.bench.deployments import quiet_servers
from mrtr_options.show.terminal import Parser, console, run
from scoreboard.cost.measure import measure
from scoreboard.cost.report import FILE, HEAD, Report, notes, table, write


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = Parser(
        prog="python -m scoreboard.cost",
        description="What each option costs, as ratios to the same tool by hand.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=console(stderr=True, quiet=args.json), transient=True)
    with quiet_servers(), bar:
        report = measure(bar)
    text = report.model_dump_json(indent=1)
    if args.json:
        print(text)
    else:
        print_table(report)
    for line in report.left_out:
        print(f"not measured: {line}", file=sys.stderr)
    if FILE.parent.is_dir() and not report.left_out:
        FILE.write_text(text + "\n", encoding="utf-8")
        write(report)
        print(f"kept in {FILE.parent.name}/{FILE.name}", file=sys.stderr)
    return 0


def print_table(report: Report) -> None:
    """The table for a terminal of 100 columns, and the notes under it."""
    out = console()
    made = Table(box=None, padding=(0, 1, 0, 0))
    for number, heading in enumerate(HEAD):
        made.add_column(heading, justify="right" if number else "left")
    for row in table(report):
        made.add_row(*row)
    out.print(made)
    for note in notes(report):
        out.print(note)


if __name__ == "__main__":
    sys.exit(run(main))
