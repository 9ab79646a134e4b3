"""The command line: `python -m mrtr_options.conformance` runs the suite against everything there is.

Exit code: 0 as expected, 1 an unexpected complaint of the suite, 2 bad input or a suite that cannot be
installed, 130 after Ctrl-C. Imports the SDK only when it has something to run.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

import anyio
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mrtr_options.conformance.scenarios import CLIENT, MRTR, MRTR_PREFIX, SHARED, SUITE, TASKS
from mrtr_options.show.terminal import Parser, console, refuse
from mrtr_options.show.terminal import run as run_command

if TYPE_CHECKING:
    from mrtr_options.conformance.columns import Column
    from mrtr_options.conformance.suite import Outcome

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.conformance",
        description=f"The official conformance suite {SUITE} against every style, the server that all"
        " share, and our client. Without arguments: all of it, kept in docs/conformance.json.",
        allow_abbrev=False,
    )
    parser.add_argument("--style", metavar="LETTERS", help="as in EJ; everything without it")
    parser.add_argument("--scenario", metavar="NAME", help="one scenario of the suite")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    return run_command(lambda: _conformance(args))


def _conformance(args: argparse.Namespace) -> int:
    from mrtr_options.conformance.suite import ROOT, CannotInstall, install, installed

    scenario = None if args.scenario is None else _scenario(args.scenario)
    columns = _columns(args.style, scenario)
    if not (ROOT / "docs").is_dir():
        refuse("the conformance suite is installed and run in a clone of the repository; this is none")
    if not installed():
        try:
            with console(stderr=True).status(f"installing the conformance suite {SUITE}"):
                anyio.run(_interruptible, install)
        except CannotInstall as error:
            refuse(str(error))
    return _run(columns, scenario, keep=args.style is None and scenario is None, as_json=args.json)


async def _interruptible(work: Callable[[], Awaitable[T]]) -> T:
    """Do it; cancel it where this process is told to end, so that npm and servers end before it does.

    Raises:
        KeyboardInterrupt: This process was told to end.
    """
    failed: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await anext(signals)
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                return await work()
            except Exception as error:  # a task group would wrap it
                failed = error
            finally:
                group.cancel_scope.cancel()
    raise failed or KeyboardInterrupt


def _scenario(name: str) -> str:
    known = (*MRTR, *TASKS, *SHARED, *CLIENT)
    found = [candidate for candidate in (name, MRTR_PREFIX + name) if candidate in known]
    if not found:
        names = [*known, *(each.removeprefix(MRTR_PREFIX) for each in MRTR)]
        near = get_close_matches(name, names, n=3) or known
        refuse(f"there is no scenario {name!r}; there are {', '.join(near)}")
    return found[0]


def _columns(letters: str | None, scenario: str | None) -> list[Column]:
    """What to test: the styles with these letters, or everything; what the scenario is for."""
    from mrtr_options.conformance.columns import all_columns

    columns = all_columns()
    if letters is not None:
        by_letter = {column.name: column for column in columns if len(column.name) == 1}
        for letter in letters.upper():
            if letter not in by_letter:
                refuse(f"there is no style {letter!r}; there are {', '.join(by_letter)}")
        columns = [by_letter[letter] for letter in dict.fromkeys(letters.upper())]
    chosen = [column for column in columns if scenario is None or scenario in column.scenarios]
    if not chosen:
        refuse(f"{scenario!r} is for none of {letters or 'them'}; leave out --style or --scenario")
    return chosen


def _run(columns: Sequence[Column], scenario: str | None, *, keep: bool, as_json: bool) -> int:
    from mrtr_options.conformance import report
    from mrtr_options.conformance.run import run, unexpected

    total = sum(1 if scenario else len(column.scenarios) for column in columns)
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("conformance", total=total)

        def tell(outcome: Outcome) -> None:
            what = f"{outcome.column} {report.short(outcome.scenario)}: {outcome.status}"
            progress.update(task, advance=1, description=what)

        scenarios = None if scenario is None else [scenario]
        outcomes = anyio.run(_interruptible, lambda: run(columns, scenarios, tell))

    wrong = unexpected(outcomes)
    if keep:
        report.write(report.results_of(outcomes))
    out = console()
    if as_json:
        print(json.dumps(report.as_json(outcomes, wrong), indent=2))
        return 1 if wrong else 0
    for table in report.tables(outcomes):
        out.print(table)
    for line in report.remarks(outcomes):
        out.print(line)
    for line in wrong:
        out.print(f"UNEXPECTED {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
