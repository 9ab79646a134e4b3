"""`make mutants`: broken options; does the review catch them?

Knows the mutants and the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import anyio

from mrtr_options.show.terminal import Parser, plural, refuse, run
from tests.mutants import drawn
from tests.mutants.mutation import all_mutants, caught, mutant_named


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code, 1 if a mutant escapes."""
    parser = Parser(
        prog="python -m tests.mutants",
        description="Tries broken options on the review, and says what catches each.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "names", nargs="*", metavar="MUTANT", help="all without; with --draw, parts of file names"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--show", metavar="MUTANT", help="instead: print its file, for check")
    instead.add_argument(
        "--draw", type=int, metavar="N", help="instead: N slips in options and stand-ins"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what --draw draws (default 1)")
    args = parser.parse_args(argv)
    if args.show is not None:
        print(mutant_named(args.show).source, end="")
        return 0
    return _try(args.names) if args.draw is None else _draw(args.names, args.draw, args.seed)


def _try(names: Sequence[str]) -> int:
    mutants = [mutant_named(name) for name in names] or all_mutants()
    escaped = 0
    print(plural(len(mutants), "mutant"), flush=True)
    for mutant in mutants:
        by = anyio.run(caught, mutant)
        escaped += by is None
        print(f"{mutant.name}  {by or f'ESCAPES: {mutant.title}'}", flush=True)
    print(f"{escaped} escaped" if escaped else "all caught")
    return 1 if escaped else 0


def _draw(names: Sequence[str], size: int, seed: int) -> int:
    """Print what kills each change that is drawn; what survives needs a look, and is no failure."""
    wanted = [file for file in drawn.FILES if not names or any(name in str(file) for name in names)]
    if not wanted or size < 1:
        refuse("--draw takes a number from 1, and parts of file names, as in: --draw 4 sdk/once")
    chosen = drawn.sample(wanted, size, seed)
    print(plural(len(chosen), "slip"), flush=True)
    killed = 0
    for slip, by in drawn.tried(chosen):
        killed += by is not None
        print(f"killed by {by}  {slip}" if by else f"SURVIVES  {slip}", flush=True)
    print(f"{killed} of {len(chosen)} killed (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
