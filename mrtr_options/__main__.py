"""The command line: finds the commands in `cli`. `python -m mrtr_options` alone is the tour."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import getdoc

from mrtr_options.review import cli
from mrtr_options.terminal import PROGRAM, Parser, refuse, run


def _tour(args: argparse.Namespace) -> int:
    from mrtr_options.demo.tour import tour
    from mrtr_options.review.cli._shared import name_left_out

    name_left_out()
    return tour(as_json=args.json)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Bad input ends the program with code 2 and one line.

    Args:
        argv: The arguments; None for those of this process.
    """
    parser = Parser(
        prog=PROGRAM,
        description="Without a command: a call, the same with a lost response, and all options' bills.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_tour, parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for found in pkgutil.iter_modules(cli.__path__):
        if found.name.startswith("_"):
            continue
        command = import_module(f"{cli.__name__}.{found.name}")
        says = getdoc(command)
        of_command = commands.add_parser(
            found.name, help=says, description=says, allow_abbrev=False
        )
        command.add_arguments(of_command)
        of_command.set_defaults(run=command.run, parser=of_command)
    given = sys.argv[1:] if argv is None else argv
    if (place := next((at for at, each in enumerate(given) if not each), None)) is not None:
        before = given[place - 1] if place and given[place - 1].startswith("-") else "an argument"
        refuse(f"{before} is empty; give it a value, or leave it out")
    args, more = parser.parse_known_args(given)
    if more:
        args.parser.error(f"unrecognized arguments: {' '.join(more)}")
    return run(lambda: args.run(args))


if __name__ == "__main__":
    sys.exit(main())
