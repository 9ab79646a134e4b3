"""What `matrix --soak` prints. Knows the search and the terminal."""

from __future__ import annotations

import json
import secrets
import time
from functools import partial

import anyio

from mrtr_options.judge import search
from mrtr_options.judge.contract import RULES
from mrtr_options.judge.findings import story
from mrtr_options.show.progress import progress
from mrtr_options.show.terminal import plural


def soak(minutes: float, seed: int | None, *, as_json: bool) -> int:
    """Search until the time is up, and say what was found. Returns 1 if something was.

    Args:
        minutes: How long to begin new runs.
        seed: Where to start; None for anywhere.
        as_json: Whether to print JSON.
    """
    first = secrets.randbelow(1_000_000) if seed is None else seed
    start = time.monotonic()
    if not as_json:
        print(f"seed {first}", flush=True)
    with progress(quiet=as_json) as bar:
        task = bar.add_task("runs", total=None)
        look = partial(
            search.search, seed=first, seconds=minutes * 60, on_played=lambda: bar.advance(task)
        )
        found = anyio.run(look, search.subjects_to_search())
        played = int(bar.tasks[task].completed)
    seconds = time.monotonic() - start
    if as_json:
        failure = found and {"column": found[0].name, **found[1].as_json()}
        report = {"seed": first, "runs": played, "seconds": round(seconds, 1), "failure": failure}
        print(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        print(f"{plural(played, 'run')} in {seconds:.0f} s")
    if found is None:
        return 0
    column, finding = found
    if not as_json:
        print(f"{column.name} breaks {finding.rule}: {RULES[finding.rule]} (again with --seed {first})")
        for line in story(finding):
            print(f"  {line}")
    return 1
