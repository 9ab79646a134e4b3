"""`make mutants`: try whether the review catches broken options.

Knows the mutants and the terminal.
"""

import sys
from collections.abc import Sequence

import anyio

from mrtr_options.terminal import Parser, plural, run
from tests.mutants.mutation import all_mutants, caught, mutant_named


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code, 1 if a mutant escapes."""
    parser = Parser(
        prog="python -m tests.mutants",
        description="Tries broken options on the review, and says what catches each.",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="all without")
    parser.add_argument("--show", metavar="MUTANT", help="instead: print its file, for check")
    args = parser.parse_args(argv)
    if args.show is not None:
        print(mutant_named(args.show).source, end="")
        return 0
    mutants = [mutant_named(name) for name in args.names] or all_mutants()
    escaped = 0
    print(plural(len(mutants), "mutant"), flush=True)
    for mutant in mutants:
        by = anyio.run(caught, mutant)
        if by is None:
            escaped += 1
        print(f"{mutant.name}  {by or f'ESCAPES: {mutant.title}'}", flush=True)
    print(f"{escaped} escaped" if escaped else "all caught")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(run(main))
