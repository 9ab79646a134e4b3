"""The time that something took: by the clock, and in processors."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Used:
    """Time since some moment, in seconds.

    Attributes:
        seconds: The time by the clock.
        cpu_seconds: The processor time of this process and of its children that have ended.
    """

    seconds: int
    cpu_seconds: int

    @staticmethod
    def so_far() -> Used:
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = sum(each.ru_utime + each.ru_stime for each in (own, children))
        return Used(round(time.monotonic()), round(cpu_seconds))

    def __sub__(self, other: Used) -> Used:
        return Used(self.seconds - other.seconds, self.cpu_seconds - other.cpu_seconds)
