"""Mutants: options that are broken on purpose, to test whether the review notices.

A mutant is a small change to an option file (`mutants.toml`). It names the rule or the
guarantee that it breaks. The changed file is reviewed as a proposal (`check`) under its schedules,
until one of them shows it broken. If its deliveries are broken, it also names an anomaly and a
smallest set of faults that shows it.

Knows the package; only the mutants' files know `parts`.
"""

import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from shutil import copyfile

from pydantic import BaseModel, ConfigDict, ValidationError

from mrtr_options.review.bench.deployments import environment, scratch
from mrtr_options.review.bench.faults import Faults, parse
from mrtr_options.review.bench.redeploys import CannotPatch, next_versions_of, patched
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.judge import guarantees
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.judge.grid import cells
from mrtr_options.review.judge.observation import Observation
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool.catalogue import CannotLoad, Option, load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import Destination, SqliteLedger

HANG_SECONDS = 5.0
"""The time that one request of a mutant may take. A mutant that never answers costs this much."""

MUTANTS = Path(__file__).with_name("mutants.toml")

_FUTURE = "from __future__ import annotations\n"
_PARTS = "\nfrom tests.mutants import parts\n"


class Mutant(BaseModel):
    """A deliberately broken option, as `mutants.toml` has it.

    Attributes:
        name: The name, which begins with the letter of the changed option.
        title: The bug.
        seen: A place where such a bug was seen.
        breaks: The name of the rule or the guarantee that it breaks. It is empty if that takes
            more faults than a named schedule has, or if the contract allows the bug.
        diff: The change to the option file.
        shows: The anomaly that its faults show; empty if no fault is needed.
        faults: A smallest set of faults that shows this anomaly.
        beside: The sound subject, which does not show it; by default the option alone.
        destination: The destination of the effects under these faults.
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
    destination: Destination = "ignores keys"

    @property
    def of(self) -> Option:
        """The option that the mutant changes."""
        return option_named(self.name[0])

    @property
    def source(self) -> str:
        """The changed option file.

        Raises:
            CannotLoad: A place of the diff is not found exactly once in the option file.
        """
        try:
            source = patched(self.of.source, self.diff, f"{MUTANTS.name}: [{self.name}]")
        except CannotPatch as error:
            raise CannotLoad(str(error)) from error
        return source.replace(_FUTURE, _FUTURE + _PARTS) if "parts." in self.diff else source

    @contextmanager
    def written(self) -> Generator[Subject]:
        """Write its file for the length of the block.

        Raises:
            CannotLoad: The file is not an option that can be run.
        """
        with scratch() as folder:
            path = folder / f"{self.name}.py"
            ledger = folder / "ledger.sqlite"
            path.write_text(self.source, encoding="utf-8")
            mutant = Option("?", self.name, path, self.of.guarantees)
            copyfile(next_versions_of(self.of), next_versions_of(mutant))
            with environment(ledger, [new_key()]):
                load(path, Settings(SqliteLedger(ledger)))
            yield Subject(mutant)


def all_mutants() -> list[Mutant]:
    """Return every mutant, in the order of the file.

    Raises:
        CannotLoad: The file is not TOML, or a key is missing, unknown, or has a wrong value.
    """
    try:
        tables = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))
        return [Mutant.model_validate({"name": name, **table}) for name, table in tables.items()]
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise CannotLoad(f"{MUTANTS.name}: {error}") from error


def mutant_named(name: str) -> Mutant:
    """Return the mutant of this name.

    Raises:
        CannotLoad: No mutant has this name.
    """
    mutants = {mutant.name: mutant for mutant in all_mutants()}
    if name in mutants:
        return mutants[name]
    near = get_close_matches(name, mutants, n=3, cutoff=0.5) or mutants
    raise CannotLoad(f"there is no mutant {name!r}; there are {', '.join(near)}")


async def caught(mutant: Mutant) -> str | None:
    """Return the checks of the review that catch a mutant, or None if it escapes.

    A mutant that names both a property and faults has to be caught by both.

    Raises:
        CannotLoad: The file is not an option that can be run, or `breaks` names no property.
    """
    with mutant.written() as subject:
        by: list[str] = []
        if mutant.breaks:
            seen = await _broken(mutant, subject)
            if seen is None:
                return None
            by.append(f"{mutant.breaks}, {seen.schedule}: {seen.breaks[mutant.breaks]}")
        if mutant.faults:
            if not await _is_shown(mutant, subject):
                return None
            by.append(f"{mutant.shows} under {mutant.faults}")
        return "; ".join(by) or None


async def _broken(mutant: Mutant, subject: Subject) -> Observation | None:
    own = mutant.of.guarantees
    assert own is not None
    # The guard around an option may guarantee what the option alone does not.
    known = [*guarantees.held_to(own), *guarantees.undeclared(own)]
    named = next((each for each in known if each.name == mutant.breaks), None)
    if named is None:
        raise CannotLoad(
            f"{MUTANTS.name}: no option guarantees {mutant.breaks!r} of [{mutant.name}]"
        )
    to_run = [
        cell
        for cell in cells([subject])
        if named.applies_to(cell.scenario.name, cell.scenario.setup.era, cell.deployment)
    ]
    async with in_memory([subject], hang_seconds=HANG_SECONDS) as here:
        for cell in to_run:
            seen = guarantees.judge_history(await run(subject, cell.scenario, here), own)
            if guarantees.find_broken([seen], [named], own):
                return seen
    return None


async def _is_shown(mutant: Mutant, subject: Subject) -> bool:
    """Return whether its faults show its anomaly, and need all faults and the bug to do so."""
    sound = subject_named(mutant.beside) if mutant.beside else Subject(mutant.of)
    call = calling(destination=mutant.destination)
    whole = parse(mutant.faults)
    fewer = [part for size in range(len(whole)) for part in combinations(whole, size)]
    async with in_memory([subject]) as here:

        async def shows(subject: Subject, faults: Faults) -> bool:
            return mutant.shows in anomalies_in(await run(subject, call.under(faults), here))

        return (
            await shows(subject, whole)
            and not await shows(sound, whole)
            and not any([await shows(subject, part) for part in fewer])
        )
