"""What `mutants` prints. Knows the trials and the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import shorten

import anyio
from rich.table import Table
from rich.text import Text

from mrtr_options.judge import mutation, operators
from mrtr_options.judge.mutation import Trial
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
    everyone = [mutation.mutant_named(name) for name in names] or mutation.all_mutants()
    mutants = [mutant for mutant in everyone if mutation.can_run(mutant)]
    if left_out := len(everyone) - len(mutants):
        why = f"left out: {plural(left_out, 'mutant')}, for want of an extra; {ADDS_THEM}"
        if not mutants:
            raise CannotLoad(f"nothing to try; {why}")
        console(stderr=True).print(why)
    with progress(quiet=as_json) as bar:
        task = bar.add_task("mutants", total=len(mutants))
        trials = anyio.run(mutation.try_all, mutants, stepping(bar, task))
    if as_json:
        print(json.dumps([trial.as_json() for trial in trials], ensure_ascii=False, indent=1))
    else:
        _print(trials)
    return 1 if any(trial.caught is None for trial in trials) else 0


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
    with progress(quiet=as_json) as bar:
        task = bar.add_task("mutants", total=len(drawn))
        judged = operators.reviewed(drawn, lambda one: bar.advance(task))
    survived = [each for each in judged if each.by is None]
    if as_json:
        print(json.dumps([each.as_json() for each in judged], ensure_ascii=False, indent=1))
        return 0
    out = console()
    for each in survived:
        out.print(Text.assemble(("survives ", "bold red"), str(each.change)), soft_wrap=True)
    out.print(f"kills {len(judged) - len(survived)} of {plural(len(judged), 'mutant')} (seed {seed})")
    return 0


def _print(trials: Sequence[Trial]) -> None:
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("mutant", no_wrap=True)
    table.add_column("guarantee, and what was seen", overflow="fold")
    table.add_column("caught by", no_wrap=True)
    for trial in trials:
        caught = trial.caught
        seen = caught.why if caught else trial.mutant.title
        table.add_row(
            trial.mutant.name,
            Text.assemble(trial.mutant.breaks, "\n", (shorten(seen, SEEN_CHARACTERS), "dim")),
            Text(caught.seen.schedule, "green") if caught else Text("nothing", "bold red"),
        )
    out.print(table)
    escaped = sum(trial.caught is None for trial in trials)
    out.print(
        f"{plural(len(trials), 'mutant')}, {f'{escaped} escaped' if escaped else 'all caught'}",
        style="bold red" if escaped else "green",
    )
