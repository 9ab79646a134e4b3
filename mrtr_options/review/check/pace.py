"""The pace of a slow server: parts of the cases are tried, within a budget of seconds.

The cost of a run is computed from the time of one request, and not read from a clock, so that the
same server is always held to the same cases. Knows scenarios; nothing of how they are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mrtr_options.review.bench.attacks.forgeries import Forge
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Step
from mrtr_options.review.check.findings import without

SLOW_SECONDS = 0.12
"""The time from which a request counts as slow; a busy machine takes less for one."""

CASE_SECONDS = 150.0
"""The longest time for all cases of a slow server."""
SCHEDULE_SECONDS = 120.0
"""The longest time for all schedules of a slow server."""
DRAWN_SECONDS = 20.0
"""The longest time for all drawn runs of a slow server."""

SHRINK_SECONDS = 20.0
"""The longest time to shrink one finding of a slow server."""

MOST_CALLS = 12
MOST_FORGED = 10
MOST_REQUESTS = 40
"""The most calls, forged states and requests of one case that a slow server gets."""


@dataclass(frozen=True)
class Pace:
    """The time of one request with one effect at a server."""

    seconds: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Return whether the cases are too long for the server."""
        return self.seconds > SLOW_SECONDS

    @property
    def shrink_requests(self) -> int | None:
        """The requests that may be sent to shrink a finding; None for the usual number."""
        return math.ceil(SHRINK_SECONDS / self.seconds) if self.is_slow else None

    def __str__(self) -> str:
        return f"since a request takes {self.seconds:.1f} s here"

    def within(
        self, scenarios: Sequence[Scenario], seconds: float
    ) -> tuple[list[Scenario], int, int]:
        """Choose the runs that are tried: the first ones, in part, until the seconds are used up.

        Returns:
            The runs that are tried, the number of parts among them, and the number left out.
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
            if some is not scenario:
                parts += 1
        return chosen, parts, len(scenarios) - len(chosen)


def requests_of(script: Sequence[Step]) -> int:
    """Return how many effects, about, the requests of a script have."""
    return sum(step.effects for step in script) if script else 4


def part_of(scenario: Scenario) -> Scenario:
    """Return the same scenario with fewer calls, fewer forged states and fewer requests.

    A scenario that is short enough is returned itself.
    """
    if not scenario.script or requests_of(scenario.script) <= MOST_REQUESTS:
        return scenario
    calls = list(dict.fromkeys(call for step in scenario.script for call in step.calls))
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
        left -= step.effects
        if left < 0:
            break
        some.append(step)
    return replace(scenario, script=tuple(some or steps[:1]))
