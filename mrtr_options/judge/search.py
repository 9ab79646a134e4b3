"""The search: calls drawn at random on every option, held against the contract, until one breaks it.

Knows cases, runs in memory, and how a run that breaks a rule is made small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from mrtr_options.bench.history import History
from mrtr_options.bench.memory import Memory
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import Scenario
from mrtr_options.bench.subjects import Subject, all_subjects
from mrtr_options.judge.cases import at_random
from mrtr_options.judge.findings import Finding, Held, smallest

TURNS = (1, 0, 3)
"""How many turns of the event loop an effect takes; from case to case, since it decides how calls at the
same moment interleave."""


def subjects_to_search() -> list[Subject]:
    """Every subject that runs in memory alone."""
    return [subject for subject in all_subjects() if subject.option.extra is None]


async def search(
    subjects: Sequence[Subject], *, seed: int, seconds: float, on_played: Callable[[], None]
) -> tuple[Subject, Finding] | None:
    """Play cases drawn at random until one breaks a rule; then find the smallest that does.

    Args:
        subjects: What each case is played on.
        seed: The same one draws the same cases.
        seconds: Begin no more after this time.
        on_played: Told of each run, but for those that make a case smaller.
    """
    until = anyio.current_time() + seconds
    for number, case in enumerate(at_random(seed)):
        for subject in subjects:
            if anyio.current_time() >= until:
                return None

            where = Memory(turns=TURNS[number % len(TURNS)])

            async def play(
                scenario: Scenario, subject: Subject = subject, where: Memory = where
            ) -> History:
                return await run(subject, scenario, where)

            own = subject.option.guarantees
            held = Held(departs=own.departs if own else ())
            held.hold(await play(case))
            on_played()
            for finding in held.first.values():
                return subject, await smallest(play, finding, held)
    return None
