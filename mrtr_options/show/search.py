"""What `matrix --soak` prints. Knows the search, which needs hypothesis, and the terminal."""

from __future__ import annotations

import json
import secrets
import time

from mrtr_options.judge import search
from mrtr_options.show.progress import progress
from mrtr_options.show.terminal import plural


def soak(minutes: float, seed: int | None, *, as_json: bool) -> int:
    """Search until the time is up, and say what was found. Returns 1 if something was.

    Args:
        minutes: How long to begin new schedules.
        seed: Where to start; None for anywhere.
        as_json: Whether to print JSON.
    """
    first = secrets.randbelow(1_000_000) if seed is None else seed
    columns = search.known_columns()
    start = time.monotonic()
    left = minutes * 60
    played = batch = 0
    failure = None
    if not as_json:
        print(f"seed {first}", flush=True)
    with progress(quiet=as_json) as bar:
        task = bar.add_task("schedules", total=None)

        def on_played() -> None:
            nonlocal played
            played += 1
            bar.advance(task)

        while failure is None and left > 0:
            failure = search.search(
                columns, examples=_BATCH, seed=first + batch, seconds=left, on_played=on_played
            )
            batch += 1
            left = minutes * 60 - (time.monotonic() - start)
    seconds = time.monotonic() - start
    if as_json:
        report = {
            "seed": first,
            "schedules": played,
            "seconds": round(seconds, 1),
            "failure": failure and failure.as_json(),
        }
        print(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        print(f"{plural(played, 'schedule')} in {seconds:.0f} s")
        if failure is not None:
            _print(failure, first + batch - 1)
    return 0 if failure is None else 1


_BATCH = 200
"""How many schedules are tried from one seed; the next batch starts from the next one."""


def _print(failure: search.Disagreement, seed: int) -> None:
    print(f"{failure.column.name} on {failure.place} fails under (again with --seed {seed}):")
    print(search.source(failure.schedule))
    print("expected:", failure.expected)
    print("seen:", failure.seen)
    if not failure.always:
        print("It did not happen again when the schedule was played again: it depends on timing.")
