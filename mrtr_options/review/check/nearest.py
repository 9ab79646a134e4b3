"""The option that behaves most like a proposal under the schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mrtr_options.review.bench.subjects import all_subjects
from mrtr_options.review.check.report import Nearest
from mrtr_options.review.judge.facts import Observation
from mrtr_options.review.judge.grid import cells, run

_played: dict[tuple[str, str, str], Observation] = {}
"""Observations of the options, by schedule, era and name; each process plays them once."""


async def nearest(
    observations: Sequence[Observation], on_option: Callable[[str], None]
) -> Nearest | None:
    """Return the option with the fewest differences, on one instance; None if nothing compares.

    The option with the fewest so far is the one that is played on. When one is through, every other
    has as many already, so most of what they do is never looked at.

    Args:
        observations: The observations of the proposal.
        on_option: Called with the name of each run of an option before it is made.
    """
    own = {(seen.schedule, seen.era): seen for seen in observations if seen.deployment == "one"}
    # An option that needs an engine takes longer to play than the whole check of a proposal.
    subjects = [subject for subject in all_subjects() if subject.option.extra is None]
    found = {subject.name: list[tuple[Observation, Observation]]() for subject in subjects}
    left = {
        subject.name: [
            cell
            for cell in reversed(cells([subject], deployments=("one",)))
            if (cell.scenario.name, cell.scenario.setup.era) in own
        ]
        for subject in subjects
    }
    if not any(left.values()):
        return None
    while True:
        name = min(found, key=lambda name: len(found[name]))
        if not left[name]:
            return Nearest(name, found[name])
        cell = left[name].pop()
        key = (cell.scenario.name, cell.scenario.setup.era, name)
        if key not in _played:
            (_played[key],) = await run([cell], on_option)
        here = own[key[:2]]
        there = _played[key]
        if _behaviour(here) != _behaviour(there):
            found[name].append((here, there))


def _behaviour(seen: Observation) -> tuple[Any, ...]:
    return (seen.outcome, seen.most("audit"), seen.most("bill"), tuple(seen.questions))
