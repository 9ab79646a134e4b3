"""A way to write the tool, as the last table of a review compares it with others.

Its lines are counted in its file. What one fault does is measured, in a run for each cell.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from mrtr_options.review.bench.deployments import Deployment
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Received
from mrtr_options.review.bench.redeploys import why_not
from mrtr_options.review.bench.run import IN_MEMORY, run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.setup import POLICIES, Policy
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore.summary import NOT_TRIED
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.facts import Reading, anomalies_in
from mrtr_options.tool.catalogue import CannotLoad, all_options
from mrtr_options.tool.notation import NAMED, SINGLE_USE, titled
from mrtr_options.tool.sizes import Size, size_of

LOST = "lost3"
"""The result of a call with two questions is lost."""
REDEPLOY = "redeploy3"
"""A version with one more question is deployed before the last answer arrives."""

AGAIN: Policy = "calls again"
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
        lost: What one lost result does, by the client's policy.
        redeploy: What a redeploy in the middle of a call does.
        named: What one lost result does, if the client calls again, in a guard that names calls.
    """

    subject: str
    title: str
    size: Size | None = None
    lost: dict[Policy, str] = field(default_factory=lambda: dict.fromkeys(POLICIES, NOT_TRIED))
    redeploy: str = NOT_TRIED
    named: str = NOT_TRIED

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        size = self.size
        return {
            "subject": self.subject,
            "author_lines": NOT_TRIED if size is None else size.author,
            "sdk_lines": NOT_TRIED if size is None else size.own,
            "shared_sdk_lines": NOT_TRIED if size is None else size.shared,
            "lost_result": self.lost,
            "redeploy": self.redeploy,
            "guarded_and_named": self.named,
        }


def outcome_of(shown: Collection[str]) -> str:
    """Return what a lost result did, by the names of the anomalies that a charged call shows."""
    if "charged twice" in shown:
        return TWICE
    return NOT_TOLD if "charged, told of an error" in shown else TOLD


async def lost_result(subject: Subject, call: Scenario, policy: Policy, where: Deployment) -> str:
    """Lose the result of a call, and return what that did to its user."""
    asked_by = replace(call, setup=replace(call.setup, policy=policy))
    history = await run(subject, asked_by.under(parse(LOST)), where)
    if not any(isinstance(event, Received) and event.lost for event in history.events):
        return NOT_TRIED
    if not Reading(history).effects("bill"):
        return NOT_CHARGED
    return outcome_of(anomalies_in(history))


async def measured(
    subject: Subject, where: Deployment = IN_MEMORY, call: Scenario | None = None
) -> Way:
    """Count and measure a way, but for what a guard around it does.

    Args:
        subject: The way.
        where: Where it runs.
        call: The call without faults; None for the default client's.

    Raises:
        CannotLoad: The file cannot be run.
    """
    call = call or calling()
    option = subject.option
    size = size_of(option, subject.wrappers) if option.path.is_file() else None
    is_ours = option in all_options().values()
    title = titled(subject.name) if is_ours else option.label
    way = Way(subject.name, title, size)
    for policy in POLICIES:
        way.lost[policy] = await lost_result(subject, call, policy, where)
    redeployed = call.under(parse(REDEPLOY))
    if not why_not(option, redeployed.changes) and where.cannot(redeployed) is None:
        clean = anomalies_in(await run(subject, call, where))
        way.redeploy = _in_words(anomalies_in(await run(subject, redeployed, where)) - clean)
    return way


def _in_words(shown: Collection[str]) -> str:
    return "; ".join(each.name for each in ANOMALIES if each.name in shown) or GOES_ON


async def measured_of_ours(subject: Subject) -> Way:
    """Count and measure an option of this package, in memory."""
    way = await measured(subject)
    around = [word for word in (SINGLE_USE, NAMED) if word not in subject.wrappers]
    guarded = replace(subject, wrappers=(*subject.wrappers, *around))
    with suppress(CannotLoad):  # it takes no guard
        way.named = await lost_result(guarded, calling(), AGAIN, IN_MEMORY)
    return way
