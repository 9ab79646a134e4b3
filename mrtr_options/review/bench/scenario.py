"""Scenarios: who calls, where, and what goes wrong.

A scenario has a script of steps, or faults that the default client meets on its way (`driver`).
Named schedules, drawn cases, attacks and explored sets of faults are all scenarios. A scenario is
data: it knows no option and no deployment; `run` makes one.

The rounds of a call are named by the question they answer: "first" (none), "place", "units", and
"consent", which only some redeploys ask for. A step is skipped if its question was never asked, so
one script serves options that ask less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mrtr_options.review.bench.answers import Accept, Refuse, RoundName, UserAnswer
from mrtr_options.review.bench.faults import KINDS, Faults, names_of
from mrtr_options.review.bench.faults.kinds import Kind, Need
from mrtr_options.review.bench.setup import (
    DEFAULT_SETUP,
    Declares,
    Era,
    Fleet,
    Policy,
    Setup,
    Words,
)
from mrtr_options.review.bench.task_steps import Stop, TaskStep, Update
from mrtr_options.tool.weather import Destination

# --- changes to the state -----------------------------------------------------------------------

KeyEdit = Literal[
    "in capitals",
    "in other case",
    "a space before it",
    "a space behind it",
    "with a prefix",
    "cut short",
    "in full width",
    "an underscore behind it",
    "behind a slash",
    "behind a dot",
    "before a dot",
    "with an index",
]
"""The changes that a client makes to the key of a question, so that no question has that key."""

StateEdit = Literal["changed", "cut short", "not a state", "too long", "another place", "drop"]
"""The changes that a client makes to a state that it was given.

It writes another place into it, if it can be read, or sends the round without a state ("drop").
"""


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Altered:
    """The differences between a request and the one that its call would send.

    Attributes:
        location: Another argument than the call's.
        arguments: Arguments in place of the location, valid or not; `...` to leave them out.
        tool: Another tool than the weather tool.
        principal: The caller, if not the call's user.
        asks: Whether the client declares elicitation on this request.
        takes_tasks: Whether the client declares the Tasks extension on this request.
        key_edit: The client's change to the key of its answer.
        edit: The client's change to the state.
        state_of: The call whose state it carries, if not its own.
        state: A state from elsewhere that it carries.
    """

    location: str | None = None
    arguments: Any = None
    tool: str | None = None
    principal: str | None = None
    asks: bool = True
    takes_tasks: bool = False
    key_edit: KeyEdit | None = None
    edit: StateEdit | None = None
    state_of: int | None = None
    state: str | None = None


AS_USUAL = Altered()


@dataclass(frozen=True)
class Send:
    """One round, sent by a modern client.

    Attributes:
        round: The name of the round: the question that it answers.
        answer: The user's answer to that question; None to agree.
        call: The number of the call, if a client makes several.
        extra: Answers to questions that were not asked, by key: an answer, or content that is
            accepted.
        altered: The differences from the request that the call would send.
        lost: Whether the response is lost (`messages.LOST`).
        again: The network delivers the request twice: one after the other, or at once.
        to: The instance it goes to; None for the next in turn.
        fault: The fault at an effect of this round: a name in `faults.KINDS`.
        ends: The side that ends while the request is at work: the client leaves, or the instance
            dies and another takes its place.
        only_if: The condition without which the step is left out. "failed": the request before it
            brought an error or nothing. "asked": the request before it brought this round's
            question. "room": no earlier step with this condition has been refused.
    """

    round: RoundName
    answer: UserAnswer | None = None
    call: int = 1
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    altered: Altered = AS_USUAL
    lost: bool = False
    again: Literal["later", "at once"] | None = None
    to: int | None = None
    fault: str | None = None
    ends: Literal["client", "instance"] | None = None
    only_if: Literal["failed", "asked", "room"] | None = None


@dataclass(frozen=True)
class Repeat:
    """A second delivery of an earlier request, unchanged, by a slow proxy.

    Attributes:
        call: The number of the call.
        back: The number of its request, counted from the latest, which is 1.
        to: The instance it goes to; None for the next in turn.
    """

    call: int = 1
    back: int = 1
    to: int | None = None


@dataclass(frozen=True)
class Forge:
    """States that a client forges from those it holds (`forgeries`), each sent with a good answer.

    Attributes:
        round: The name of the round whose state is forged: the question that it answers.
        answer: The user's answer to that question; None to agree.
        call: The number of the call.
        only: The name of the one state that is made; empty for all.
        most: The number of states that are sent, spread over all kinds; 0 for all.
    """

    round: RoundName
    answer: UserAnswer | None = None
    call: int = 1
    only: str = ""
    most: int = 0


@dataclass(frozen=True)
class ListTools:
    """A listing of the tools, and of what else the server lists.

    Attributes:
        principal: The caller.
    """

    principal: str = "alice"


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
class WholeCall:
    """A whole call, its questions answered as they come; the only step of a legacy client.

    Attributes:
        answers: The user's answers that do not agree, by the name of the form's field. A tuple
            gives successive answers; the last one repeats.
        call: The number of the call, if a client makes several.
        lost: Whether the response is lost (`messages.LOST`); of a legacy client only, whose call is
            one request.
        asks: Whether the client declares elicitation.
        leaves: The field of the question at which the client is gone; of a legacy client only.
        fault: The fault at an effect of the call: a name in `faults.KINDS`.
        takes_tasks: Whether the client declares the Tasks extension, and finishes a task it is
            given.
        waits_for: Its user thinks until this other call, which begins meanwhile, has ended; of a
            legacy client only.
        thinks: The seconds that its user thinks before each answer, by the instances' clocks; of a
            legacy client only.
        session: The name of the session in which it is made, for a client that stays connected; of
            a legacy client only, and only where the review runs the server.
    """

    answers: dict[str, UserAnswer | tuple[UserAnswer, ...]] = field(
        default_factory=dict[str, UserAnswer | tuple[UserAnswer, ...]]
    )
    call: int = 1
    lost: bool = False
    asks: bool = True
    leaves: str = ""
    fault: str | None = None
    takes_tasks: bool = False
    waits_for: int | None = None
    thinks: float = 0.0
    session: str = ""


@dataclass(frozen=True)
class Together:
    """Rounds of different calls, whole calls, or requests for a task, begun at the same moment.

    A fault at an effect of one of them happens at the first such effect.
    """

    steps: tuple[Send | WholeCall | Update | Stop, ...]


Keys = Literal["same", "rotated", "new"]
"""The keys of instances that replace others.

They have the same keys, a ring that was rotated (the old key still verifies), or only a new key.
"""


@dataclass(frozen=True)
class Restart:
    """The end of every instance, and its replacement by a new one with these keys."""

    keys: Keys = "same"


@dataclass(frozen=True)
class Wait:
    """The passing of some seconds."""

    seconds: float


Change = Literal["reworded", "schema", "inserted", "removed", "reordered", "effect", "renamed"]
"""The author's change between two versions; see `redeploys`.

It is the wording of the question about the units, its choices, a question before it, whether
places are asked for at all, which question comes first, an effect above them, or the names of the
file and its functions.
"""


@dataclass(frozen=True)
class Redeploy:
    """The replacement of instances by others with another version of the file.

    Attributes:
        change: The version's change; None for the file as it is.
        only: The one instance that is replaced; None for all.
    """

    change: Change | None
    only: int | None = None


Step = (
    Send | WholeCall | Repeat | Forge | Together | ListTools | Restart | Redeploy | Wait | TaskStep
)

# --- where, and by whom -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """The plan of one run.

    Attributes:
        name: Its name; of a set of faults, what `faults.parse` takes.
        why: One sentence on what it models, and why it happens in practice.
        setup: The place, and the client.
        callers: The caller of each call.
        faults: The faults that the default client meets on its way.
        script: The steps, in place of the default client.
        before: Steps of other runs on the same servers, which are taken first.
        also: The kinds of faults that its exploration tries besides those of each exploration.
    """

    name: str
    why: str
    setup: Setup = DEFAULT_SETUP
    callers: tuple[Caller, ...] = (Caller("Springfield"),)
    faults: Faults = ()
    script: tuple[Step, ...] = ()
    before: tuple[Step, ...] = ()
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
        """Return the default client's call under a set of faults."""
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
            yield from step.steps if isinstance(step, Together) else (step,)

    @property
    def at_effects(self) -> list[Kind]:
        """The faults at effects."""
        found = [fault.kind for fault in self.faults if fault.kind.at]
        struck = filter(None, map(fault_at_effect, self.steps))
        return found + [KINDS[name] for name in struck]

    @property
    def is_deadly(self) -> bool:
        """Return whether an instance dies in a round, so that later runs may meet its work."""
        return any(isinstance(step, Send) and step.ends == "instance" for step in self.steps)

    @property
    def takes_tasks(self) -> bool:
        """Return whether its client takes tasks."""
        return any(
            isinstance(step, TaskStep) or (isinstance(step, WholeCall) and step.takes_tasks)
            for step in self.steps
        )

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
        found: set[Need] = {need for fault in self.faults for need in fault.kind.needs}
        if any(caller.principal != "alice" for caller in self.callers):
            found.add("callers")
        if self.takes_tasks:
            found.add("tasks")
        if self.is_deadly:
            found.add("crash")
        for step in self.steps:
            found |= _needs_of(step)
        return frozenset(found)


def _needs_of(step: Step) -> set[Need]:
    """Return the abilities of a deployment that a step needs."""
    found: set[Need] = set()
    match step:
        case Restart():
            found.add("restart")
        case Redeploy():
            found.add("versions")
        case Wait():
            found.add("time")
        case Send():
            if (step.altered.principal or "alice") != "alice":
                found.add("callers")
        case _:
            pass
    fault = fault_at_effect(step)
    if fault is not None:
        found |= KINDS[fault].needs
    return found


def fault_at_effect(step: Step) -> str | None:
    """Return the name of the fault at an effect of a round or a whole call, if it has one."""
    return step.fault if isinstance(step, Send | WholeCall) else None


def calling(
    location: str = "Springfield",
    fleet: Fleet = "sticky",
    policy: Policy = "resends",
    era: Era = "modern",
    *,
    destination: Destination = "ignores keys",
) -> Scenario:
    """Return the default client's call in which nothing goes wrong; see `Setup`."""
    setup = Setup(era, fleet, policy, destination)
    return Scenario("clean", "Nothing goes wrong.", setup, (Caller(location),))


def whole_call(location: str, era: Era = "modern", *, takes_tasks: bool = False) -> Scenario:
    """Return one whole call on one instance, its questions answered as they come.

    Nothing goes wrong in it. The guarantees under the schedules `clean-tokyo` and
    `clean-springfield` hold under it, too.
    """
    name = f"clean-{location.lower()}" if location in ("Tokyo", "Springfield") else "call"
    script = (WholeCall(takes_tasks=takes_tasks),)
    why = "One call, nothing goes wrong."
    return Scenario(name, why, Setup(era), (Caller(location),), script=script)


FIRST = Send("first")
PLACE = Send("place")
UNITS = Send("units")
DECLINE = Refuse("decline")
CANCEL = Refuse("cancel")
MISSOURI = Accept({"place": "Springfield, Missouri"})
