"""The tour: every option in both eras, for Tokyo and for Springfield, side by side in one table.

Knows options only through the bench.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import anyio
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mrtr_options.bench.history import ERAS, History
from mrtr_options.bench.observations import Observation, observe
from mrtr_options.bench.runs import clean_call
from mrtr_options.demo.option import LOCATIONS, as_seen, broken_in
from mrtr_options.show.terminal import console, counts, interpreter, plural, refuse
from mrtr_options.tool.catalogue import CannotLoad, Option, all_options

NEXT = {
    "examples.basic": "the shortest tool that asks; no machinery at all",
    "examples.multiround": "two questions, the second depends on the first",
    "diff E F": "what markers in the state change",
    "diff E G": "what named steps change",
    "diff B H": "the same author code; in H the `await` is true",
    "examples.client_dual_path": "the app developer's side: one callback, both eras",
    "option_e_mrtr_native": "one option, round by round",
}
"""What to run after the tour, and what it shows: a module of this package, or a command."""


def _commands() -> dict[str, str]:
    start = f"{interpreter()} -m mrtr_options"
    return {f"{start}{' ' if ' ' in what else '.'}{what}": why for what, why in NEXT.items()}


@dataclass(frozen=True)
class Stop:
    """One call of the tour, and where it is not what the option guarantees."""

    option: Option
    history: History
    broken: list[str]

    @property
    def seen(self) -> Observation:
        """What it comes to."""
        return observe(self.history)

    @property
    def end(self) -> tuple[str, bool]:
        """The text of its end, and whether it is an error."""
        return self.seen.text or self.seen.message or "", self.seen.outcome != "completed"


def tour(*, as_json: bool) -> int:
    """Print the tour; the exit code: 1 if an option breaks its guarantee."""
    try:
        stops = anyio.run(_walk)
    except CannotLoad as error:
        refuse(str(error))
    if as_json:
        print(json.dumps([as_seen(stop.history) for stop in stops], indent=2))
    else:
        out = console()
        _print_table(out, stops)
        out.print("\nRead next:")
        commands = _commands()
        for command, why in commands.items():
            out.print(Text(f"  {command:<{max(map(len, commands))}}  {why}"), soft_wrap=True)
    broken = [stop for stop in stops if stop.broken]
    err = console(stderr=True)
    for stop in broken:
        call = f"{stop.history.era} {stop.history.location}"
        where = f"option {stop.option.letter} breaks its guarantee, {call}"
        err.print(Text(f"{where}: {'; '.join(stop.broken)}", "red"), soft_wrap=True)
    return 1 if broken else 0


async def _walk() -> list[Stop]:
    stops: list[Stop] = []
    for option in all_options().values():
        for era in ERAS:
            for location in LOCATIONS:
                history = await clean_call(option, era, location)
                stops.append(Stop(option, history, broken_in(history, option) or []))
    return stops


def _print_table(out: Console, stops: list[Stop]) -> None:
    texts = list(dict.fromkeys(stop.end for stop in stops))
    cells: dict[Option, list[Text]] = {}
    for stop in stops:
        number = texts.index(stop.end) + 1
        cells.setdefault(stop.option, []).append(
            Text.assemble(
                counts(stop.seen.most("audit"), stop.seen.most("bill")),
                f"  result {number}\n",
                (f"{plural(stop.seen.rounds, 'round')}, {len(stop.seen.questions)} asked", "dim"),
            )
        )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("option", no_wrap=True)
    for era in ERAS:
        for location in LOCATIONS:
            table.add_column(f"{era}\n{location}", overflow="fold")
    for option, row in cells.items():
        table.add_row(Text(f"{option.letter} {option.name}"), *row)
    out.print("audit/bill, result, rounds, questions")
    out.print(table)
    for number, (text, is_error) in enumerate(texts, start=1):
        out.print(Text(f"result {number}{' (error)' if is_error else ''}: {text}"), soft_wrap=True)
