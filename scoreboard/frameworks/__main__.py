"""The second half of `make scoreboard`: builds the frameworks, plays the cases, keeps the results.

The results are in docs/data/scoreboard.json under "frameworks", from which
docs/results/SCOREBOARD.md is made. A
framework whose sources are unchanged since its results were kept is left out, so the command goes
on where it was interrupted. Exit code: 0, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, console, refuse, run
from scoreboard import chosen
from scoreboard.board import Scoreboard, changed, keep, not_built, play, read, show
from scoreboard.frameworks import page
from scoreboard.frameworks.cases import CASES, cases_for
from scoreboard.frameworks.first import first
from scoreboard.frameworks.frameworks import Framework, Variant, frameworks
from scoreboard.frameworks.play import FrameworkReview, review
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
    known = frameworks()
    board = read()
    if args.case is not None and not args.only:
        refuse("--case goes with --only")
    if args.keep and args.case is None:
        refuse("--keep goes with --case; without it, every result is kept")
    if args.json and args.case is not None:
        refuse("--json goes without --case, whose runs are printed as text")
    every = changed(known, board.frameworks)
    wanted = every if args.only is None else chosen(args.only, known, "framework")
    if args.case is not None:
        by_name = {case.name: case for case in CASES}
        cases = [case.name for case in chosen(args.case, by_name, "case")]
        return _some_cases(wanted, cases, keeps=args.keep)
    with counting("frameworks", None, quiet=args.json) as begin:
        for framework in wanted:
            kept = play(framework, board.frameworks.get(framework.name), begin, review)
            # Keep each result at once: a run is long.
            board = keep(Scoreboard(frameworks={framework.name: kept}))
    if args.json:
        names = [each.name for each in wanted] or [*known]
        kept = {name: board.frameworks[name] for name in names if name in board.frameworks}
        print(Scoreboard(frameworks=kept).model_dump_json(indent=1))
        return 0
    show(first(board), wanted, not_built(known, board.frameworks))
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
                    _keep_cases(framework, variant, found)
    return 0


def _keep_cases(framework: Framework, variant: Variant, found: FrameworkReview) -> None:
    """Add the results of some cases of a variant to its kept results.

    The kept digest stays that of the last whole review.
    """
    kept = read().frameworks[framework.name]
    before = kept.variants.setdefault(variant.name, found)
    every = before.cases | found.cases
    names = [case.name for case in cases_for(variant.carries) if case.name in every]
    before.cases = {name: every[name] for name in names}
    before.lines = found.lines
    keep(Scoreboard(frameworks={framework.name: kept}))


if __name__ == "__main__":
    sys.exit(run(main))
