"""What an option file runs when it is started as a program: the option, end to end.

Makes one call per era and location in memory, prints every round as it happens, and holds the
history against the guarantees that the matrix holds it to. Knows options only through the bench.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from mrtr_options.demo.person import Person
from mrtr_options.review.bench.client import agreeable
from mrtr_options.review.bench.faults import ERAS, Era
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import run as run_one
from mrtr_options.review.bench.scenario import whole_call
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge import guarantees
from mrtr_options.review.judge.reading import Observation, observe
from mrtr_options.review.show.by_hand import call_by_hand
from mrtr_options.review.show.transcript import Transcript, end_of
from mrtr_options.terminal import Parser, console, counts, plural, refuse, run
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, option_at

LOCATIONS = ("Tokyo", "Springfield")
"""What the guarantees are about: a location with one question, and one with two."""

CLEAN = ("clean-tokyo", "clean-springfield")
"""The schedules whose guarantees a clean call is held to."""


def demo(path: str) -> None:
    """Run the option in this file as the command line says, and exit.

    Exit code 0: as guaranteed. 1: not as guaranteed. 2: bad arguments, said in one line.
    """
    sys.exit(run(lambda: main(Path(path), sys.argv[1:])))


def main(path: Path, argv: Sequence[str]) -> int:
    """Run the option in a file; the exit code."""
    option = option_at(path)
    parser = Parser(
        prog=f"python -m mrtr_options.{path.stem}", description=option.title, allow_abbrev=False
    )
    parser.add_argument("--era", choices=[*ERAS, "both"], default="both", help="the client's era")
    parser.add_argument("--location", metavar="NAME", help="default: Tokyo, then Springfield")
    parser.add_argument(
        "--interactive", action="store_true", help="answer, and break the call, yourself"
    )
    parser.add_argument("--json", action="store_true", help="print everything seen as JSON")
    args = parser.parse_args(argv)
    eras: tuple[Era, ...] = ERAS if args.era == "both" else (args.era,)
    locations = LOCATIONS if args.location is None else (_fitting(args.location),)
    return anyio.run(_run, option, eras, locations, args.interactive, args.json)


def _fitting(location: str) -> str:
    try:
        weather.WeatherArguments(location=location)
    except ValidationError as error:
        refuse(f"--location does not fit the tool: {error.errors(include_url=False)[0]['msg']}")
    return location


async def _run(
    option: Option, eras: Sequence[Era], locations: Sequence[str], interactive: bool, as_json: bool
) -> int:
    # With JSON on standard output, a person still has to see what is asked.
    out = console(stderr=as_json, quiet=as_json and not interactive)
    person = Person(out) if interactive else None
    out.print(Text(option.title, "bold"))
    found: list[dict[str, Any]] = []
    kept = True
    for era in eras:
        for location in locations:
            for task in (False, True) if era == "modern" and option.takes_tasks else (False,):
                if person and person.has_left:
                    continue
                taking = " that takes tasks" if task else ""
                out.print(Text(f"\n{era} client{taking}, {location!r}", "bold cyan"))
                if person and not task:
                    history = await call_by_hand(option, era, location, person, out)
                else:
                    history = await run_one(
                        Subject(option),
                        whole_call(location, era, takes_tasks=task),
                        user=person or agreeable,
                        on_event=Transcript(out),
                    )
                broken = None if interactive else broken_in(history, option)
                if interactive:
                    out.print(end_of(history))
                else:
                    _print_sum(out, observe(history), broken)
                kept = kept and not broken
                found.append({**as_seen(history), "events": history.as_json(), "broken": broken})
    if as_json:
        print(json.dumps(found, indent=2))
    return 0 if kept else 1


def broken_in(history: History, option: Option) -> list[str] | None:
    """The guarantees that a clean call with the agreeable user breaks, one line each, or None if
    none is about it. An option that has no guarantees of its own is not judged here.
    """
    own = option.guarantees
    if own is None or history.scenario.name not in CLEAN:
        return None
    seen = guarantees.observed(history, own)
    return [
        f"{each.name}: {seen.breaks[each.name]}"
        for each, _ in guarantees.broken([seen], guarantees.guaranteed(own), own)
    ]


def as_seen(history: History) -> dict[str, Any]:
    """A call as one JSON object."""
    seen = observe(history)
    return {
        "option": seen.option,
        "era": seen.era,
        "location": history.location,
        "task": history.scenario.takes_tasks,
        "text": seen.message if seen.text is None else seen.text,
        "is_error": seen.outcome != "completed",
        "code": seen.code,
        "rounds": seen.rounds,
        "questions": list(seen.questions),
        "effects": seen.effects,
    }


def _print_sum(out: Console, seen: Observation, broken: list[str] | None) -> None:
    out.print(
        Text.assemble(
            f"  {plural(seen.rounds, 'round')}, {plural(len(seen.questions), 'question')}, audit/bill ",
            counts(seen.most("audit"), seen.most("bill")),
            "" if broken is None else ": NOT as guaranteed" if broken else ": as guaranteed",
        )
    )
    for line in broken or []:
        out.print(Text(f"    {line}", "red"))
