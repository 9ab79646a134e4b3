"""Where a proposal hurts its users although the contract allows it, and what to do about it.

Pure functions of what was explored and of what a process holds. Knows the anomalies by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mrtr_options.bench.faults import names_of
from mrtr_options.judge.anomalies import ANOMALIES
from mrtr_options.judge.witnesses import Explored

ALSO = ("key-rotation",)
"""Schedules of a call that should go on, of which no fault is the like."""


@dataclass(frozen=True)
class Remedy:
    """What to do about an anomaly.

    Attributes:
        says: In a sentence.
        subjects: Those of this package that show how: they do not have the anomaly under one fault.
    """

    says: str
    subjects: tuple[str, ...] = ()


REMEDIES: dict[str, Remedy] = {
    "duplicate bill": Remedy(
        "put the handler into the single-use guard, or give the bill an idempotency key that its"
        " destination honours",
        ("E+single-use", "F+single-use", "G+single-use", "J+single-use"),
    ),
    "orphan bill": Remedy(
        "keep in the state what a retry needs, and give the bill an idempotency key, so that the retry"
        " bills the same and reports",
        ("E", "F", "G", "J"),
    ),
    "lost effect": Remedy("report when the effects are done, not before", ("E", "F")),
    "duplicate audit": Remedy(
        "write the audit in the last step, inside the single-use guard; `once` (option F) writes it once"
        " where no response is lost",
        ("G+single-use",),
    ),
    "stale answer": Remedy(
        "keep the question's words and choices in the state, and ask again when they have changed",
        ("E", "F"),
    ),
    "misrouted answer": Remedy("take an answer by the key of its question alone", ("E", "F", "J")),
    "ignored answer": Remedy(
        "settle an answer in the state when it is given, and in each version report what is settled",
        ("E", "F", "J"),
    ),
    "forged state": Remedy(
        "put the time into the protected state, as the shared server does, and refuse an old one",
        ("E", "F"),
    ),
    "divergent replies": Remedy(
        "compute each round from its request alone, or keep the response in the single-use guard",
        ("E", "F+single-use"),
    ),
    "asked again": Remedy("keep answers by the key of their question, as keyed replay does", ("J",)),
    "stuck call": Remedy("end each round in a result, a question or an error", ("E", "F")),
    "lost call": Remedy("keep in the state, not in the process, what the next round needs", ("E", "F")),
}
"""For each anomaly."""


@dataclass(frozen=True)
class Hurt:
    """An anomaly that a proposal shows.

    Attributes:
        anomaly: Its name.
        says: What it is, in a sentence.
        harms: Who is harmed.
        witnesses: The smallest sets of faults that show it, as `play` takes them; "" for no fault. Or
            the name of a schedule.
        remedy: What to do about it.
        subjects: Those of this package that do it.
    """

    anomaly: str
    says: str
    harms: str
    witnesses: tuple[str, ...] = ()
    remedy: str = ""
    subjects: tuple[str, ...] = ()


def hurts(explored: Explored, shown: Mapping[str, Collection[str]]) -> list[Hurt]:
    """The anomalies that were found, money first.

    Args:
        explored: What came of a call under faults.
        shown: The anomalies of the schedules in `ALSO`, by slug.
    """
    found: list[Hurt] = []
    for anomaly in ANOMALIES:
        name, remedy = anomaly.name, REMEDIES[anomaly.name]
        witnesses = [names_of(faults) for faults in explored.witnesses.get(name, [])]
        if "" not in witnesses:
            witnesses += [slug for slug, names in shown.items() if name in names]
        if witnesses:
            harms, says = anomaly.harms, anomaly.says
            found.append(Hurt(name, says, harms, tuple(witnesses), remedy.says, remedy.subjects))
    return found


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
    says = f"After {ABANDONED} abandoned calls a process holds {', '.join(held)} more."
    remedy = "end what a call keeps when its state expires"
    return [Hurt("leak", says, "whoever runs the server", remedy=remedy)]
