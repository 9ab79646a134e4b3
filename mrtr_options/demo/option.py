"""An option file as a program: one call for each era and location, round by round.

The calls go to the `server` of the module that was started, so a breakpoint in its handler hits.
The last line of each call says how often each effect took place, and how often was meant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import anyio
from mcp.server import MCPServer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from mrtr_options.demo.call import ERAS, Call, Era, Outcome, Step, User, agreeable
from mrtr_options.errors import refuse
from mrtr_options.sdk.handler import AnyServer
from mrtr_options.terminal import Parser, console, plural, print_step, run
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, option_at

LOCATIONS = ("Tokyo", "Springfield")
"""A location with one question, and one with two."""


def demo(server: AnyServer, path: str) -> None:
    """Run the option whose module was started as a program, and exit.

    Exit code 0: the effects are as the option declares them. 1: they are not. 2: bad arguments.

    Args:
        server: The module's server.
        path: The module's `__file__`.
    """
    sys.exit(run(lambda: main(server, Path(path), sys.argv[1:])))


def main(server: AnyServer, path: Path, argv: Sequence[str]) -> int:
    """Run an option as the command line says, and return the exit code."""
    option = option_at(path)
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
    # With JSON on standard output, a person still has to see what is asked.
    is_quiet = args.json and not args.interactive
    out = console(stderr=args.json, quiet=is_quiet)
    user = _person(out) if args.interactive else agreeable
    outcomes = anyio.run(_Program(server, option, user, out).calls, eras, locations)
    if args.json:
        print(json.dumps([_as_json(option, outcome) for outcome in outcomes], indent=2))
    if args.interactive:
        return 0
    return 0 if all(not broken_in(option, outcome) for outcome in outcomes) else 1


def _fitting(location: str) -> str:
    try:
        weather.WeatherArguments(location=location)
    except ValidationError as error:
        refuse(f"--location does not fit the tool: {error.errors(include_url=False)[0]['msg']}")
    return location


def _person(out: Console) -> User:
    from mrtr_options.demo.person import Person

    return Person(out)


def _kinds_of_call(option: Option, era: Era) -> list[type[Call]]:
    if not option.takes_tasks or era == "legacy":
        return [Call]
    from mrtr_options.demo.tasks import TaskCall

    return [Call, TaskCall]


def desk_of(server: AnyServer) -> Any:
    """Return the context manager that opens a server's desk, through which its effects are seen.

    All connections of a server share what its lifespan opens.
    """
    if isinstance(server, MCPServer):
        return cast("Any", server.settings.lifespan)(server)
    return server.lifespan(server)


# --- what is declared -----------------------------------------------------------------------------


def broken_in(option: Option, outcome: Outcome) -> list[str] | None:
    """Return the differences between a call and the option's guarantees, one line each.

    None where no effects are declared.
    """
    own = option.guarantees
    if own is None or outcome.location not in LOCATIONS:
        return None
    expected: str = getattr(own, f"{outcome.era}_{outcome.location.lower()}")
    lines: list[str] = []
    seen = f"{outcome.effects['audit']}/{outcome.effects['bill']}"
    if seen != expected:
        lines.append(f"audit/bill is {seen}; guarantees.toml declares {expected}")
    if outcome.era == "legacy" and bool(outcome.questions) != own.asks_legacy:
        says = "declares that it is" if own.asks_legacy else "declares that it is not"
        lines.append(f"{plural(len(outcome.questions), 'question')}: guarantees.toml {says} asked")
    return lines


def _as_json(option: Option, outcome: Outcome) -> dict[str, Any]:
    broken = broken_in(option, outcome)
    return {"option": option.letter, **asdict(outcome), "broken": broken}


# --- what is printed ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Program:
    """One run of an option: makes its calls, and prints their steps as they happen."""

    server: AnyServer
    option: Option
    user: User
    out: Console

    async def calls(self, eras: Sequence[Era], locations: Sequence[str]) -> list[Outcome]:
        """Make one call for each era and location; two where the client may take tasks."""
        outcomes: list[Outcome] = []
        self.out.print(Text(self.option.title, "bold"))
        async with desk_of(self.server) as desk:
            for era, location in product(eras, locations):
                for kind in _kinds_of_call(self.option, era):
                    if getattr(self.user, "has_left", False):
                        return outcomes
                    call = kind(self.server, desk.ledger, era, location, self.user, self.step)
                    self.heading(call)
                    outcomes.append(await call.make())
                    self.sum(outcomes[-1])
        return outcomes

    def heading(self, call: Call) -> None:
        """Print which client calls, and for which location."""
        tasks = " that takes tasks" if call.extensions else ""
        self.out.print(Text(f"\n{call.era} client{tasks}, {call.location!r}", "bold cyan"))

    def step(self, step: Step) -> None:
        """Print one step."""
        print_step(self.out, step.kind, step.lines, step.round)

    def sum(self, outcome: Outcome) -> None:
        """Print the counts of a call that has ended."""
        rounds = plural(outcome.rounds, "round")
        questions = plural(len(outcome.questions), "question")
        self.out.print(Text(f"  {rounds}, {questions}"))
        self.out.print(Text("  ").append_text(_effects_in_words(self.option, outcome)))
        for broken in broken_in(self.option, outcome) or ():
            self.out.print(Text(f"  NOT as declared: {broken}", "bold red"))


def _effects_in_words(option: Option, outcome: Outcome) -> Text:
    """Return the counts of a call's effects, and what was meant where they differ from that."""
    audits = outcome.effects["audit"]
    bills = outcome.effects["bill"]
    counts = Text.assemble(_count(audits, "audit"), ", ", _count(bills, "bill"))
    if outcome.is_error or not bills:
        return counts.append("; the call ended without a report, so no bill was meant")
    if audits == 1 and bills == 1:
        return counts.append(", as meant")
    counts.append("; one of each was meant")
    repeats = option.guarantees is not None and option.guarantees.reexecution != "never"
    if audits > 1 and bills == 1 and repeats:
        counts.append(f" ({option.letter} repeats what stands above a question)")
    return counts


def _count(number: int, effect: str) -> Text:
    return Text(plural(number, effect), "bold red" if number > 1 else "")
