"""Batches of calls that all end in the same way, to see what a process still holds of them.

Knows the processes of a file; nothing of what is done with what is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import mcp_types as types

from mrtr_options.review.bench.client.player import Player
from mrtr_options.review.bench.deployments import Instances
from mrtr_options.review.bench.deployments.children import Children
from mrtr_options.review.bench.messages import Era, Request
from mrtr_options.review.bench.run import take_steps
from mrtr_options.review.bench.scenario import Caller, Scenario, Setup
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.steps import (
    CANCEL,
    DECLINE,
    FIRST,
    PLACE,
    UNITS,
    RoundName,
    Script,
    Send,
    WholeCall,
    accept,
)
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.calls import in_turn

Outcome = Literal[
    "reported", "declined", "cancelled", "did not fit", "refused", "failed", "abandoned"
]
"""The end of each call of a batch.

It ends with a report; it is declined or cancelled; it is left after an answer that does not fit,
after a changed state, after a bill that failed, or at the first question.
"""

MAY_GROW = {"tasks": 20, "threads": 60, "files": 20, "bytes": 64 * 2**20}
"""The most that a process may hold in addition after `CALLS` calls.

It may be an allocator's reserve. A pool may grow further, but only once: see `find_held`.
"""

CALLS: dict[Era, int] = {"modern": 200, "legacy": 100}
"""The number of calls with one outcome. Calls of an old client take longer."""

PARTS = 4
"""The number of parts of a batch. The first part decides whether the others are made.

They are made only if the first leaves more than its share of `MAY_GROW`.
"""

WARM = 20
"""The number of calls that are made before a process is looked at for the first time."""

_WORDS: dict[Outcome, str] = {
    "did not fit": "given an answer that does not fit",
    "refused": "given a changed state",
    "failed": "not billed, since the ledger fails",
}


async def find_held(
    subject: Subject, children: Children, era: Era, on_begin: Callable[[str], None]
) -> tuple[Outcome, str] | None:
    """Return the first outcome after which a process holds too much, and how much it holds.

    A process that holds all its slots answers no more.

    A batch that leaves too much is made once more. A pool of threads or connections grows until
    enough of its calls have met, which depends on the machine. Then it stays; what leaks grows on.

    Args:
        subject: The subject that is called.
        children: Its processes.
        era: The client's era.
        on_begin: Called with the name of each batch before it is made.
    """
    calls = CALLS[era]
    part = calls // PARTS
    async with children.started(subject, named("clean-tokyo", era).on_one()) as instances:
        instances.death_seconds = 0.0  # at which of the calls a process dies makes no difference
        await _make(instances, "reported", WARM, era)  # fills caches and pools
        before = await _held_now(instances, children)
        for outcome in get_args(Outcome):
            if outcome == "refused" and era == "legacy":  # an old client holds no state
                continue
            words = _WORDS.get(outcome, outcome)
            on_begin(f"{part} calls that are {words}, {era}")
            if await _make(instances, outcome, part, era):
                return (
                    outcome,
                    f"no response any more, after {part} calls or fewer that were {words}",
                )
            after = await _held_now(instances, children)
            if _too_much(before, after, 1 / PARTS):
                await _make(instances, outcome, calls - part, era)
                after = await _held_now(instances, children)
            if _too_much(before, after):
                before = after
                await _make(instances, outcome, calls, era)
                after = await _held_now(instances, children)
                found = _too_much(before, after)
                if found:
                    return (
                        outcome,
                        f"{', '.join(found)} more, after {calls} calls that were {words}",
                    )
            before = after
    return None


def _too_much(before: dict[str, int], after: dict[str, int], share: float = 1.0) -> list[str]:
    """Return what a process still holds of a batch, in words, where that is too much.

    Args:
        before: What it held before.
        after: What it holds now.
        share: The share of `MAY_GROW` that may be left.
    """
    grown = {what: after[what] - before[what] for what in before if what in after}
    return [
        f"{count / 2**20:.0f} MiB of memory" if what == "bytes" else f"{count} {what}"
        for what, count in grown.items()
        if count > MAY_GROW[what] * share
    ]


def one_call(outcome: Outcome, era: Era) -> Scenario:
    """Return one call of a batch, as its breach tells it."""
    slugs: dict[Outcome, str] = {
        "declined": "decline",
        "cancelled": "cancel",
        "did not fit": "bad-answer",
        "refused": "tampered",
        "failed": "failed-bill",
        "abandoned": "abandoned",
    }
    slug = slugs.get(outcome, "clean-tokyo")
    return named(slug if era == "modern" else "clean-tokyo", era).on_one()


async def _make(instances: Instances, outcome: Outcome, calls: int, era: Era) -> bool:
    """Make calls that all end in the same way, until one hangs. Return whether one did."""
    for number in range(calls):
        location = in_turn(("Tokyo", "Springfield"), number)
        steps = _steps(outcome) if era == "modern" else (_whole_call(outcome, location),)
        scenario = Scenario(outcome, "", Setup(era), (Caller(location),), script=steps)
        player = Player(scenario, instances)
        await take_steps(player)
        if player.hung:
            return True
    return False


def _steps(outcome: Outcome) -> Script:
    """Return the rounds of a new client's call. A question that is not asked is left out."""
    if outcome == "reported":
        return (FIRST, PLACE, UNITS)
    if outcome == "abandoned":
        return (FIRST,)
    if outcome == "failed":
        return (FIRST, PLACE, replace(UNITS, fault="fail@bill"))
    edit = "changed" if outcome == "refused" else None
    said = _ANSWERS.get(outcome, {})
    return (FIRST, *(Send(name, said.get(name), edit=edit) for name in ASKED))


def _whole_call(outcome: Outcome, location: str) -> WholeCall:
    first = "place" if location == "Springfield" else "units"
    leaves = first if outcome == "abandoned" else ""
    fault = "fail@bill" if outcome == "failed" else None
    return WholeCall(_ANSWERS.get(outcome, {}), leaves=leaves, fault=fault)


ASKED: tuple[RoundName, ...] = ("place", "units")
"""The questions of a call."""


_ANSWERS: dict[Outcome, types.InputResponses] = {
    "declined": dict.fromkeys(ASKED, DECLINE),
    "cancelled": dict.fromkeys(ASKED, CANCEL),
    "did not fit": {name: accept({name: "kelvin"}) for name in ASKED},
}
"""The user's answers that do not agree."""


async def _held_now(instances: Instances, children: Children) -> dict[str, int]:
    """Count what a process holds, after every state has expired."""
    await instances.wait(1200)
    await instances.send(0, Request("Atlantis"))
    return await children.stats(0)
