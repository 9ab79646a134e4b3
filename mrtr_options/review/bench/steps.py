"""The steps of a script: what a client sends, one after the other, and what happens between.

A step is data, since a script is not only played (`player`). A review asks beforehand what a
deployment needs for it, leaves steps out to find the smallest script that shows a breach, and
counts what it costs.

The rounds of a call are named by the question they answer: "first" (none), "place", "units", and
"consent", which only some redeploys ask for. A step is skipped if its question was never asked, so
one script serves options that ask less.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as types
from pydantic import ValidationError

from mrtr_options.review.bench.faults.kinds import Need
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES

# --- the user's answers -------------------------------------------------------------------------

RoundName = Literal["first", "place", "units", "consent"]

AGREE = {"place": "Springfield, Illinois", "units": "metric", "consent": "yes"}
"""The user's answers unless a step has others."""


NOTHING: Literal["nothing"] = "nothing"
"""The lack of an answer: the round goes out while the user is not done yet."""

UserAnswer = types.InputResponse | Literal["nothing"]
"""A user's answer as it goes over the wire, valid or not."""

OneOrMore = types.InputResponse | tuple[types.InputResponse, ...]
WholeAnswers = Mapping[str, OneOrMore]
"""The answers of a whole call, by the name of the question; several are given one after another."""

ROOTS = types.ListRootsResult(roots=[])
"""The result of a roots request, which answers no form."""


def accept(content: Any) -> types.ElicitResult:
    """Return the answer of a user who fills the form in with `content`, valid or not."""
    return _answer("accept", content)


def refuse(action: str, content: Any = None) -> types.ElicitResult:
    """Return the answer of a user who declines or cancels, perhaps with content."""
    return _answer(action, content)


def agree(name: str) -> types.ElicitResult:
    """Return the usual answer to a question."""
    return accept({name: AGREE[name]})


def _answer(action: str, content: Any) -> types.ElicitResult:
    try:
        return types.ElicitResult.model_validate({"action": action, "content": content})
    except ValidationError:
        return types.ElicitResult.model_construct(action=action, content=content)


# --- changes to the state -----------------------------------------------------------------------


def in_full_width(text: str) -> str:
    """Return a text in full-width letters, which Unicode calls compatible."""
    return text.translate({ordinal: ordinal + 0xFEE0 for ordinal in range(ord("!"), ord("~") + 1)})


KEY_EDITS: dict[str, Callable[[str], str]] = {
    "in capitals": str.upper,
    "in other case": str.swapcase,
    "a space before it": " {}".format,
    "a space behind it": "{} ".format,
    "with a prefix": "the-{}".format,
    "cut short": lambda key: key[:-1],
    "in full width": in_full_width,
    "an underscore behind it": "{}_".format,
    "behind a slash": "old/{}".format,
    "behind a dot": "old.{}".format,
    "before a dot": "{}.old".format,
    "with an index": "{}[0]".format,
}
"""The changes that a client makes to the key of a question, so that no question has that key."""


def edit_key(key: str, edit: str) -> str:
    """Return another key that a careless server may take for this one.

    A key that the edit leaves as it is gets an underscore: it has no letters, for example.
    """
    changed = KEY_EDITS[edit](key)
    return changed if changed != key else f"{key}_"


def _change_letter(state: str) -> str:
    middle = len(state) // 2
    letter = "A" if state[middle : middle + 1] not in ("A", "a") else "B"
    return state[:middle] + letter + state[middle + 1 :]


def _in_another_place(part: str) -> str:
    """Put another place into a part of a token; return it unchanged if it has none in base64."""
    try:
        payload = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return part
    forged = base64.urlsafe_b64encode(payload.replace(b"Illinois", b"Missouri")).decode()
    return part if b"Illinois" not in payload else forged[: len(part)]


def _move(state: str) -> str:
    forged = ".".join(map(_in_another_place, state.split(".")))
    return forged if forged != state else _change_letter(state)


STATE_EDITS: dict[str, Callable[[str], str | None]] = {
    "changed": _change_letter,
    "cut short": lambda state: state[:-8],
    "not a state": lambda state: "not a state",
    "too long": lambda state: state + "A" * (4 * MAX_TOKEN_BYTES),  # and a body that servers read
    "another place": _move,
    "drop": lambda state: None,
}
"""The changes that a client makes to a state that it was given.

It writes another place into it, if it can be read, or sends the round without a state ("drop").
"""


def edit_state(state: str | None, edit: str | None) -> str | None:
    """Apply an edit to a state. Return it unchanged if there is no state or no edit."""
    return state if state is None or edit is None else STATE_EDITS[edit](state)


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a script.

    Attributes:
        lost: Whether the response is lost (`messages.LOST`).
        again: The network delivers the request twice: one after the other, or at once.
        fault: The fault at an effect of the request: a name in `faults.KINDS`.
    """

    lost: bool = False
    again: Literal["later", "at once"] | None = None
    fault: str | None = None

    @property
    def parts(self) -> Script:
        """The steps of which it consists."""
        return (self,)

    @property
    def calls(self) -> tuple[int, ...]:
        """The numbers of the calls that it is about."""
        return ()

    @property
    def effects(self) -> int:
        """The number of effects, about, that its requests have."""
        return 1

    @property
    def needs(self) -> set[Need]:
        """The abilities of a deployment that it needs, besides those of its fault."""
        return set()

    async def play(self, player: Any) -> None:
        """Play the step, where `Player.take` has no case for its kind."""
        raise NotImplementedError


Script = tuple[Step, ...]
"""The steps that a client takes, one after the other."""


@dataclass(frozen=True)
class Send(Step):
    """One round, sent by a modern client.

    Attributes:
        name: The name of the round: the question that it answers.
        answer: The user's answer to that question; None to agree.
        call: The number of the call, if a client makes several.
        extra: Answers to questions that were not asked, by key: an answer, or content that is
            accepted.
        to: The instance it goes to; None for the next in turn.
        ends: The side that ends while the request is at work: the client leaves, or the instance
            dies and another takes its place.
        only_if: The condition without which the step is left out. "failed": the request before it
            brought an error or nothing. "asked": the request before it brought this round's
            question. "room": no earlier step with this condition has been refused.
        location: Another argument than the call's.
        arguments: Arguments in place of the location, valid or not; `...` to leave them out.
        tool: Another tool than the weather tool.
        principal: The caller, if not the call's user.
        asks: Whether the client declares elicitation on this request.
        takes_tasks: Whether the client declares the Tasks extension on this request.
        key_edit: The client's change to the key of its answer, of `KEY_EDITS`.
        edit: The client's change to the state, of `STATE_EDITS`.
        state_of: The call whose state it carries, if not its own.
        state: A state from elsewhere that it carries.
    """

    name: RoundName
    answer: UserAnswer | None = None
    call: int = 1
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    to: int | None = None
    ends: Literal["client", "instance"] | None = None
    only_if: Literal["failed", "asked", "room"] | None = None
    location: str | None = None
    arguments: Any = None
    tool: str | None = None
    principal: str | None = None
    asks: bool = True
    takes_tasks: bool = False
    key_edit: str | None = None
    edit: str | None = None
    state_of: int | None = None
    state: str | None = None

    @property
    def calls(self) -> tuple[int, ...]:
        return (self.call,) if self.state_of is None else (self.call, self.state_of)

    @property
    def effects(self) -> int:
        return 1 if self.again is None else 2

    @property
    def needs(self) -> set[Need]:
        found: set[Need] = set()
        if self.ends == "instance":
            found.add("crash")
        if (self.principal or "alice") != "alice":
            found.add("callers")
        return found


@dataclass(frozen=True)
class Repeat(Step):
    """A second delivery of an earlier request, unchanged, by a slow proxy.

    Attributes:
        call: The number of the call.
        back: The number of its request, counted from the latest, which is 1.
    """

    call: int = 1
    back: int = 1

    @property
    def calls(self) -> tuple[int, ...]:
        return (self.call,)


@dataclass(frozen=True)
class ListTools(Step):
    """A listing of the tools, and of what else the server lists.

    Attributes:
        principal: The caller.
    """

    principal: str = "alice"


@dataclass(frozen=True)
class WholeCall(Step):
    """A call of a legacy client, which is one request; its questions are answered as they come.

    Attributes:
        answers: The user's answers that do not agree, by the name of the form's field. A tuple
            gives successive answers; the last one repeats.
        call: The number of the call, if a client makes several.
        asks: Whether the client declares elicitation.
        leaves: The field of the question at which the client is gone.
        waits_for: Its user thinks until this other call, which begins meanwhile, has ended.
        thinks: The seconds that pass before each answer arrives, by the instances' clocks.
        session: The name of the session in which it is made, for a client that stays connected;
            only where the review runs the server.
    """

    answers: WholeAnswers = field(default_factory=dict[str, OneOrMore])
    call: int = 1
    asks: bool = True
    leaves: str = ""
    waits_for: int | None = None
    thinks: float = 0.0
    session: str = ""

    @property
    def calls(self) -> tuple[int, ...]:
        return (self.call,)

    @property
    def effects(self) -> int:
        return 3


@dataclass(frozen=True)
class Together(Step):
    """Rounds of different calls, whole calls, or requests for a task, begun at the same moment.

    A fault at an effect of one of them happens at the first such effect.
    """

    steps: Script

    @property
    def parts(self) -> Script:
        return self.steps

    @property
    def calls(self) -> tuple[int, ...]:
        return tuple(call for step in self.steps for call in step.calls)

    @property
    def effects(self) -> int:
        return sum(step.effects for step in self.steps)


Keys = Literal["same", "rotated", "new"]
"""The keys of instances that replace others.

They have the same keys, a ring that was rotated (the old key still verifies), or only a new key.
"""


@dataclass(frozen=True)
class Restart(Step):
    """The end of every instance, and its replacement by a new one with these keys."""

    keys: Keys = "same"

    @property
    def effects(self) -> int:
        return 0

    @property
    def needs(self) -> set[Need]:
        return {"restart"}


@dataclass(frozen=True)
class Wait(Step):
    """The passing of some seconds."""

    seconds: float

    @property
    def effects(self) -> int:
        return 0

    @property
    def needs(self) -> set[Need]:
        return {"time"}


Change = Literal["reworded", "schema", "inserted", "removed", "reordered", "effect", "renamed"]
"""The author's change between two versions; see `redeploys`.

It is the wording of the question about the units, its choices, a question before it, whether
places are asked for at all, which question comes first, an effect above them, or the names of the
file and its functions.
"""


@dataclass(frozen=True)
class Redeploy(Step):
    """The replacement of instances by others with another version of the file.

    Attributes:
        change: The version's change; None for the file as it is.
        only: The one instance that is replaced; None for all.
    """

    change: Change | None
    only: int | None = None

    @property
    def needs(self) -> set[Need]:
        return {"versions"}


# --- of a client that takes tasks (SEP-2663) -----------------------------------------------------

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled")


class TaskStep(Step):
    """A step of a client that takes tasks."""

    @property
    def needs(self) -> set[Need]:
        return {"tasks"}


@dataclass(frozen=True)
class Create(TaskStep):
    """A call of the tool that returns a task.

    Attributes:
        asks: Whether the client declares elicitation.
    """

    asks: bool = True


@dataclass(frozen=True)
class Look(TaskStep):
    """`tasks/get`, repeated until the task has a status.

    Attributes:
        until: The statuses that end it; with none, one request is sent.
        principal: The caller.
        takes_tasks: Whether this request declares the extension.
        guessed: Whether the id was never handed out.
    """

    until: tuple[Status, ...] = ()
    principal: str = "alice"
    takes_tasks: bool = True
    guessed: bool = False


@dataclass(frozen=True)
class Update(TaskStep):
    """`tasks/update`, with the client's answers.

    Attributes:
        answers: The user's answers, by the question's name; None to agree to every open question.
        extra: Answers to questions that were not asked, by key; each accepted with this content.
        principal: The caller.
    """

    answers: types.InputResponses | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    principal: str = "alice"


@dataclass(frozen=True)
class Stop(TaskStep):
    """`tasks/cancel`, sent by this principal."""

    principal: str = "alice"


FIRST = Send("first")
PLACE = Send("place")
UNITS = Send("units")
DECLINE = refuse("decline")
CANCEL = refuse("cancel")
MISSOURI = accept({"place": "Springfield, Missouri"})
