"""Mutants: options that are broken on purpose, to test whether the review notices.

Each mutant is a small change to an option file (`mutants.toml`) and names the guarantee that it breaks.
The changed file is reviewed as a proposal (`check`) under the schedules that this guarantee is about,
until one of them shows it broken. A mutant that is broken about deliveries also names an anomaly and a
smallest set of faults that shows it: what `explore` finds without the schedules.

Knows `bench`, the exploration, and how a proposal is reviewed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mrtr_options.bench.deployments import environment
from mrtr_options.bench.explore import World, parse, play
from mrtr_options.bench.runs import engine_for, one_engine
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column, column_named
from mrtr_options.judge import anomalies, guarantees
from mrtr_options.judge.check import play_proposal
from mrtr_options.judge.matrix import cells
from mrtr_options.judge.shares import explored
from mrtr_options.judge.witnesses import Explored, Faults, is_part
from mrtr_options.tool.catalogue import CannotLoad, Option, installed, load, option_named
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import SqliteLedger

HANG_SECONDS = 5.0
"""How long one request of a mutant may take. A mutant that never answers costs this much."""

MUTANTS = Path(__file__).with_name("mutants.toml")

_FUTURE = "from __future__ import annotations\n"
_PARTS = "\nfrom mrtr_options.judge import mutant_parts as parts\n"


class Mutant(BaseModel):
    """A deliberately broken option, as `mutants.toml` has it.

    Attributes:
        name: Begins with the letter of the option that it is made from.
        title: What is broken.
        seen: Where such a fault was seen.
        breaks: The name of the guarantee that it breaks; empty where that takes more faults than a
            schedule with a name has.
        diff: The change to the option file.
        shows: Of one that is broken about deliveries: the anomaly by which `explore` finds it.
        faults: A smallest set of faults that shows this anomaly.
        beside: The sound subject, which does not show it; the option alone where it is left out.
        honours_keys: Whether the effects' destination honours idempotency keys then.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    title: str
    seen: str
    diff: str
    breaks: str = ""
    shows: str = ""
    faults: str = ""
    beside: str = ""
    honours_keys: bool = False

    @property
    def of(self) -> Option:
        """The option that it is made from."""
        return option_named(self.name[0])

    @property
    def source(self) -> str:
        """The changed option file.

        Raises:
            CannotLoad: A place of the diff is not found once in the option file.
        """
        source = self.of.source
        for place in re.split(r"^@@.*\n", self.diff, flags=re.MULTILINE):
            lines = [line or " " for line in place.splitlines()]
            before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
            after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
            if (found := source.count(f"\n{before}")) != 1:
                raise CannotLoad(
                    f"{MUTANTS.name}: [{self.name}] this is {found} times in {self.of.path.name}, "
                    f"not once: {before!r}"
                )
            source = source.replace(f"\n{before}", f"\n{after}")
        return source.replace(_FUTURE, _FUTURE + _PARTS)

    @property
    def witness(self) -> Faults:
        """A smallest set of faults by which `explore` finds it."""
        return parse(self.faults)

    @property
    def sound(self) -> World:
        """What is explored beside it."""
        subject = column_named(self.beside) if self.beside else Column(self.of)
        return World(subject, honours_keys=self.honours_keys)

    @contextmanager
    def written(self) -> Generator[Column]:
        """Its file, for as long as the block lasts.

        Raises:
            CannotLoad: It is not an option that can be run.
        """
        with scratch() as folder:
            path = folder / f"{self.name}.py"
            path.write_text(self.source, encoding="utf-8")
            _load(path)
            yield Column(Option("?", self.name, path, self.of.guarantees))


def _load(path: Path) -> None:
    """Load a mutant's file, to see whether it can be run at all.

    Raises:
        CannotLoad: It cannot.
    """
    with scratch() as folder:
        ledger = folder / "ledger.sqlite"
        with environment(ledger, [new_key()]):
            load(path, Settings(SqliteLedger(ledger)))


@dataclass(frozen=True)
class Trial:
    """Whether the review caught a mutant.

    Attributes:
        mutant: The mutant.
        caught: The first observation that shows the guarantee broken, if any does.
        is_shown: Whether its faults show its anomaly, fewer of them do not, and the sound subject does
            not.
    """

    mutant: Mutant
    caught: guarantees.Broken | None
    is_shown: bool

    @property
    def escaped(self) -> bool:
        """Whether something that should have shown it did not."""
        by_schedule = bool(self.mutant.breaks) and self.caught is None
        return by_schedule or (bool(self.mutant.faults) and not self.is_shown)

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "name": self.mutant.name,
            "guarantee": self.mutant.breaks,
            "caught_by": self.caught.seen.schedule if self.caught else None,
            "anomaly": self.mutant.shows,
            "shown_by": self.mutant.faults if self.is_shown else None,
        }


def all_mutants() -> list[Mutant]:
    """Every mutant there is, in the order of the file.

    Raises:
        CannotLoad: The file is not TOML, or a key is missing, unknown, or has a wrong value.
    """
    try:
        tables = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CannotLoad(f"{MUTANTS}: {error}") from error
    return [_mutant(name, table) for name, table in tables.items()]


def _mutant(name: str, table: dict[str, Any]) -> Mutant:
    try:
        return Mutant(name=name, **table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CannotLoad(f"{MUTANTS}: [{name}] {where}: {first['msg']}") from error


@contextmanager
def subjects_named(names: Sequence[str]) -> Generator[list[Column]]:
    """Subjects and mutants by their names; the mutants' files last as long as the block.

    Raises:
        CannotLoad: There is none of a name.
    """
    mutants = {mutant.name: mutant for mutant in all_mutants()}
    with ExitStack() as files:
        yield [
            files.enter_context(mutants[name].written()) if name in mutants else column_named(name)
            for name in names
        ]


def mutant_named(name: str) -> Mutant:
    """The mutant of this name.

    Raises:
        CannotLoad: There is none.
    """
    mutants = {mutant.name: mutant for mutant in all_mutants()}
    if name in mutants:
        return mutants[name]
    near = get_close_matches(name, mutants, n=3, cutoff=0.5) or mutants
    raise CannotLoad(f"there is no mutant {name!r}; there are {', '.join(near)}")


async def try_mutant(mutant: Mutant, *, hang_seconds: float = HANG_SECONDS) -> Trial:
    """Review a mutant.

    Args:
        mutant: Which.
        hang_seconds: How long one request may take before it is called hung.

    Raises:
        CannotLoad: It is not an option that can be run, or there is no guarantee of the name that it
            says it breaks.
    """
    with mutant.written() as subject:
        caught = await _caught(mutant, subject, hang_seconds) if mutant.breaks else None
        return Trial(mutant, caught, bool(mutant.faults) and await _is_shown(mutant, subject))


async def _caught(mutant: Mutant, subject: Column, hang_seconds: float) -> guarantees.Broken | None:
    own = mutant.of.guarantees
    assert own is not None
    # Also what the option does not guarantee: the guard around it may.
    known = [*guarantees.guaranteed(own), *guarantees.unclaimed(own)]
    named = [guarantee for guarantee in known if guarantee.name == mutant.breaks][:1]
    if not named:
        raise CannotLoad(
            f"{MUTANTS.name}: [{mutant.name}] breaks {mutant.breaks!r}, and no option guarantees that"
        )
    schedules = [SCHEDULES[slug] for guarantee in named for slug in guarantee.schedules or SCHEDULES]
    to_run = cells([subject], schedules=schedules, eras=named[0].eras)
    async with one_engine(to_run) as database:
        for cell in to_run:
            history = await play_proposal(cell, hang_seconds=hang_seconds, database=database())
            if broken := guarantees.broken([guarantees.observed(history)], named, own):
                return broken[0]
    return None


async def _is_shown(mutant: Mutant, subject: Column) -> bool:
    broken, whole = replace(mutant.sound, subject=subject), mutant.witness
    fewer = [part for size in range(len(whole)) for part in combinations(whole, size)]
    async with engine_for([subject]) as database:

        async def shows(world: World, faults: Faults) -> bool:
            played = await play(world, faults, database=database())
            return mutant.shows in anomalies.found(played.history)

        return (
            await shows(broken, whole)
            and not await shows(mutant.sound, whole)
            and not any([await shows(broken, part) for part in fewer])
        )


@dataclass(frozen=True)
class Exploration:
    """What `explore` finds of a mutant that it does not find of the sound subject.

    Attributes:
        mutant: The mutant.
        histories: How many runs of it were made.
        more: Anomalies with the smallest sets of faults that show them, and not in the sound subject.
    """

    mutant: Mutant
    histories: int
    more: dict[str, list[Faults]]

    @property
    def is_found(self) -> bool:
        """Whether its witness is among them, and nothing is that takes fewer faults."""
        fewest = min((len(faults) for sets in self.more.values() for faults in sets), default=0)
        whole = self.mutant.witness
        shown = [tuple(sorted(faults)) for faults in self.more.get(self.mutant.shows, [])]
        return len(whole) == fewest and whole in shown

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "name": self.mutant.name,
            "found": self.is_found,
            "histories": self.histories,
            "more": {
                name: [" ".join(map(str, each)) for each in sets] for name, sets in self.more.items()
            },
        }


def explore_all(mutants: Sequence[Mutant]) -> Generator[Exploration]:
    """Explore the mutants that are broken about deliveries, each up to as many faults as it takes.

    Args:
        mutants: Which.
    """
    with ExitStack() as files:
        worlds = {
            replace(mutant.sound, subject=files.enter_context(mutant.written())): mutant
            for mutant in mutants
            if mutant.faults
        }
        bounds = {world: len(mutant.witness) for world, mutant in worlds.items()}
        for mutant in worlds.values():
            bounds[mutant.sound] = max(len(mutant.witness), bounds.get(mutant.sound, 0))
        waiting, found = dict(worlds), dict[World, Explored]()
        for each in explored(bounds):
            found[each.world] = each
            for world, mutant in list(waiting.items()):
                if world in found and mutant.sound in found:
                    del waiting[world]
                    more = _more(found[world], found[mutant.sound])
                    yield Exploration(mutant, found[world].histories, more)


def _more(found: Explored, sound: Explored) -> dict[str, list[Faults]]:
    more = {
        name: [
            faults
            for faults in sets
            if not any(is_part(less, faults) for less in sound.witnesses.get(name, []))
        ]
        for name, sets in found.witnesses.items()
    }
    return {name: sets for name, sets in more.items() if sets}


async def try_all(
    mutants: Sequence[Mutant], on_begin: Callable[[str], None] = lambda name: None
) -> list[Trial]:
    """Review mutants, one after the other.

    Args:
        mutants: Which.
        on_begin: Told the name of each before it is tried.
    """
    trials: list[Trial] = []
    for mutant in mutants:
        on_begin(mutant.name)
        trials.append(await try_mutant(mutant))
    return trials


def can_run(mutant: Mutant) -> bool:
    """Whether the option that a mutant is made from has the extra it needs."""
    return mutant.of.extra is None or installed(mutant.of.extra)
