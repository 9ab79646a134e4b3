"""What an option file runs when it is started as a program: the option, end to end.

Makes one call per era and location through the in-memory client, prints every round as it happens,
and holds what it saw against what the option promises. Knows options only through `observe`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from mrtr_options.bench.observe import (
    ERAS,
    Answered,
    Asked,
    Era,
    Event,
    Observation,
    Received,
    Sent,
    Stood,
    agreeable,
    observe,
)
from mrtr_options.demo.person import Person
from mrtr_options.judge.judgement import differences
from mrtr_options.show.terminal import Parser, console, counts, plural, refuse
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import CannotLoad, Option, option_at
from mrtr_options.tool.server import TOOL

LOCATIONS = ("Tokyo", "Springfield")
"""What the promises are about: a location with one question, and one with two."""


def demo(path: str) -> None:
    """Run the option in this file as the command line says, and exit.

    Exit code 0: as promised. 1: not as promised. 2: bad arguments, said in one line.

    Args:
        path: The option file.
    """
    sys.exit(main(Path(path), sys.argv[1:]))


def main(path: Path, argv: Sequence[str]) -> int:
    """Run the option in a file; the exit code."""
    try:
        option = option_at(path)
    except CannotLoad as error:
        refuse(str(error))
    parser = Parser(
        prog=f"python -m mrtr_options.{path.stem}", description=option.title, allow_abbrev=False
    )
    parser.add_argument("--era", choices=[*ERAS, "both"], default="both", help="the client's era")
    parser.add_argument("--location", metavar="NAME", help="default: Tokyo, then Springfield")
    parser.add_argument("--interactive", action="store_true", help="answer the questions yourself")
    parser.add_argument("--json", action="store_true", help="print everything seen as JSON")
    args = parser.parse_args(argv)
    eras: tuple[Era, ...] = ERAS if args.era == "both" else (args.era,)
    locations = LOCATIONS if args.location is None else (_fitting(args.location),)
    try:
        return anyio.run(_run, option, eras, locations, args.interactive, args.json)
    except CannotLoad as error:
        refuse(str(error))
    except KeyboardInterrupt:
        return 130


def _fitting(location: str) -> str:
    try:
        weather.WeatherArguments(location=location)
    except ValidationError as error:
        refuse(f"--location does not fit the tool: {error.errors(include_url=False)[0]['msg']}")
    return location


async def _run(
    option: Option, eras: Sequence[Era], locations: Sequence[str], interactive: bool, as_json: bool
) -> int:
    promised = option.guarantees
    # With JSON on standard output, a person still has to see what is asked.
    out = console(stderr=as_json, quiet=as_json and not interactive)
    person = Person(out) if interactive else None
    out.print(Text(option.title, "bold"))
    found: list[dict[str, Any]] = []
    kept = True
    for era in eras:
        for location in locations:
            for task in (False, True):
                if person and person.has_left:
                    continue
                taking = " that takes tasks" if task else ""
                out.print(Text(f"\n{era} client{taking}, {location!r}", "bold cyan"))
                seen = await observe(
                    option.path,
                    era,
                    location,
                    answer=person or agreeable,
                    task=task,
                    on_event=Printer(out, location),
                )
                broken = None if promised is None or interactive else differences(seen, promised)
                _print_sum(out, seen, broken)
                kept = kept and not broken
                events = [event_as_json(event) for event in seen.events]
                found.append({**seen.as_json(option.letter), "events": events, "broken": broken})
                if era == "legacy" or not option.takes_tasks:
                    break
    if as_json:
        print(json.dumps(found, indent=2))
    return 0 if kept else 1


def _print_sum(out: Console, seen: Observation, broken: list[str] | None) -> None:
    out.print(
        Text.assemble(
            f"  {plural(seen.rounds, 'round')}, {plural(len(seen.questions), 'question')}, audit/bill ",
            counts(seen.effects["audit"], seen.effects["bill"]),
            "" if broken is None else ": NOT as promised" if broken else ": as promised",
        )
    )
    for line in broken or []:
        out.print(Text(f"    {line}", "red"), soft_wrap=True)


class Printer:
    """Prints the events of one call as they happen.

    Args:
        out: Where to.
        location: The call's argument.
    """

    def __init__(self, out: Console, location: str) -> None:
        self._out = out
        self._location = location
        self._rounds = 0

    def __call__(self, event: Event) -> None:
        match event:
            case Sent():
                self._rounds += 1
                self._line(f"round {self._rounds}", f"-> {TOOL}(location={self._location!r})", "bold")
                if event.answers:
                    self._line("", f"   answers {json.dumps(event.answers)}")
                if event.state is not None:
                    readable = event.readable
                    content = "sealed" if readable is None else f"signed, reads {readable}"
                    self._line("", f"   state of {len(event.state)} bytes, {content}")
            case weather.Effect():
                key = "" if event.key is None else f" (idempotency key {event.key!r})"
                self._line("effect", f"   {event.kind} {event.subject!r}{key}", "yellow")
            case Asked():
                self._line("question", f"   {event.message}", "green")
            case Answered():
                content = "" if event.content is None else f" {json.dumps(event.content)}"
                self._line("answer", f"   {event.action}{content}", "green")
            case Stood():
                said = "" if event.message is None else f": {event.message}"
                self._line("task", f"   {event.status}{said}", "magenta")
            case Received(questions=questions) if questions:
                self._line("", f"<- input required: {', '.join(questions)}", "bold")
            case Received():
                kind = f"error {event.code}" if event.code else "error" if event.is_error else "result"
                self._line("", f"<- {kind}: {event.text}", "bold")

    def _line(self, label: str, text: str, style: str = "") -> None:
        self._out.print(Text.assemble(f"  {label:<9} ", (text, style)), soft_wrap=True)


def event_as_json(event: Event) -> dict[str, Any]:
    """One event as a JSON object.

    `event` names its kind: sent, asked, answered, received, stood, effect.
    """
    fields: dict[str, Any] = {"event": type(event).__name__.lower(), **asdict(event)}
    if isinstance(event, Sent):
        fields["state_bytes"] = 0 if event.state is None else len(event.state)
        fields["readable"] = event.readable
    return fields
