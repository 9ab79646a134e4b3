"""The judge on trial: options that are broken on purpose, and whether the review notices.

A review that finds nothing wrong proves nothing until it has been seen to find something. Every
mutant (`mutants/*.py`) breaks one guarantee and names it; it goes the way of any proposal (`check`)
through the schedules that this guarantee is about, until one of them refutes it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtr_options.bench.observations import observe
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import guarantees
from mrtr_options.judge.check import load_proposal, play_proposal
from mrtr_options.judge.matrix import cells
from mrtr_options.tool.catalogue import Option, installed, option_named, whole_deck

HANG_SECONDS = 5.0
"""How long one request of a mutant may take. A mutant that never answers costs this much."""

FOLDER = Path(__file__).parent / "mutants"


@dataclass(frozen=True)
class Mutant:
    """A deliberately broken option.

    Attributes:
        name: The file's name, without ".py".
        path: The file.
        guarantee: The name of the guarantee that it breaks.
    """

    name: str
    path: Path
    guarantee: str

    @property
    def option(self) -> Option:
        """The mutant as an option, with the guarantees of the option that its name begins with."""
        return Option("?", self.name, self.path, option_named(self.name[0]).guarantees)

    @property
    def title(self) -> str:
        """What is broken, from the file's first line."""
        return self.option.title


@dataclass(frozen=True)
class Trial:
    """Whether the review caught a mutant.

    Attributes:
        mutant: The mutant.
        caught: The first observation that refutes the guarantee it breaks; None if it escaped.
    """

    mutant: Mutant
    caught: guarantees.Broken | None

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "name": self.mutant.name,
            "guarantee": self.mutant.guarantee,
            "caught_by": self.caught.seen.schedule if self.caught else None,
        }


def all_mutants() -> list[Mutant]:
    """Every mutant there is, by name."""
    paths = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")
    return [Mutant(path.stem, path, _breaks(path)) for path in paths]


def _breaks(path: Path) -> str:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name("BREAKS")], value=ast.Constant(str(guarantee))):
                return guarantee
            case _:
                continue
    raise ValueError(f"{path} does not say what it breaks; give it BREAKS = the name of a guarantee")


async def try_mutant(mutant: Mutant, *, hang_seconds: float = HANG_SECONDS) -> Trial:
    """Put a mutant before the review.

    Args:
        mutant: Which.
        hang_seconds: How long one request may take before it is called hung.

    Raises:
        CannotLoad: The file is not an option that can be run.
        ValueError: There is no guarantee of the name that it says it breaks.
    """
    load_proposal(mutant.path)
    option = mutant.option
    own = option.guarantees
    assert own is not None
    # A mutant may break what the option it is made from does not guarantee: a state that is only signed.
    known = [*guarantees.guaranteed(own), *guarantees.unclaimed(own), guarantees.SEALED]
    named = [guarantee for guarantee in known if guarantee.name == mutant.guarantee][:1]
    if not named:
        raise ValueError(f"{mutant.path} breaks {mutant.guarantee!r}, and no option guarantees that")
    schedules = [SCHEDULES[slug] for guarantee in named for slug in guarantee.schedules or SCHEDULES]
    for cell in cells([Column(option)], schedules=schedules, eras=named[0].eras):
        seen = observe(await play_proposal(cell, hang_seconds=hang_seconds))
        if broken := guarantees.broken([seen], named, own):
            return Trial(mutant, broken[0])
    return Trial(mutant, None)


async def try_all(
    mutants: Sequence[Mutant], on_tried: Callable[[Trial], None] = lambda trial: None
) -> list[Trial]:
    """Put mutants before the review, one after the other.

    Args:
        mutants: Which.
        on_tried: Told of each.
    """
    trials: list[Trial] = []
    for mutant in mutants:
        trials.append(await try_mutant(mutant))
        on_tried(trials[-1])
    return trials


def can_run(mutant: Mutant) -> bool:
    """Whether the option that a mutant is made from has the extra it needs."""
    letter, _, _ = mutant.name.partition("_")
    option = whole_deck().get(letter.upper())
    return option is None or option.extra is None or installed(option.extra)
