"""A named schedule, and how one is made from faults or from a script."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.setup import Era, Policy, Setup
from mrtr_options.review.bench.steps import Step
from mrtr_options.tool.weather import Destination


@dataclass(frozen=True)
class Schedule:
    """A schedule: the scenario for each era that it applies to.

    Attributes:
        name: Its slug.
        why: A sentence on what it models, and why it happens in practice.
        modern, legacy: The scenario on two instances; None if it does not apply.
    """

    name: str
    why: str
    modern: Scenario | None
    legacy: Scenario | None

    def of(self, era: Era) -> Scenario | None:
        """Return the scenario for an era."""
        return self.modern if era == "modern" else self.legacy

    @property
    def scenario(self) -> Scenario:
        """The scenario for the newest era that it applies to."""
        found = self.modern or self.legacy
        assert found is not None
        return found


def make_schedule(
    name: str,
    why: str,
    modern: str | tuple[Step, ...] = (),
    legacy: tuple[Step, ...] = (),
    *,
    location: str = "Springfield",
    calls: int = 1,
    policy: Policy = "resends",
    sticky: bool = False,
    destination: Destination = "ignores keys",
) -> Schedule:
    """Make a schedule; see `Schedule` and `Setup`.

    Args:
        name: See `Schedule`.
        why: See `Schedule`.
        modern: The faults that the default client meets, as `faults.parse` takes them, or a script.
        legacy: The script for a legacy client.
        location: The tool's argument.
        calls: The number of calls of the tool that the user means to make.
        policy: See `Setup`.
        sticky: Whether a round goes to the instance that handed out its state.
        destination: See `Setup`.
    """
    callers = calls * (Caller(location),)
    setup = Setup("modern", "sticky" if sticky else "free", policy, destination)
    new = old = None
    if isinstance(modern, str):
        new = Scenario(name, why, setup, callers, faults=parse(modern))
    elif modern:
        new = Scenario(name, why, setup, callers, script=modern)
    if legacy:
        old = Scenario(name, why, replace(setup, era="legacy"), callers, script=legacy)
    return Schedule(name, why, new, old)
