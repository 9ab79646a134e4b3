"""One proposal through the whole review: what it survives, what it breaks, and which option it is like.

A proposal is a Python file with a `server` (or its own `build_server()`), an importable module, or
the URL of a running server in any language that keeps the contract (docs/CONTRACT.md).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrtr_options.bench import remote
from mrtr_options.bench.deployments import HANG_SECONDS, environment
from mrtr_options.bench.history import ERAS, Effect, Era, Failed, History
from mrtr_options.bench.observations import Observation, observe
from mrtr_options.bench.player import play
from mrtr_options.bench.runs import Cell, history_of, one_engine
from mrtr_options.bench.schedules import SCHEDULES, Schedule
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import guarantees
from mrtr_options.judge.matrix import cells, name_of, run
from mrtr_options.tool.catalogue import CannotLoad, Option, all_options, load, option_at, option_named
from mrtr_options.tool.guarantees import Guarantees
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import SqliteLedger

GIVE_UP = 3
"""How many runs of a proposal may have a request that hangs; further ones would each take as long."""

Told = Callable[[str], None]


def _ignore(name: str) -> None:
    return


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
        target: The proposal: its file or its URL.
        own: What it guarantees besides the contract; None for nothing.
        observations: Of the proposal.
        broken: Its broken guarantees.
        nearest: The option it is most like.
        left_out: How many runs were not made, since it leaves requests without a response.
        hang_seconds: How long it had for one request.
    """

    target: str
    observations: list[Observation] = field(default_factory=list[Observation])
    broken: list[guarantees.Broken] = field(default_factory=list[guarantees.Broken])
    nearest: Nearest | None = None
    left_out: int = 0
    hang_seconds: float = HANG_SECONDS
    own: Guarantees | None = None

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
                    "guarantee": each.guarantee.name,
                    "says": each.guarantee.says,
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


async def check_file(
    path: Path,
    on_begin: Told = _ignore,
    on_option: Told = _ignore,
    *,
    hang_seconds: float = HANG_SECONDS,
) -> Report:
    """Review the option in a file, on one instance and on two.

    Args:
        path: The file.
        on_begin: Told the name of each run of the proposal before it is made.
        on_option: The same for each run of an option that it is compared with.
        hang_seconds: How long one request may take before it is called hung.

    Raises:
        CannotLoad: The file is not an option that can be run.
    """
    option = option_at(path)
    load_proposal(path)
    report = Report(str(path), hang_seconds=hang_seconds, own=option.guarantees)
    to_run = cells([Column(option)])
    async with one_engine(to_run) as database:
        for done, cell in enumerate(to_run):
            if report.is_hopeless:
                report.left_out = len(to_run) - done
                break
            on_begin(name_of(cell))
            history = await play_proposal(cell, hang_seconds=hang_seconds, database=database())
            seen = observe(history)
            if counts(history):
                report.observations.append(seen)
    return await _judged(report, on_option)


async def play_proposal(
    cell: Cell, *, hang_seconds: float = HANG_SECONDS, database: str | None = None
) -> History:
    """Make one run of a proposal.

    Args:
        cell: Which.
        hang_seconds: How long one request may take before it is called hung.
        database: See `history_of`.
    """
    return await history_of(cell, foreign=True, hang_seconds=hang_seconds, database=database)


def counts(history: History) -> bool:
    """Whether a run of a proposal says something: where the file has a ledger of its own, nothing can
    go wrong at its effects."""
    schedule = history.schedule
    through_the_bench = any(
        isinstance(event, Effect | Failed) and event.instance is not None for event in history.events
    )
    return through_the_bench or not (schedule.has_fault or schedule.honours_keys)


async def check_url(
    url: str,
    ledger: SqliteLedger,
    on_begin: Told = _ignore,
    on_option: Told = _ignore,
    *,
    hang_seconds: float = HANG_SECONDS,
) -> Report:
    """Review a running server.

    Args:
        url: Its MCP endpoint.
        ledger: The file that it counts effects in.
        on_begin, on_option, hang_seconds: See `check_file`.

    Raises:
        CannotReach: Nothing answers there.
    """
    await remote.reach(url)
    report = Report(url, hang_seconds=hang_seconds)
    column = Column(Option("?", url, Path(url)))
    for done, (era, schedule) in enumerate(playable()):
        if report.is_hopeless:
            report.left_out = len(playable()) - done
            break
        on_begin(f"{schedule.slug}, {era}")
        deployment = remote.RemoteDeployment(url, ledger, hang_seconds=hang_seconds)
        async with deployment.running():
            seen = observe(await play(schedule, era, deployment, column))
        report.observations.append(seen)
    return await _judged(report, on_option)


def playable() -> list[tuple[Era, Schedule]]:
    """The schedules that can be played on a server reached by URL."""
    return [
        (era, schedule)
        for era in ERAS
        for schedule in SCHEDULES.values()
        if remote.can_play(schedule) and (schedule.script if era == "modern" else schedule.legacy)
    ]


async def _judged(report: Report, on_option: Told) -> Report:
    own = report.own
    guaranteed = guarantees.guaranteed(own)
    fair = report.observations if own else _without_failover(report.observations)
    report.broken = guarantees.broken(fair, guaranteed, own)
    report.nearest = await nearest(report.observations, on_option)
    return report


def _without_failover(observations: Sequence[Observation]) -> list[Observation]:
    """What a proposal without guarantees is held to: one instance, unless it survives a failover."""
    survives = any(
        seen.schedule == "failover" and seen.deployment == "two" and seen.outcome == "completed"
        for seen in observations
    )
    return [seen for seen in observations if survives or seen.deployment == "one"]


_played: dict[tuple[str, str, str], Observation] = {}
"""What was seen of the options themselves, by schedule, era and letter; one process plays them once."""


async def nearest(observations: Sequence[Observation], on_option: Told = _ignore) -> Nearest:
    """The option with the fewest differences, on one instance.

    The option with the fewest so far is the one that is played on. When one is through, every other has
    as many already, so most of what they do is never looked at.

    Args:
        observations: Of the proposal.
        on_option: Told the name of each run of an option before it is made.
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
