"""What `mutants` prints. Knows the trials and the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import shorten

import anyio
from rich.table import Table
from rich.text import Text

from mrtr_options.judge import mutation, operators
from mrtr_options.judge.mutation import Exploration, Mutant, Trial
from mrtr_options.judge.operators import Judged
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import console, plural
from mrtr_options.tool.catalogue import CannotLoad

SEEN_CHARACTERS = 80
"""How much is printed of what was seen."""

ADDS_THEM = "pip install 'mrtr-options[durable]' adds them"


def show(names: Sequence[str], *, as_json: bool) -> int:
    """Try mutants and print what caught each. Returns 1 if one escaped.

    Args:
        names: Which; none for all of them.
        as_json: Whether to print JSON.

    Raises:
        CannotLoad: There is no such mutant, or none of them can be tried here.
    """
    mutants = _chosen(names)
    with progress(quiet=as_json) as bar:
        task = bar.add_task("mutants", total=len(mutants))
        trials = anyio.run(mutation.try_all, mutants, stepping(bar, task))
    if as_json:
        print(json.dumps([trial.as_json() for trial in trials], ensure_ascii=False, indent=1))
    else:
        _print(trials)
    return 1 if any(trial.escaped for trial in trials) else 0


def _chosen(names: Sequence[str]) -> list[Mutant]:
    everyone = [mutation.mutant_named(name) for name in names] or mutation.all_mutants()
    mutants = [mutant for mutant in everyone if mutation.can_run(mutant)]
    if left_out := len(everyone) - len(mutants):
        why = f"left out: {plural(left_out, 'mutant')}, for want of an extra; {ADDS_THEM}"
        if not mutants:
            raise CannotLoad(f"nothing to try; {why}")
        console(stderr=True).print(why)
    return mutants


def show_explored(names: Sequence[str], *, as_json: bool) -> int:
    """Explore the mutants that are broken about deliveries. Returns 1 if one is not found.

    Args:
        names: Which; none for all of them.
        as_json: Whether to print JSON.

    Raises:
        CannotLoad: There is no such mutant, or it is not about deliveries.
    """
    mutants = [mutant for mutant in _chosen(names) if mutant.faults]
    if not mutants:
        raise CannotLoad("none of these mutants is broken about deliveries; leave out --explore")
    done: list[Exploration] = []
    with progress(quiet=as_json) as bar:
        task = bar.add_task("mutants", total=len(mutants))
        for found in mutation.explore_all(mutants):
            done.append(found)
            bar.advance(task)
    if as_json:
        print(json.dumps([each.as_json() for each in done], ensure_ascii=False, indent=1))
    else:
        _print_explored(done)
    return 0 if all(each.is_found for each in done) else 1


def _print_explored(done: Sequence[Exploration]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("mutant", "anomaly", "smallest witness", "histories"):
        table.add_column(column, no_wrap=column != "anomaly")
    for each in done:
        faults = Text(each.mutant.faults, "green") if each.is_found else Text("not found", "bold red")
        table.add_row(each.mutant.name, each.mutant.shows, faults, f"{each.histories:,}")
    console().print(table)


def show_drawn(files: Sequence[str], size: int, seed: int, *, as_json: bool) -> int:
    """Draw mutants at random, review them, and print the score and what survives.

    Args:
        files: Part of the names of the files that are changed; none for all option files and stand-ins.
        size: How many mutants.
        seed: The same one draws the same.
        as_json: Whether to print JSON.

    Raises:
        CannotLoad: There is no such file.
    """
    every = operators.files()
    wanted = [file for file in every if not files or any(part in file for part in files)]
    if not wanted:
        raise CannotLoad(f"no option file or stand-in is called so; there are {', '.join(every)}")
    drawn = operators.sample(wanted, size, seed)
    judged: list[Judged] = []
    with progress(quiet=as_json) as bar:
        sound, mutants = (
            bar.add_task("as they are", total=None),
            bar.add_task("mutants", total=len(drawn)),
        )
        out = console(quiet=as_json)
        try:
            for each in operators.reviewed(drawn, stepping(bar, sound)):
                judged.append(each)
                bar.advance(mutants)
                out.print(_verdict(each), soft_wrap=True)
        finally:  # also where it is interrupted
            if as_json:
                print(json.dumps([each.as_json() for each in judged], ensure_ascii=False, indent=1))
            else:
                out.print(_score(judged, len(drawn), seed))
    return 0


def _verdict(judged: Judged) -> Text:
    if judged.by is not None:
        return Text.assemble(("killed ", "green"), f"{judged.change}, by {judged.by}")
    if judged.test is not None:
        return Text.assemble(("survives ", "green"), f"{judged.change}, killed by {judged.test}")
    if judged.because is not None:
        return Text.assemble(("survives ", "yellow"), f"{judged.change}, equivalent: {judged.because}")
    return Text.assemble(("survives ", "bold red"), str(judged.change))


def _score(judged: Sequence[Judged], drawn: int, seed: int) -> str:
    """How many were killed, of the option files and of the stand-ins."""
    parts: list[str] = []
    for what, of_sdk in (("option files", False), ("stand-ins", True)):
        some = [each for each in judged if each.change.file.startswith("sdk/") == of_sdk]
        if some:
            killed = sum(each.by is not None for each in some)
            tested = sum(each.test is not None for each in some)
            equivalent = sum(each.because is not None for each in some)
            rest = len(some) - killed - tested - equivalent
            parts.append(
                f"{what}: kills {killed} of {len(some)}; of the others, {tested} killed by tests, "
                f"{equivalent} equivalent, {rest} unexplained"
            )
    left = f", {drawn - len(judged)} not judged" if len(judged) < drawn else ""
    return f"{'; '.join(parts)} (seed {seed}{left})"


def _print(trials: Sequence[Trial]) -> None:
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("mutant", no_wrap=True)
    table.add_column("guarantee or anomaly, and what was seen", overflow="fold")
    table.add_column("caught by", no_wrap=True)
    for trial in trials:
        mutant, caught = trial.mutant, trial.caught
        seen = caught.why if caught else mutant.title
        by = caught.seen.schedule if caught else mutant.faults
        table.add_row(
            mutant.name,
            Text.assemble(mutant.breaks or mutant.shows, "\n", (shorten(seen, SEEN_CHARACTERS), "dim")),
            Text("nothing", "bold red") if trial.escaped else Text(by, "green"),
        )
    out.print(table)
    escaped = sum(trial.escaped for trial in trials)
    out.print(
        f"{plural(len(trials), 'mutant')}, {f'{escaped} escaped' if escaped else 'all caught'}",
        style="bold red" if escaped else "green",
    )
