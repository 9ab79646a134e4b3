"""The second half of `make scoreboard`: builds the frameworks, plays the cases, keeps the results.

The results are in docs/data/scoreboard.json under "frameworks", from which
docs/results/SCOREBOARD.md is made. A
framework whose sources are unchanged since its results were kept is left out, so the command goes
on where it was interrupted. Exit code: 0, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, console, refuse
from mrtr_options.terminal import run as run_command
from scoreboard import chosen
from scoreboard.board import FILE, Scoreboard, changed, keep, play, read
from scoreboard.frameworks import page
from scoreboard.frameworks.cases import CASES, cases_for
from scoreboard.frameworks.first import first
from scoreboard.frameworks.frameworks import Framework, frameworks
from scoreboard.frameworks.page import reasons
from scoreboard.frameworks.play import FrameworkReview, review
from scoreboard.rows import printed
from scoreboard.servers.peers import build


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.frameworks",
        description="The weather tool in frameworks of others, in every case. Without arguments:"
        " those that have changed since they were kept. A first build takes minutes.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only", metavar="NAME,...", help="these folders of scoreboard/frameworks, changed or not"
    )
    parser.add_argument(
        "--case",
        metavar="NAME,...",
        help="play these alone, of those that --only names, and print them; nothing is kept",
    )
    parser.add_argument(
        "--keep", action="store_true", help="with --case: keep what comes of it, with its date"
    )
    parser.add_argument("--json", action="store_true", help="print what is kept of them")
    args = parser.parse_args(argv)
    return run_command(lambda: _frameworks(args))


def _frameworks(args: argparse.Namespace) -> int:
    known = frameworks()
    board = read()
    if args.case and not args.only:
        refuse("--case goes with --only")
    every = changed(known, board.frameworks)
    wanted = every if args.only is None else chosen(args.only, known, "framework")
    if args.case:
        by_name = {case.name: case for case in CASES}
        cases = [case.name for case in chosen(args.case, by_name, "case")]
        return _some_cases(wanted, cases, keeps=args.keep)
    with counting("frameworks", None, quiet=args.json) as begin:
        for framework in wanted:
            reviews = {
                each.name: partial(review, framework, each, begin) for each in framework.variants
            }
            kept = play(framework, board.frameworks.get(framework.name), begin, reviews)
            # Keep each result at once: a run is long.
            board = keep(Scoreboard(frameworks={framework.name: kept}))
    names = [each.name for each in wanted] or [*known]
    if args.json:
        kept = {name: board.frameworks[name] for name in names if name in board.frameworks}
        print(Scoreboard(frameworks=kept).model_dump_json(indent=1))
        return 0
    print(printed(each for each in first(board) if each.id.split("/")[1] in names))
    for line in reasons(board):
        print(line, file=sys.stderr)
    if not wanted:
        print(f"{FILE.name} has all of them; --only NAME plays one again", file=sys.stderr)
    return 0


def _some_cases(wanted: Sequence[Framework], cases: Sequence[str], *, keeps: bool) -> int:
    out = console()
    with counting("frameworks", None) as begin:
        for framework in wanted:
            build(framework, begin)
            for variant in framework.variants:
                found = anyio.run(review, framework, variant, begin, cases)
                for name, played in found.cases.items():
                    title = f"{page.name_of(framework, variant)}, {name}: {page.said(played)}"
                    out.print(title, style="bold")
                    out.print("\n".join(f"  {line}" for line in played.history))
                if keeps:
                    _keep_cases(framework, variant.name, found)
    return 0


def _keep_cases(framework: Framework, variant: str, found: FrameworkReview) -> None:
    """Add the results of some cases of a variant to its kept results.

    The kept digest stays that of the last whole review.
    """
    board = read()
    kept = board.frameworks[framework.name]
    before = kept.variants.get(variant, found)
    every = before.cases | found.cases
    carries = {each.name: each.carries for each in framework.variants}
    order = [case.name for case in cases_for(carries[variant]) if case.name in every]
    kept.variants[variant] = before.model_copy(
        update={"cases": {name: every[name] for name in order}, "lines": found.lines}
    )
    kept.variants = {name: kept.variants[name] for name in carries if name in kept.variants}
    keep(Scoreboard(frameworks={framework.name: kept}))


if __name__ == "__main__":
    sys.exit(main())
