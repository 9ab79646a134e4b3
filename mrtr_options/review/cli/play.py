"""Call options while chosen things go wrong, and print each round."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mrtr_options.review.cli._shared import (
    CLIENTS,
    CLIENTS_SAY,
    DESTINATIONS,
    IN_WRAPPERS,
    add_form,
    add_setup,
    add_words,
    call_of,
    find_subjects,
)
from mrtr_options.terminal import refuse

if TYPE_CHECKING:
    from mrtr_options.review.bench.faults import Faults
    from mrtr_options.review.bench.scenario import Scenario, Schedule
    from mrtr_options.review.bench.subjects import Subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subjects, and the faults."""
    parser.add_argument(
        "subjects",
        nargs="+",
        metavar="SUBJECT",
        help="one or more, and perhaps a schedule: play E F+guard --faults lost3; play E fork;"
        f" {IN_WRAPPERS}",
    )
    parser.add_argument(
        "--faults", metavar="FAULTS", help='what goes wrong, as in "lost3 restart2"'
    )
    parser.add_argument(
        "--client",
        choices=CLIENTS,
        help=f"when a response is lost: {CLIENTS_SAY} (default: stops)",
    )
    parser.add_argument(
        "--by-hand", action="store_true", help="answer, and break the call, yourself"
    )
    add_setup(parser)
    add_words(parser)
    add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Make the calls, and print them."""
    from mrtr_options.review.bench.faults import parse
    from mrtr_options.review.bench.schedules import SCHEDULES

    schedule = SCHEDULES.get(args.subjects[-1]) if len(args.subjects) > 1 else None
    names = args.subjects if schedule is None else args.subjects[:-1]
    for name in names:
        if name in SCHEDULES:
            refuse(f"{name} is a schedule; name one, after the options, as in: play E {name}")
    if schedule is not None:
        _refuse_any(args, "a schedule", "faults", "client", "destination", "location", "words")
        if args.fleet == "free":
            refuse("a schedule has its own fleet; leave out --fleet, or write --fleet one")
    faults = parse(args.faults or "")
    chosen = find_subjects(names, or_one_of=SCHEDULES)
    if args.by_hand:
        from mrtr_options.review.show.by_hand import play_by_hand

        if schedule is not None or faults or args.json or len(chosen) > 1:
            refuse("--by-hand takes one option, and no faults or schedule, as in: play F --by-hand")
        _refuse_any(args, "a call by hand", "client", "destination", "fleet", "words")
        return play_by_hand(chosen[0], args.era, args.location)
    if schedule is None:
        return _play_faults(args, chosen, faults)
    return _play_schedule(args, chosen, schedule)


def _refuse_any(args: argparse.Namespace, what: str, *names: str) -> None:
    """End the command if one of these options is given, which `what` does not use."""
    for name in names:
        if getattr(args, name) != args.parser.get_default(name):
            refuse(f"{what} has its own {name}; leave out --{name}")


def _play_faults(args: argparse.Namespace, chosen: list[Subject], faults: Faults) -> int:
    from mrtr_options.review.bench.situations import refuse_impossible

    call = call_of(args, CLIENTS[args.client or "stops"], DESTINATIONS[args.destination])
    for subject in chosen:
        refuse_impossible(subject, call, faults)
    return _play(chosen, call.under(faults), as_json=args.json)


def _play_schedule(args: argparse.Namespace, chosen: list[Subject], schedule: Schedule) -> int:
    from mrtr_options.review.bench.redeploys import why_not

    scenario = schedule.of(args.era)
    if scenario is None:
        refuse(f"{schedule.name} has no steps for a {args.era} client; choose the other --era")
    for subject in chosen:
        reason = why_not(subject.option, scenario.changes)
        if reason:
            refuse(reason)
    if args.fleet == "one":
        scenario = scenario.on_one()
    return _play(chosen, scenario, as_json=args.json)


def _play(chosen: list[Subject], scenario: Scenario, *, as_json: bool) -> int:
    import anyio

    from mrtr_options.review.bench.run import run_each
    from mrtr_options.review.show.runs import print_runs

    histories = anyio.run(run_each, chosen, scenario)
    print_runs(scenario, chosen, histories, as_json=as_json)
    return 0
