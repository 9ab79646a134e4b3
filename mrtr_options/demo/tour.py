"""The tour: a call round by round, the same with its report lost, and the bills of every option."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import anyio
from rich.console import Console
from rich.text import Text

from mrtr_options.demo.call import Call, Outcome, Round
from mrtr_options.demo.option import desk_of
from mrtr_options.terminal import console, interpreter
from mrtr_options.tool.catalogue import all_options, load
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger

INTRODUCTION = (
    "The same tool, written once per option. It asks for a place and for units, and has two",
    "effects: an audit before the questions and a bill after them. A call should make one of each.",
)

SHOWN = "F"
"""The option whose calls are shown round by round."""

NEXT = {
    "new book_table.py": "writes a tool that asks, to start from",
    "diff E F": "what `once` changes in the code",
    "diff B H": "B runs it again each round, H once",
    "play F --faults lost3": "today's client: charged, told of an error",
    "option_f_once": "F alone; --interactive: you answer",
}
"""What to run after the tour, and what it shows: a module of this package, or a command."""


@dataclass(frozen=True)
class Stop:
    """One call that every option is put through.

    Attributes:
        words: What happens, in the words of the table.
        policy: What the client does after it has lost the report; None where nothing is lost.
    """

    words: str
    policy: Literal["calls again", "resends"] | None = None


STOPS = {
    "clean": Stop("a clean call"),
    "calls_again": Stop("the report is lost, the client calls again", "calls again"),
    "resends": Stop("the report is lost, the client resends", "resends"),
}


def tour(*, as_json: bool) -> int:
    """Print the tour, and return the exit code."""
    outcomes = anyio.run(_walk)
    if as_json:
        rows = [
            {"option": letter, **{name: outcome.effects for name, outcome in calls.items()}}
            for letter, calls in outcomes.items()
        ]
        print(json.dumps(rows, indent=2))
        return 0
    out = console()
    for line in INTRODUCTION:
        out.print(line)
    shown = outcomes.get(SHOWN)
    if shown is not None:
        out.print(Text(f"\nOption {SHOWN}, a clean call", "bold"))
        _print_rounds(out, shown["clean"])
        out.print(Text("The same call; the report is lost, and the client resends", "bold"))
        _print_rounds(out, shown["resends"])
    _print_bills(out, outcomes)
    _print_next(out)
    return 0


async def _walk() -> dict[str, dict[str, Outcome]]:
    """Put every option through every stop."""
    outcomes: dict[str, dict[str, Outcome]] = {}
    for letter, option in all_options().items():
        ledger = MemoryLedger()
        server = load(option.path, Settings(ledger))
        async with desk_of(server):
            outcomes[letter] = {
                name: await _play(Call(server, ledger, "modern", "Springfield"), stop)
                for name, stop in STOPS.items()
            }
    return outcomes


async def _play(call: Call, stop: Stop) -> Outcome:
    """Make a call. Where its report is lost, go on as the client that did not see it."""
    async with call.connected():
        await call.play()
        if stop.policy is not None:
            steps = call.outcome.steps
            steps[-1] = replace(steps[-1], lost=True)
            await call.play(call.last if stop.policy == "resends" else Round())
    return call.outcome


def _print_rounds(out: Console, outcome: Outcome) -> None:
    for round, request, effects, response in _rounds(outcome):
        before = f"  {round}  {request:<24}{effects:<7}"
        lines = textwrap.wrap(response, max(out.width - len(before), 20))
        out.print(before + f"\n{'':{len(before)}}".join(lines))


def _rounds(outcome: Outcome) -> Iterator[tuple[int, str, str, str]]:
    """Yield each round's number, what the client sent, the effects, and the response."""
    request = ""
    effects: list[str] = []
    for step in outcome.steps:
        if step.kind == "request":
            request = f"{step.label} (again)" if step.again else step.label
            effects = []
        elif step.kind == "effect":
            effects.append(step.label)
        elif step.kind == "response":
            response = f"{step.label} (lost)" if step.lost else step.label
            yield step.round, request, ", ".join(effects), response


def _print_bills(out: Console, outcomes: dict[str, dict[str, Outcome]]) -> None:
    """Print how often each option bills in each stop; in two lines on a narrow terminal."""
    width = max(len(stop.words) for stop in STOPS.values())
    fits = width + 4 * len(outcomes) <= out.width
    end = "" if fits else "\n"
    heading = Text(f"\n{'Bills of one call':<{width}}{end}", "bold")
    for letter in outcomes:
        heading.append(f"{letter:>4}")
    out.print(heading)
    for name, stop in STOPS.items():
        row = Text(f"{stop.words:<{width}}{end}")
        for calls in outcomes.values():
            bills = calls[name].effects["bill"]
            row.append(f"{bills:>4}", "bold red" if bills > 1 else "")
        out.print(row)


def _print_next(out: Console) -> None:
    """Print the commands to run after the tour."""
    out.print(Text("\nRead next", "bold"))
    start = f"{interpreter()} -m mrtr_options"
    commands = {
        f"{start} {what}" if " " in what else f"{start}.{what}": why for what, why in NEXT.items()
    }
    width = max(len(command) for command in commands)
    widest = width + max(len(why) for why in commands.values()) + 4
    for command, why in commands.items():
        if widest <= out.width:
            out.print(Text(f"  {command:<{width}}  {why}"))
        else:
            out.print(Text(f"  {command}\n    {why}"))
