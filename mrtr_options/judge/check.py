"""One proposal through the whole review: what it survives, what it breaks, and which option it is like.

A proposal is a Python file with a `server` (or its own `build_server()`), an importable module, or
the URL of a running server in any language that keeps the contract (docs/CONTRACT.md).
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from rich.progress import TaskID
from rich.table import Table
from rich.text import Text

from mrtr_options.bench import remote
from mrtr_options.bench.deployments import HANG_SECONDS, MemoryDeployment, environment
from mrtr_options.bench.observations import Observation
from mrtr_options.bench.runner import Era, play
from mrtr_options.bench.schedules import SCHEDULES, Schedule
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import claims
from mrtr_options.judge.matrix import (
    COLOURS,
    ERAS,
    LEGEND,
    Cell,
    cells,
    progress,
    quiet_servers,
    run,
)
from mrtr_options.show.terminal import console
from mrtr_options.tool.catalogue import CannotLoad, Option, all_options, load, option_at, option_named
from mrtr_options.tool.guarantees import Guarantees
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import SqliteLedger

GIVE_UP = 3
"""How many runs of a proposal may have a request that hangs; further ones would each take as long."""

Told = Callable[[Observation], None]


def _nobody(seen: Observation) -> None:
    """Is told, and does nothing."""


@dataclass(frozen=True)
class Nearest:
    """The option that behaves most like a proposal.

    Attributes:
        option: Its letter.
        differs: (the proposal's observation, the option's) wherever they are not the same.
    """

    option: str
    differs: list[tuple[Observation, Observation]]


@dataclass
class Report:
    """What the review has to say of a proposal.

    Attributes:
        target: The proposal, as it was named.
        observations: Of the proposal.
        broken: Its broken promises.
        nearest: The option it is most like.
        left_out: How many runs were not made, since it leaves requests without a response.
    """

    target: str
    observations: list[Observation] = field(default_factory=list[Observation])
    broken: list[claims.Broken] = field(default_factory=list[claims.Broken])
    nearest: Nearest | None = None
    left_out: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether so many requests hang that the rest need not be tried."""
        return sum(seen.hung for seen in self.observations) >= GIVE_UP

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        nearest = self.nearest
        return {
            "target": self.target,
            "broken": [
                {
                    "promise": each.promise.name,
                    "says": each.promise.says,
                    "schedule": each.seen.schedule,
                    "era": each.seen.era,
                    "deployment": each.seen.deployment,
                    "why": each.why,
                }
                for each in self.broken
            ],
            "survives": sorted(
                {seen.schedule for seen in self.observations}
                - {each.seen.schedule for each in self.broken}
            ),
            "nearest": None
            if nearest is None
            else {
                "option": nearest.option,
                "differs": [
                    {"schedule": own.schedule, "era": own.era, "here": own.cell, "there": other.cell}
                    for own, other in nearest.differs
                ],
            },
            "left_out": self.left_out,
            "observations": [seen.as_json() for seen in self.observations],
        }


# --- what is checked ----------------------------------------------------------------------------


def file_of(target: str) -> Path:
    """The file of a proposal named by its path, as a module, or as an option of this package.

    Raises:
        CannotLoad: There is none.
    """
    if target.endswith(".py") or Path(target).is_file():
        return Path(target)
    with suppress(CannotLoad):
        return option_named(target).path
    try:
        spec = importlib.util.find_spec(target)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise CannotLoad(
            f"{target!r} is no option, file, module or URL; name a Python file with a `server` in it"
        )
    return Path(spec.origin)


def load_proposal(path: Path) -> None:
    """Load the option in a stranger's file, to see whether it can be run at all.

    Raises:
        CannotLoad: It cannot.
    """
    with scratch() as folder:
        ledger = folder / "ledger.sqlite"
        with environment(ledger, [new_key()]):
            load(path, Settings(SqliteLedger(ledger)))


async def check_file(path: Path, on_seen: Told = _nobody, on_option: Told = _nobody) -> Report:
    """Review the option in a file, on one instance and on two.

    Args:
        path: The file.
        on_seen: Told of each observation of the proposal.
        on_option: Told of each observation of an option that it is compared with.

    Raises:
        CannotLoad: The file is not an option that can be run.
    """
    option = option_at(path)
    load_proposal(path)
    report = Report(str(path))
    to_run = cells([Column(option)])
    with quiet_servers():
        for done, cell in enumerate(to_run):
            if report.is_hopeless:
                report.left_out = len(to_run) - done
                break
            seen, counts = await observe(cell)
            if counts:
                report.observations.append(seen)
            on_seen(seen)
    return await _judged(report, option.guarantees, on_option)


async def observe(cell: Cell) -> tuple[Observation, bool]:
    """Make one run of a proposal.

    Returns:
        What was seen, and whether it counts: where the file has a ledger of its own, nothing can go
        wrong at its effects.
    """
    with scratch() as folder:
        count = 1 if cell.place == "one" else 2
        deployment = MemoryDeployment(
            cell.column, count, folder, foreign=True, honours_keys=cell.schedule.honours_keys
        )
        async with deployment.running():
            seen = await play(cell.schedule, cell.era, deployment, cell.column)
    return seen, deployment.ledger.used or not (cell.schedule.has_fault or cell.schedule.honours_keys)


async def check_url(
    url: str, ledger: SqliteLedger, on_seen: Told = _nobody, on_option: Told = _nobody
) -> Report:
    """Review a running server.

    Args:
        url: Its MCP endpoint.
        ledger: The file that it counts effects in.
        on_seen, on_option: See `check_file`.

    Raises:
        CannotReach: Nothing answers there.
    """
    await remote.reach(url)
    report = Report(url)
    column = Column(Option("?", url, Path(url)))
    for done, (era, schedule) in enumerate(playable()):
        if report.is_hopeless:
            report.left_out = len(playable()) - done
            break
        deployment = remote.RemoteDeployment(url, ledger)
        async with deployment.running():
            seen = await play(schedule, era, deployment, column)
        report.observations.append(seen)
        on_seen(seen)
    return await _judged(report, None, on_option)


def playable() -> list[tuple[Era, Schedule]]:
    """The schedules that can be played on a server reached by URL."""
    return [
        (era, schedule)
        for era in ERAS
        for schedule in SCHEDULES.values()
        if remote.can_play(schedule) and (schedule.script if era == "modern" else schedule.legacy)
    ]


async def _judged(report: Report, own: Guarantees | None, on_option: Told) -> Report:
    promised = claims.promised(own)
    fair = report.observations if own else _without_failover(report.observations)
    report.broken = claims.broken(fair, promised, own)
    report.nearest = await nearest(report.observations, on_option)
    return report


def _without_failover(observations: Sequence[Observation]) -> list[Observation]:
    """What a proposal that promises nothing is held to: one instance, unless it survives a failover."""
    survives = any(
        seen.schedule == "failover" and seen.deployment == "two" and seen.outcome == "completed"
        for seen in observations
    )
    return [seen for seen in observations if survives or seen.deployment == "one"]


_played: dict[tuple[str, str, str], Observation] = {}
"""What was seen of the options themselves, by schedule, era and letter; one process plays them once."""


async def nearest(observations: Sequence[Observation], on_option: Told = _nobody) -> Nearest:
    """The option with the fewest differences, on one instance.

    The option with the fewest so far is the one that is played on. When one is through, every other has
    as many already, so most of what they do is never looked at.

    Args:
        observations: Of the proposal.
        on_option: Told of each observation of an option.
    """
    own = {(seen.schedule, seen.era): seen for seen in observations if seen.deployment == "one"}
    # One that needs an engine takes longer to play than the whole check of a proposal.
    options = [option for option in all_options().values() if option.extra is None]
    found = {option.letter: list[tuple[Observation, Observation]]() for option in options}
    left = {
        option.letter: [
            cell
            for cell in reversed(cells([Column(option)], places=("one",)))
            if (cell.schedule.slug, cell.era) in own
        ]
        for option in options
    }
    while True:
        letter = min(found, key=lambda letter: len(found[letter]))
        if not left[letter]:
            return Nearest(letter, found[letter])
        cell = left[letter].pop()
        key = (cell.schedule.slug, cell.era, letter)
        if key not in _played:
            (_played[key],) = await run([cell], on_option)
        here, there = own[cell.schedule.slug, cell.era], _played[key]
        if _behaviour(here) != _behaviour(there):
            found[letter].append((here, there))


def _behaviour(seen: Observation) -> tuple[Any, ...]:
    return (seen.outcome, seen.most("audit"), seen.most("bill"), tuple(seen.questions))


# --- showing ------------------------------------------------------------------------------------


def show(target: str, *, ledger: str | None, as_json: bool) -> int:
    """Review a proposal and print what was found. Returns 1 if a promise is broken.

    Raises:
        CannotLoad, CannotReach, LedgerUnusable: The target cannot be run.
    """
    if target.startswith(("http://", "https://")):
        if ledger is None:
            raise CannotLoad("a running server needs --ledger FILE, the file it counts effects in")
        review = partial(check_url, target, SqliteLedger(ledger))
        total = len(playable())
    else:
        path = file_of(target)
        load_proposal(path)
        review = partial(check_file, path)
        total = len(cells([Column(option_at(path))]))
    with progress(quiet=as_json) as bar:
        own = bar.add_task("schedules", total=total)
        others = bar.add_task("the options, to compare with", total=None)

        def advance(task: TaskID, seen: Observation) -> None:
            bar.advance(task)

        report = anyio.run(review, partial(advance, own), partial(advance, others))
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=1))
    else:
        _print(report)
    return 1 if report.broken else 0


def _print(report: Report) -> None:
    out = console()
    assert report.nearest is not None
    nearest_option = report.nearest.option
    others = {(other.schedule, other.era): other for _, other in report.nearest.differs}
    table = Table(title=report.target, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("schedule", "era", "instances", "a/b", "verdict", f"in {nearest_option}"):
        table.add_column(heading)
    for seen in report.observations:
        other = others.get((seen.schedule, seen.era)) if seen.deployment == "one" else None
        table.add_row(
            seen.schedule,
            seen.era,
            seen.deployment,
            Text(seen.cell, COLOURS[seen.verdict]),
            Text(seen.verdict, COLOURS[seen.verdict]),
            other.cell if other else "",
        )
    out.print(table)
    out.print(LEGEND[0])
    out.print()
    count = len(report.nearest.differs)
    out.print(
        f"nearest option: {nearest_option}, "
        + (
            f"which does otherwise under {count} schedules (last column)"
            if count
            else "with no difference"
        )
    )
    if report.left_out:
        out.print(
            f"{report.left_out} runs were not made: in {GIVE_UP} others a request was left without a "
            f"response for {HANG_SECONDS:.0f} seconds",
            style="bold red",
        )
    if not report.broken:
        out.print("no promise is broken", style="green")
    for name in dict.fromkeys(each.promise.name for each in report.broken):
        found = [each for each in report.broken if each.promise.name == name]
        out.print(f"breaks {name}: {found[0].promise.says}", style="bold red")
        for each in found:
            out.print(f"  {each.seen.schedule} ({each.seen.era}, {each.seen.deployment}): {each.why}")
