"""List the names of faults and schedules, and what they mean."""

from __future__ import annotations

import argparse

from mrtr_options.review.cli._shared import add_form, find_subjects, refuse_if_played
from mrtr_options.terminal import refuse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subjects on which the schedules are played."""
    parser.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="with --run: what to call (default: E F H F+guard K)",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        dest="play",
        help="play each schedule, and name what goes wrong",
    )
    add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Print the faults and the schedules."""
    if args.subjects and not args.play:
        refuse_if_played(args.subjects[0])
        refuse(f"subjects are played with --run, as in: schedules --run {' '.join(args.subjects)}")

    import anyio

    from mrtr_options.review.bench.schedules import SCHEDULES
    from mrtr_options.review.explore.counterexamples import Lists, play_schedules
    from mrtr_options.review.show.listing import show
    from mrtr_options.review.show.progress import counting
    from mrtr_options.tool.catalogue import all_options

    played = ["E", "F", "H", "F+guard", *("K" for letter in all_options() if letter == "K")]
    chosen = find_subjects(args.subjects or played) if args.play else []
    shown: Lists = {}
    left_out: Lists = {}
    if chosen:
        with counting("schedules", len(SCHEDULES), quiet=args.json) as begin:
            shown, left_out = anyio.run(play_schedules, chosen, begin)
    show(chosen, shown, left_out, as_json=args.json)
    return 0
