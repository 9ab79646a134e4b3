"""Compare what the author writes in two options."""

from __future__ import annotations

import argparse

from mrtr_options.review.cli._shared import add_form
from mrtr_options.terminal import refuse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two options, or `--stat`."""
    parser.add_argument(
        "options",
        nargs="*",
        metavar="OPTION",
        help="as in: diff E F; diff F F+guard; diff --stat my_option.py",
    )
    parser.add_argument(
        "--stat",
        action="store_true",
        help="print line counts instead: of these options, or of all",
    )
    parser.add_argument(
        "--all", action="store_true", help="docstrings, comments and blank lines, too"
    )
    parser.add_argument(
        "--sdk",
        action="store_true",
        help="also what an SDK would have to ship for each; by itself where the handlers are the"
        " same",
    )
    parser.add_argument("--unified", action="store_true", help="one column on wide terminals, too")
    add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Print the diff or the counts."""
    if args.stat and (args.all or args.unified or args.sdk):
        refuse("diff --stat counts author code; leave out --all, --sdk and --unified")
    if not args.stat and len(args.options) != 2:
        refuse("diff takes two options, as in: diff E F; or --stat for all of them")

    from mrtr_options.demo.diff import How, print_diff, print_stat, written
    from mrtr_options.tool.catalogue import option_named, whole_deck

    if args.stat:
        named = [option_named(name) for name in args.options]
        print_stat(named or whole_deck().values(), as_json=args.json)
        return 0
    left, right = map(written, args.options)
    print_diff(left, right, How(args.all, args.sdk, args.unified, args.json))
    return 0
