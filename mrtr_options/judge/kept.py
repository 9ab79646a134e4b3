"""Runs of the matrix in a file, so that several processes can use them and one plays them.

Knows the matrix and what an observation is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from mrtr_options.bench.observations import Observation
from mrtr_options.judge.matrix import Cell, run

PLAYED_VARIABLE = "MRTR_PLAYED"
"""The environment variable that names a file of runs; see `played`."""

_OBSERVATIONS = TypeAdapter(list[Observation])


def keep(observations: list[Observation], file: Path) -> None:
    """Write runs for `read` and `played`."""
    file.write_bytes(_OBSERVATIONS.dump_json(observations))


def read(file: Path) -> list[Observation]:
    """The runs that `keep` has written."""
    return _OBSERVATIONS.validate_json(file.read_bytes())


async def played(
    to_run: Sequence[Cell], on_begin: Callable[[str], None] = lambda name: None
) -> list[Observation]:
    """The runs, made now; where `MRTR_PLAYED` names a file that `keep` has written, those in it.

    The tests play the matrix once and hand it to a notebook's kernel in this way. A file that another
    version of the code has written shows what that version did.

    Args:
        to_run: Which.
        on_begin: Told the name of each run before it is made.

    Raises:
        ValueError: One of the runs is not in the file.
    """
    name = os.environ.get(PLAYED_VARIABLE)
    if name is None:
        return await run(to_run, on_begin)
    found = {(seen.subject, seen.schedule, seen.era, seen.deployment): seen for seen in read(Path(name))}
    keys = [
        (cell.subject.name, cell.scenario.name, cell.scenario.setup.era, cell.place) for cell in to_run
    ]
    missing = [key for key in keys if key not in found]
    if missing:
        raise ValueError(f"{PLAYED_VARIABLE}={name} lacks {missing[0]} and {len(missing) - 1} more runs")
    return [found[key] for key in keys]
