"""The comparison of a proposal with options: a table of ways to write the tool, and the nearest.

The lines of a way are counted in its file. What one fault does is measured, in a run for each cell.
The nearest option is the one that behaves most like the proposal under the schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mrtr_options.review.bench.deployments import Deployment
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Received
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.redeploys import why_not
from mrtr_options.review.bench.run import IN_MEMORY, run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.subjects import Subject, all_subjects
from mrtr_options.review.explore import NOT_TRIED
from mrtr_options.review.judge.anomalies import in_order, listed
from mrtr_options.review.judge.facts import HistoryReading, anomalies_in
from mrtr_options.review.judge.grid import cells
from mrtr_options.review.judge.grid import run as run_cells
from mrtr_options.review.judge.observation import Observation
from mrtr_options.tool.catalogue import CannotLoad, all_options
from mrtr_options.tool.notation import NAMED, SINGLE_USE, titled

if TYPE_CHECKING:
    from mrtr_options.tool.sizes import Size

LOST_RESULT = "lost3"
"""The result of a call with two questions is lost."""
REDEPLOY = "redeploy3"
"""A version with one more question is deployed before the last answer arrives."""

AGAIN = "calls again"
"""The client that a guard which names calls is for."""

TWICE = "charged twice"
NOT_TOLD = "charged once, not told"
TOLD = "charged once and told"
NOT_CHARGED = "not charged"
GOES_ON = "goes on"


@dataclass
class Way:
    """One way to write the tool.

    Attributes:
        subject: Its name as commands take it: "F", "J+guard+named", "my_option.py".
        title: Its name as texts have it.
        size: Its lines; None if its file is not here.
        if_lost: What one lost result does, by the client's policy.
        redeploy: What a redeploy in the middle of a call does.
        named: What one lost result does, if the client calls again, in a guard that names calls.
    """

    subject: str
    title: str
    size: Size | None = None
    if_lost: dict[str, str] = field(default_factory=lambda: dict.fromkeys(POLICIES, NOT_TRIED))
    redeploy: str = NOT_TRIED
    named: str = NOT_TRIED

    def as_json(self) -> JsonObject:
        """Return one JSON object."""
        size = self.size
        return {
            "subject": self.subject,
            "author_lines": NOT_TRIED if size is None else size.author,
            "sdk_lines": NOT_TRIED if size is None else size.own,
            "shared_sdk_lines": NOT_TRIED if size is None else size.shared,
            "lost_result": self.if_lost,
            "redeploy": self.redeploy,
            "guarded_and_named": self.named,
        }


def outcome_of(shown: Collection[str]) -> str:
    """Return what a lost result did, by the names of the anomalies that a charged call shows."""
    if "charged twice" in shown:
        return TWICE
    return NOT_TOLD if "charged, told of an error" in shown else TOLD


async def lost_result(subject: Subject, call: Scenario, policy: str, where: Deployment) -> str:
    """Lose the result of a call, and return what that did to its user."""
    asked_by = replace(call, setup=replace(call.setup, policy=policy))
    history = await run(subject, asked_by.under(parse(LOST_RESULT)), where)
    if not any(isinstance(event, Received) and event.lost for event in history.events):
        return NOT_TRIED
    if not HistoryReading(history).effects("bill"):
        return NOT_CHARGED
    return outcome_of(anomalies_in(history))


async def measured(subject: Subject, where: Deployment, call: Scenario) -> Way:
    """Count and measure a way, but for what a guard around it does.

    Args:
        subject: The way.
        where: Where it runs.
        call: The call without faults.

    Raises:
        CannotLoad: The file cannot be run.
    """
    from mrtr_options.tool.sizes import size_of  # few reviews measure

    option = subject.option
    size = size_of(option, subject.wrappers) if option.path.is_file() else None
    is_ours = option in all_options().values()
    title = titled(subject.name) if is_ours else option.label
    way = Way(subject.name, title, size)
    for policy in POLICIES:
        way.if_lost[policy] = await lost_result(subject, call, policy, where)
    redeployed = call.under(parse(REDEPLOY))
    if not why_not(option, redeployed.changes) and where.cannot(redeployed) is None:
        clean = anomalies_in(await run(subject, call, where))
        shown = anomalies_in(await run(subject, redeployed, where)) - clean
        way.redeploy = listed(in_order(shown)) or GOES_ON
    return way


async def measured_of_ours(subject: Subject) -> Way:
    """Count and measure an option of this package, in memory."""
    call = calling()
    way = await measured(subject, IN_MEMORY, call)
    around = [word for word in (SINGLE_USE, NAMED) if word not in subject.wrappers]
    guarded = replace(subject, wrappers=(*subject.wrappers, *around))
    with suppress(CannotLoad):  # it takes no guard
        way.named = await lost_result(guarded, call, AGAIN, IN_MEMORY)
    return way


# --- the most similar option ----------------------------------------------------------------------


@dataclass(frozen=True)
class Nearest:
    """The option that behaves most like a proposal, alone or in a wrapper.

    Attributes:
        option: Its name: "F", "F+guard".
        differs: Pairs of different observations: the proposal's and the option's.
    """

    option: str
    differs: list[tuple[Observation, Observation]]

    def as_json(self) -> JsonObject:
        """Return one JSON object."""
        differs = [
            {"schedule": own.schedule, "era": own.era, "here": own.cell, "there": other.cell}
            for own, other in self.differs
        ]
        return {"option": self.option, "differs": differs}


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
            (_played[key],) = await run_cells([cell], on_option)
        here = own[key[:2]]
        there = _played[key]
        if _behaviour(here) != _behaviour(there):
            found[name].append((here, there))


def _behaviour(seen: Observation) -> tuple[Any, ...]:
    return (seen.outcome, seen.most("audit"), seen.most("bill"), tuple(seen.questions))
