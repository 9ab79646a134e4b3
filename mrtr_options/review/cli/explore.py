"""Try every combination of faults: what goes wrong, and the fewest faults that cause it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mrtr_options.review.cli._shared import (
    CLIENTS,
    CLIENTS_SAY,
    DESTINATIONS,
    IN_WRAPPERS,
    MOST_FAULTS,
    TOO_MANY_FAULTS,
    add_extent,
    add_form,
    add_setup,
    asked_kinds,
    call_of,
    find_subjects,
    form_of,
    print_left_out,
)
from mrtr_options.terminal import refuse

if TYPE_CHECKING:
    from mrtr_options.review.bench.subjects import Subject
    from mrtr_options.review.explore.workers import Called
    from mrtr_options.tool.weather import Destination


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subjects, the client, and the number of faults."""
    parser.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help=f"as in: explore E F F+guard (default: all); {IN_WRAPPERS}",
    )
    parser.add_argument(
        "--faults",
        type=int,
        default=1,
        metavar="N",
        help="at most N faults at a time (default 1; try 2); options K and L: 1 unless they are"
        " named",
    )
    parser.add_argument(
        "--client",
        dest="policy",
        choices=(*CLIENTS, "all"),
        default="all",
        help=f"when a response is lost: {CLIENTS_SAY} (default: all)",
    )
    add_setup(parser, "all")
    add_extent(parser)
    parser.add_argument(
        "--resume", metavar="FILE", help="save results in FILE, and go on from there"
    )
    add_form(parser, markdown=True)


def run(args: argparse.Namespace) -> int:
    """Make every run, and print the results. Return 1 if a run breaks a rule without an anomaly."""
    if not 0 <= args.faults <= MOST_FAULTS:
        refuse(TOO_MANY_FAULTS)

    from mrtr_options.review.bench.world.starting import context

    context("mrtr_options.review.explore.workers")  # it imports while this process does

    from mrtr_options.review.bench.subjects import explored_subjects
    from mrtr_options.review.bench.world import temporal
    from mrtr_options.review.explore.summary import print_unclassified, show
    from mrtr_options.review.explore.workers import explore_all
    from mrtr_options.review.show.progress import sharing
    from mrtr_options.tool.notation import list_in_text

    if not args.subjects:
        print_left_out()
        if args.era == "modern" and not temporal.installed():
            print(f"left out: K and L on Temporal ({temporal.MISSING})", file=sys.stderr)
    chosen = find_subjects(args.subjects) if args.subjects else explored_subjects(args.era)
    calls = _calls_to_explore(args, chosen)
    fewer = sorted({called.name for (called, _), most in calls.items() if most < args.faults})
    if fewer:
        where = list_in_text(fewer)
        print(f"left out: more than one fault at a time on {where}; name them", file=sys.stderr)
    with sharing(calls, quiet=args.json) as on_share:
        done = explore_all(calls, Path(args.resume) if args.resume else None, on_share)
    show(done, form_of(args))
    return print_unclassified(done)


def _calls_to_explore(args: argparse.Namespace, chosen: Sequence[Subject]) -> dict[Called, int]:
    """Return the calls to explore, with the most faults of each."""
    policies = [each for name, each in CLIENTS.items() if args.policy in (name, "all")]
    destinations: list[Destination] = [
        each for name, each in DESTINATIONS.items() if args.destination in (name, "all")
    ]
    calls: dict[Called, int] = {}
    for subject in chosen:
        is_quick = subject.option.extra is None
        bound = args.faults if args.subjects or is_quick else min(args.faults, 1)
        for destination in destinations:
            for policy in policies:
                call = call_of(args, policy, destination)
                calls[subject, replace(call, also=asked_kinds(args.also))] = bound
    return calls
