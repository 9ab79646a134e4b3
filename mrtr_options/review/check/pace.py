"""What is tried of a server whose effects are slow: parts of the cases, within a budget of seconds.

The cost of a run is reckoned from how long one request takes, and not read from a clock, so that the
same server is always held to the same cases. Knows scenarios; nothing of how they are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mrtr_options.review.bench.scenario import (
    Forge,
    Restart,
    Scenario,
    Send,
    Step,
    Together,
    Wait,
    WholeCall,
)
from mrtr_options.review.check.findings import calls_of, without

SLOW_SECONDS = 0.12
"""From here on a request counts as slow; a busy machine takes less for one."""

CASE_SECONDS, SCHEDULE_SECONDS, DRAWN_SECONDS = 150.0, 120.0, 20.0
"""How long the cases, the schedules and the drawn runs of a slow server may take, each together."""

SHRINK_SECONDS = 20.0
"""How long it may take to make one finding of a slow server smaller."""

MOST_CALLS, MOST_FORGED, MOST_REQUESTS = 12, 10, 40
"""How much of one case is tried of a slow server."""


@dataclass(frozen=True)
class Pace:
    """How long one request of a server takes that has one effect."""

    seconds: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether the cases are too long for it."""
        return self.seconds > SLOW_SECONDS

    @property
    def shrink_requests(self) -> int | None:
        """How many requests may be sent to make a finding smaller; None for as many as usual."""
        return math.ceil(SHRINK_SECONDS / self.seconds) if self.is_slow else None

    def __str__(self) -> str:
        return f"since a request takes {self.seconds:.1f} s here"

    def within(
        self, scenarios: Sequence[Scenario], seconds: float
    ) -> tuple[list[Scenario], int, int]:
        """Choose what is tried: the first ones, in part, until the seconds are used up.

        Returns:
            What is tried, how many of these are parts, and how many are left out.
        """
        if not self.is_slow:
            return list(scenarios), 0, 0
        chosen: list[Scenario] = []
        parts = 0
        for scenario in scenarios:
            some = part_of(scenario)
            cost = self.seconds * requests_of(some.script)
            if cost > seconds:
                continue
            seconds -= cost
            chosen.append(some)
            parts += some is not scenario
        return chosen, parts, len(scenarios) - len(chosen)


def requests_of(script: Sequence[Step]) -> int:
    """Return how many effects, about, the requests of a script have."""
    return sum(map(_effects_of, script)) if script else 4


def _effects_of(step: Step) -> int:
    match step:
        case Together():
            return sum(map(_effects_of, step.steps))
        case Forge():
            return step.most or 2 * MOST_FORGED
        case WholeCall():
            return 3
        case Restart() | Wait():
            return 0
        case Send():
            return 1 if step.again is None else 2
        case _:
            return 1


def part_of(scenario: Scenario) -> Scenario:
    """Return the same with fewer calls, fewer forged states and fewer requests; itself if it has no
    more than may be tried.
    """
    if not scenario.script or requests_of(scenario.script) <= MOST_REQUESTS:
        return scenario
    calls = list(dict.fromkeys(call for step in scenario.script for call in calls_of(step)))
    steps = list(scenario.script)
    if len(calls) > MOST_CALLS:
        every = math.ceil(len(calls) / MOST_CALLS)
        left_out = [call for at, call in enumerate(calls) if at % every]
        thinned = list(without(steps, left_out))
        steps = thinned or steps
    some: list[Step] = []
    left = MOST_REQUESTS
    for step in steps:
        if isinstance(step, Forge):
            step = replace(step, most=MOST_FORGED)
        left -= _effects_of(step)
        if left < 0:
            break
        some.append(step)
    return replace(scenario, script=tuple(some or steps[:1]))
