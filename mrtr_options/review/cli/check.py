"""Review an option, a Python file, a module or a running server."""

from __future__ import annotations

import argparse
import math
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from mrtr_options.review.cli._shared import (
    MOST_FAULTS,
    TOO_MANY_FAULTS,
    add_extent,
    add_form,
    asked_kinds,
    parse_slugs,
    write_new,
)
from mrtr_options.terminal import PROGRAM, console, refuse

if TYPE_CHECKING:
    from mrtr_options.review.check.breaches import Breach
    from mrtr_options.review.check.report import Report
    from mrtr_options.review.check.targets import Extent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, and the options for how thoroughly it is reviewed."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="an option, a Python file, a module, or a URL (URL,URL: instances of one server)",
    )
    parser.add_argument("--init", metavar="FILE", help="write a file that passes, to start from")
    parser.add_argument(
        "--ledger", metavar="FILE", help="the SQLite file with a running server's effects"
    )
    parser.add_argument(
        "--all", action="store_true", help="print every run, not only what was found"
    )
    parser.add_argument(
        "--only", metavar="SCHEDULES", help="only these schedules: names with commas"
    )
    parser.add_argument(
        "--drawn", type=int, default=40, metavar="N", help="random runs (default 40)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the random runs (default 0)"
    )
    parser.add_argument(
        "--faults",
        type=int,
        metavar="N",
        help="look for risks under up to N faults at a time (default 1; 0: do not look)",
    )
    add_extent(parser)
    parser.add_argument("--html", metavar="FILE", help="also write a report with pictures to FILE")
    parser.add_argument(
        "--hang-seconds",
        type=float,
        default=15.0,
        metavar="N",
        help="how long a request may take (default 15)",
    )
    add_form(parser)


def _write_skeleton(path: Path) -> int:
    skeleton = files("mrtr_options.review.check") / "skeleton.py"  # docs/CONTRACT.md shows it
    write_new(path, skeleton.read_text(encoding="utf-8"), "check --init my_option.py")
    console().print(f"{path} is written; next: {PROGRAM} check {path}")
    return 0


def run(args: argparse.Namespace) -> int:
    """Review it, and print the report. Return 1 if anything is broken."""
    import_module("mrtr_options.review.bench.world.clock")  # refuses if the extra is not installed
    if (args.target is None) == (args.init is None):
        refuse(
            "check takes one target, as in: check my_option.py; or --init my_option.py to begin one"
        )
    if args.init is not None:
        return _write_skeleton(Path(args.init))
    html = None if args.html is None else Path(args.html)
    if html is not None and (html.suffix != ".html" or not html.parent.is_dir() or html.is_dir()):
        refuse(f"cannot write {html}: name a file with the suffix .html in a folder that is there")
    if args.ledger is not None and "://" not in args.target:
        refuse("--ledger goes with a URL; a file is run by check, which counts its effects itself")
    is_asked = args.also or args.words != "same"
    if is_asked and args.target and "://" in args.target:
        refuse("--also and --words go with a file; leave them out for a running server")
    if args.drawn < 0:
        refuse("--drawn takes a number of runs, as in: check my_option.py --drawn 400")
    if args.faults is not None and not 0 <= args.faults <= MOST_FAULTS:
        refuse(TOO_MANY_FAULTS)
    if not 0 < args.hang_seconds < math.inf:
        refuse(
            "--hang-seconds takes a number of seconds over 0, as in: check mine.py"
            " --hang-seconds 60"
        )
    from mrtr_options.review.bench.schedules import SCHEDULES
    from mrtr_options.review.check.cases import systematic

    only = parse_slugs(args.only, [*SCHEDULES, *(each.name for each in systematic())])

    from mrtr_options.review.check.targets import Extent
    from mrtr_options.review.show.verdict import show

    also = asked_kinds(args.also)
    extent = Extent(args.drawn, args.seed, args.hang_seconds, args.faults, only, also, args.words)
    report = _review(args, extent)
    show(report, everything=args.all, as_json=args.json)
    if html is not None:
        _write_page(report, html)
    return 0 if report.holds else 1


def _review(args: argparse.Namespace, extent: Extent) -> Report:
    import anyio
    from rich.text import Text

    from mrtr_options.review.check.review import Listeners
    from mrtr_options.review.check.targets import check_target
    from mrtr_options.review.show.progress import progress, stepping

    with progress(quiet=args.json) as bar:
        own = bar.add_task(f"runs of {args.target}", total=None)
        others = bar.add_task("the options, to compare with", total=None)
        step = stepping(bar, own)

        def on_begin(name: str, of: int) -> None:
            bar.update(own, total=of)
            step(name)

        def on_breach(breach: Breach) -> None:
            scenario = breach.history.scenario
            where = f"{scenario.name}, {scenario.setup.era}"
            bar.console.print(Text(f"found: breaks {breach.rule} ({where})", "bold red"))

        listeners = Listeners(on_begin, stepping(bar, others), on_breach)
        return anyio.run(check_target, args.target, args.ledger, extent, listeners)


def _write_page(report: Report, path: Path) -> None:
    from mrtr_options.review.show.html import write_page

    try:
        path.write_text(write_page(report), encoding="utf-8")
    except OSError as error:
        refuse(f"cannot write {path}: {error.strerror}")
