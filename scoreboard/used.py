"""How long something took, by the clock and by what processors worked for it."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Used:
    """Time since some moment, in seconds.

    Attributes:
        seconds: By the clock.
        cpu_seconds: What processors worked for this process and for those of its own that have
            ended.
    """

    seconds: int
    cpu_seconds: int

    @staticmethod
    def so_far() -> Used:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return Used(
            round(time.monotonic()), round(sum(each.ru_utime + each.ru_stime for each in used))
        )

    def __sub__(self, other: Used) -> Used:
        return Used(self.seconds - other.seconds, self.cpu_seconds - other.cpu_seconds)
