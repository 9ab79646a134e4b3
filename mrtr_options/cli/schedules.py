"""What faults and schedules there are, by their names."""

from __future__ import annotations

import argparse

from mrtr_options.cli._shared import add_form, subjects


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """On what they are played."""
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help="what they are played on (E F H F¹ and tasks: K)"
    )
    add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Print them."""
    from mrtr_options.show.schedules import show
    from mrtr_options.tool.catalogue import all_options

    played = ["E", "F", "H", "F¹", *("K" for letter in all_options() if letter == "K")]
    return show(subjects(args.subjects or played), as_json=args.json)
