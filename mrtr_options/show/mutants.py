"""What `mutants` prints. Knows the trials and the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import shorten

import anyio
from rich.table import Table
from rich.text import Text

from mrtr_options.judge import mutation
from mrtr_options.judge.mutation import Trial
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import console, plural

SEEN_CHARACTERS = 80
"""How much is printed of what was seen."""


def show(names: Sequence[str], *, as_json: bool) -> int:
    """Try mutants and print what caught each. Returns 1 if one escaped.

    Args:
        names: Which; none for all of them.
        as_json: Whether to print JSON.

    Raises:
        CannotLoad: There is no such mutant, or it cannot be run.
    """
    everyone = [mutation.mutant_named(name) for name in names] or mutation.all_mutants()
    mutants = [mutant for mutant in everyone if mutation.can_run(mutant)]
    if left_out := len(everyone) - len(mutants):
        console(stderr=True).print(
            f"left out: {plural(left_out, 'mutant')}, for want of an extra; "
            "pip install 'mrtr-options[durable]' adds them"
        )
    with progress(quiet=as_json) as bar:
        task = bar.add_task("mutants", total=len(mutants))
        trials = anyio.run(mutation.try_all, mutants, stepping(bar, task))
    if as_json:
        print(json.dumps([trial.as_json() for trial in trials], ensure_ascii=False, indent=1))
    else:
        _print(trials)
    return 1 if any(trial.caught is None for trial in trials) else 0


def _print(trials: Sequence[Trial]) -> None:
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("mutant")
    table.add_column("guarantee, and what was seen")
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
