"""Where a proposal hurts its users although the contract allows it: anomalies in words.

Pure functions of what was seen under the schedules with names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mrtr_options.bench.observations import Observation

GOES_ON = ("failover", "restart", "key-rotation")
"""Schedules of a correct client whose server or instance changes under a call."""


@dataclass(frozen=True)
class Hurt:
    """An anomaly.

    Attributes:
        anomaly: Its name.
        says: What is seen, in words.
        schedules: Under which schedules.
    """

    anomaly: str
    says: str
    schedules: tuple[str, ...] = ()


def hurts(observations: Sequence[Observation]) -> list[Hurt]:
    """The anomalies in what was seen; the worst first."""
    modern = [seen for seen in observations if seen.era == "modern"]
    found = [
        Hurt(
            "duplicate effect",
            "the bill is written more often than the user made calls",
            _names(seen for seen in modern if seen.most("bill") > seen.calls),
        ),
        Hurt(
            "orphan effect",
            "the bill is written and the call ends without a result",
            _names(
                seen
                for seen in modern
                if seen.most("bill") and seen.outcome in ("refused", "lost", "hung")
            ),
        ),
        Hurt(
            "lost call",
            "a correct client is told to start over",
            _names(
                seen
                for seen in modern
                if seen.schedule in GOES_ON and seen.outcome in ("refused", "lost", "tool_error")
            ),
        ),
        Hurt(
            "asked again",
            "the user answers a question twice",
            _names(
                seen
                for seen in modern
                if seen.schedule in GOES_ON and len(set(seen.questions)) < len(seen.questions)
            ),
        ),
        Hurt(
            "re-execution",
            "the audit is written in more than one round of a clean call",
            _names(
                seen
                for seen in modern
                if seen.schedule.startswith("clean-") and seen.most("audit") > seen.calls
            ),
        ),
    ]
    return [each for each in found if each.schedules]


def _names(seen: Iterable[Observation]) -> tuple[str, ...]:
    """The schedules, each once; where two instances alone show it, that is said."""
    places: dict[str, set[str]] = {}
    for each in seen:
        places.setdefault(each.schedule, set()).add(each.deployment)
    return tuple(
        slug if "one" in where or slug == "failover" else f"{slug} on two instances"
        for slug, where in places.items()
    )


# --- leaks --------------------------------------------------------------------------------------

ABANDONED = 200
"""How many calls are abandoned to see what is left of them."""

MAY_GROW = {"tasks": 20, "threads": 60, "files": 20, "bytes": 64 * 2**20}
"""How much more a process may hold afterwards: a pool of workers, and what the allocator keeps."""


def leaks(before: dict[str, int], after: dict[str, int]) -> list[Hurt]:
    """What a process still holds of `ABANDONED` abandoned calls, once their states have expired."""
    grown = {what: after[what] - before[what] for what in before if what in after}
    held = [
        f"{count / 2**20:.0f} MiB of memory" if what == "bytes" else f"{count} {what}"
        for what, count in grown.items()
        if count > MAY_GROW[what]
    ]
    if not held:
        return []
    return [Hurt("leak", f"after {ABANDONED} abandoned calls a process holds {', '.join(held)} more")]
