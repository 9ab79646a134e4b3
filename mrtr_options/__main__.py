"""The command line: finds the commands in `review.cli`. `python -m mrtr_options` is the tour."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import getdoc

from mrtr_options.review import cli
from mrtr_options.terminal import PROGRAM, Parser, refuse, run


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit code.

    Bad input ends the program with code 2 and one line.

    Args:
        argv: The arguments; None for those of this process.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    return run(lambda: _run(given))


def _run(given: Sequence[str]) -> int:
    _refuse_empty(given)
    args, unknown = _parser(given).parse_known_args(given)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.json and not args.prints_json:
        refuse(f"{args.parser.prog.split()[-1]} prints no JSON; leave out --json")
    return args.run(args)


def _parser(given: Sequence[str]) -> Parser:
    """Return the parser of the program: with the named command, or with every command."""
    parser = Parser(
        prog=PROGRAM,
        description="Without a command: a call, the same with its report lost, and all bills.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_tour, parser=parser, prints_json=True)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    found = [module.name for module in pkgutil.iter_modules(cli.__path__)]
    names = [name for name in found if not name.startswith("_")]
    first = next((each for each in given if not each.startswith("-")), "")
    for name in [first] if first in names else names:
        command = import_module(f"{cli.__name__}.{name}")
        purpose = getdoc(command)
        own = commands.add_parser(name, help=purpose, description=purpose, allow_abbrev=False)
        own.set_defaults(prints_json=False)
        command.add_arguments(own)
        own.set_defaults(run=command.run, parser=own)
    return parser


def _refuse_empty(arguments: Sequence[str]) -> None:
    """End the program if an argument is an empty string, and say which."""
    for place, argument in enumerate(arguments):
        if argument:
            continue
        before = arguments[place - 1] if place else ""
        what = before if before.startswith("-") else "an argument"
        refuse(f"{what} is empty; give it a value, or leave it out")


def _tour(args: argparse.Namespace) -> int:
    from mrtr_options.demo.tour import tour
    from mrtr_options.review.cli._shared import print_left_out

    print_left_out()
    return tour(as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
