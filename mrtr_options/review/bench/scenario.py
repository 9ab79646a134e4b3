"""Scenarios: who calls, where, and what goes wrong.

A scenario has a script of steps (`steps`), or faults that the usual client meets on its way
(`driver`). Named schedules, drawn cases, attacks and explored sets of faults are all scenarios. A
scenario is data: it knows no option and no deployment; `run` makes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from mrtr_options.review.bench.faults import KINDS, Faults, names_of, parse
from mrtr_options.review.bench.faults.kinds import Kind, Need
from mrtr_options.review.bench.messages import Declares, Era
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.steps import Change, Redeploy, Script, Send, Step
from mrtr_options.tool.weather import Destination

Fleet = Literal["one", "sticky", "free"]
"""The instances, and how rounds reach them.

There is one; or there are two, and a round goes to the instance that handed out its state
("sticky"), or to each in turn ("free").
"""

Words = Literal["same", "other"]
"""The arguments of a client that calls again: as before, or written otherwise, as models do."""


@dataclass(frozen=True)
class Setup:
    """The place of a call, and its client.

    Raises:
        ValueError: There is no such policy.

    Attributes:
        era: The client's era.
        fleet: The instances, and how rounds reach them.
        policy: The name of the usual client's policy (`policies`).
        destination: The behaviour of the effects' destination towards an effect that it has seen.
        words: The arguments of a client that calls again.
    """

    era: Era = "modern"
    fleet: Fleet = "one"
    policy: str = "resends"
    destination: Destination = "ignores keys"
    words: Words = "same"

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"no client {self.policy!r}; there are {', '.join(POLICIES)}")

    @property
    def client(self) -> str:
        """The client's policy, in words that follow "the client"."""
        is_other = POLICIES[self.policy].calls_again and self.words == "other"
        return f"{self.policy} in other words" if is_other else self.policy


USUAL_SETUP = Setup()


@dataclass(frozen=True)
class Caller:
    """The user who calls, and the location they ask for.

    Attributes:
        location: The tool's argument.
        principal: The user; None for one without a name.
        asks: Whether their client declares that it can ask by forms.
        declares: The way it declares elicitation, if not as the SDK's client does.
        version: The version of a legacy client's handshake; None for the newest.
    """

    location: str
    principal: str | None = "alice"
    asks: bool = True
    declares: Declares | None = None
    version: str | None = None


@dataclass(frozen=True)
class Scenario:
    """The plan of one run.

    Attributes:
        name: Its name; of a set of faults, what `faults.parse` takes.
        why: One sentence on what it models, and why it happens in practice.
        setup: The place, and the client.
        callers: The caller of each call.
        faults: The faults that the usual client meets on its way.
        script: The steps, in place of the usual client.
        before: Steps of other runs on the same servers, which are taken first.
        also: The kinds of faults that its exploration tries besides those of each exploration.
    """

    name: str
    why: str
    setup: Setup = USUAL_SETUP
    callers: tuple[Caller, ...] = (Caller("Springfield"),)
    faults: Faults = ()
    script: Script = ()
    before: Script = ()
    also: tuple[str, ...] = ()

    @property
    def location(self) -> str:
        """The location of the first call."""
        return self.callers[0].location

    @property
    def instances(self) -> Literal[1, 2]:
        """The number of instances that it needs."""
        return 1 if self.setup.fleet == "one" else 2

    def on_one(self) -> Scenario:
        """Return the same scenario on one instance."""
        return replace(self, setup=replace(self.setup, fleet="one"))

    def in_words(self, words: Words) -> Scenario:
        """Return the same scenario with a client that calls again in these words."""
        return replace(self, setup=replace(self.setup, words=words))

    def under(self, faults: Faults) -> Scenario:
        """Return the usual client's call under a set of faults."""
        says = "; ".join(f"{fault}: {fault.kind.says}" for fault in faults) or "Nothing goes wrong."
        others = [fault for fault in faults if fault.kind.another_call]
        callers = (1 + len(others)) * self.callers[:1]
        return replace(
            self, name=names_of(faults) or "clean", why=says, faults=faults, callers=callers
        )

    @property
    def steps(self) -> Iterator[Step]:
        """The steps of the script, with those that are taken together one by one."""
        for step in self.script:
            yield from step.parts

    @property
    def at_effects(self) -> list[Kind]:
        """The faults at effects."""
        found = [fault.kind for fault in self.faults if fault.kind.at]
        return found + [KINDS[step.fault] for step in self.steps if step.fault is not None]

    @property
    def is_deadly(self) -> bool:
        """Return whether an instance dies in a round, so that later runs may meet its work."""
        return any(isinstance(step, Send) and step.ends == "instance" for step in self.steps)

    @property
    def takes_tasks(self) -> bool:
        """Return whether its client takes tasks."""
        return any("tasks" in step.needs for step in self.steps)

    @property
    def changes(self) -> set[Change]:
        """The versions that are deployed besides the file as it is."""
        found: set[Change] = {
            step.change for step in self.script if isinstance(step, Redeploy) and step.change
        }
        found |= {fault.kind.deploys for fault in self.faults if fault.kind.deploys}
        return found

    @property
    def needs_two(self) -> bool:
        """Return whether it needs more than one instance."""
        return self.mixes_versions or any(fault.kind.needs_two for fault in self.faults)

    @property
    def mixes_versions(self) -> bool:
        """Return whether instances of two versions serve at once."""
        return any(isinstance(step, Redeploy) and step.only is not None for step in self.script)

    @property
    def needs(self) -> frozenset[Need]:
        """The abilities of a deployment that it needs."""
        kinds = [*self.at_effects, *(fault.kind for fault in self.faults)]
        found: set[Need] = {need for kind in kinds for need in kind.needs}
        if any(caller.principal != "alice" for caller in self.callers):
            found.add("callers")
        return frozenset(found.union(*(step.needs for step in self.steps)))


def calling(
    location: str = "Springfield",
    fleet: Fleet = "sticky",
    policy: str = "resends",
    era: Era = "modern",
    *,
    destination: Destination = "ignores keys",
) -> Scenario:
    """Return the usual client's call in which nothing goes wrong; see `Setup`."""
    setup = Setup(era, fleet, policy, destination)
    return Scenario("clean", "Nothing goes wrong.", setup, (Caller(location),))


# --- named schedules ----------------------------------------------------------------------------


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
    modern: str | Script = (),
    legacy: Script = (),
    *,
    location: str = "Springfield",
    calls: int = 1,
    policy: str = "resends",
    sticky: bool = False,
    destination: Destination = "ignores keys",
) -> Schedule:
    """Make a schedule; see `Schedule` and `Setup`.

    Args:
        name: See `Schedule`.
        why: See `Schedule`.
        modern: The faults that the usual client meets, as `faults.parse` takes them, or a script.
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
