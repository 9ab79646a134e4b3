"""The tour: a call round by round, the same with its last response lost, and the bills of every
option.

Knows options only through the bench.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import anyio
from rich.console import Console
from rich.text import Text

from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import Policy, calling
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.telling import tell
from mrtr_options.review.judge.reading import observe
from mrtr_options.terminal import console, interpreter
from mrtr_options.tool.catalogue import all_options

INTRODUCTION = (
    "The same tool, written once per option. It asks for a place and for units, and has two effects:",
    "an audit before the questions and a bill after them. A call should make one of each.",
)

SHOWN = "F"
"""The option whose calls are shown round by round."""

NEXT = {
    "new book_table.py": "writes a tool that asks, to start from",
    "diff E F": "what `once` changes in the code",
    "diff B H": "B runs it again each round, H once",
    "play F F¹ --faults lost3": "two bills; one in the guard (F¹)",
    "option_f_once": "F alone; --interactive: you answer",
}
"""What to run after the tour, and what it shows: a module of this package, or a command."""


@dataclass(frozen=True)
class Stop:
    """What every option is put through: what goes wrong, if anything, and what its client does
    then.
    """

    says: str
    faults: str = ""
    policy: Policy = "retry"


STOPS = {
    "clean": Stop("a clean call"),
    "retries": Stop("last response lost, the client resends", "lost3"),
    "calls_again": Stop("last response lost, the client calls again", "lost3", "call again"),
}


def tour(*, as_json: bool) -> int:
    """Print the tour; the exit code."""
    found = anyio.run(_walk)
    if as_json:
        print(json.dumps([_as_json(letter, calls) for letter, calls in found.items()], indent=2))
        return 0
    out = console()
    for line in INTRODUCTION:
        out.print(line)
    if (shown := found.get(SHOWN)) is not None:
        out.print(Text(f"\nOption {SHOWN}, a clean call", "bold"))
        _print_rounds(out, shown["clean"])
        out.print(Text("The same call; its last response is lost, and the client resends", "bold"))
        _print_rounds(out, shown["retries"])
    _print_bills(out, found)
    out.print(Text("\nRead next", "bold"))
    commands = _commands()
    width = max(map(len, commands))
    between = "  " if width + max(map(len, commands.values())) + 4 <= out.width else "\n    "
    for command, why in commands.items():
        out.print(Text(f"  {command:<{width if between == '  ' else 0}}{between}{why}"))
    return 0


def _commands() -> dict[str, str]:
    start = f"{interpreter()} -m mrtr_options"
    return {f"{start}{' ' if ' ' in what else '.'}{what}": why for what, why in NEXT.items()}


async def _walk() -> dict[str, dict[str, History]]:
    """Each option's calls."""
    found: dict[str, dict[str, History]] = {}
    subjects = [Subject(option) for option in all_options().values()]
    async with in_memory(subjects) as here:
        for subject in subjects:
            for name, stop in STOPS.items():
                scenario = calling(policy=stop.policy).under(parse(stop.faults))
                found.setdefault(subject.name, {})[name] = await run(subject, scenario, here)
    return found


def _as_json(letter: str, calls: dict[str, History]) -> dict[str, object]:
    return {"option": letter, **{name: observe(history).effects for name, history in calls.items()}}


def _print_rounds(out: Console, history: History) -> None:
    for nth, sent, effects, reply in _rounds(history):
        before = f"  {nth}  {sent:<24}{effects:<7}"
        lines = textwrap.wrap(reply, max(out.width - len(before), 20))
        out.print(before + f"\n{'':{len(before)}}".join(lines))


def _rounds(history: History) -> Iterator[tuple[int, str, str, str]]:
    """Each round's number, what the client sent, the effects, and what came back."""
    nth, sent, effects = 0, "", list[str]()
    for row in tell(history):
        match row.kind:
            case "request":
                nth, sent, effects = row.nth, row.label + " (again)" * row.again, []
            case "effect":
                effects.append(row.effect)
            case "response":
                yield (
                    nth,
                    sent,
                    ", ".join(effects),
                    f"{row.label} (lost)" if row.lost else row.label,
                )
            case _:
                pass


def _print_bills(out: Console, found: dict[str, dict[str, History]]) -> None:
    """A row for each stop; two on a narrow terminal, the counts below what they are of."""
    width = max(len(stop.says) for stop in STOPS.values())
    end = "" if width + 4 * len(found) <= out.width else "\n"
    heading = Text(f"\n{'Bills of one call':<{width}}{end}", "bold")
    out.print(heading.append("".join(f"{letter:>4}" for letter in found)))
    for name, stop in STOPS.items():
        row = Text(f"{stop.says:<{width}}{end}")
        for calls in found.values():
            bills = observe(calls[name]).most("bill")
            row.append(f"{bills:>4}", "bold red" if bills > 1 else "")
        out.print(row)
