"""Mutants: options that are broken on purpose, to test whether the review notices.

Each mutant is a small change to an option file (`mutants.toml`) and names the guarantee that it breaks.
The changed file is reviewed as a proposal (`check`) under the schedules that this guarantee is about,
until one of them shows it broken. Knows `bench`, and how a proposal is reviewed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mrtr_options.bench.observations import observe
from mrtr_options.bench.runs import one_engine
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import guarantees
from mrtr_options.judge.check import load_proposal, play_proposal
from mrtr_options.judge.matrix import cells
from mrtr_options.tool.catalogue import CannotLoad, Option, installed, option_named

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
        breaks: The name of the guarantee that it breaks.
        diff: The change to the option file.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    title: str
    seen: str
    breaks: str
    diff: str

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


@dataclass(frozen=True)
class Trial:
    """Whether the review caught a mutant.

    Attributes:
        mutant: The mutant.
        caught: The first observation that shows the guarantee broken; None if the mutant escaped.
    """

    mutant: Mutant
    caught: guarantees.Broken | None

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "name": self.mutant.name,
            "guarantee": self.mutant.breaks,
            "caught_by": self.caught.seen.schedule if self.caught else None,
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
    with scratch() as folder:
        path = folder / f"{mutant.name}.py"
        path.write_text(mutant.source, encoding="utf-8")
        load_proposal(path)
        column = Column(Option("?", mutant.name, path, own))
        to_run = cells([column], schedules=schedules, eras=named[0].eras)
        async with one_engine(to_run) as database:
            for cell in to_run:
                history = await play_proposal(cell, hang_seconds=hang_seconds, database=database())
                if broken := guarantees.broken([observe(history)], named, own):
                    return Trial(mutant, broken[0])
    return Trial(mutant, None)


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
