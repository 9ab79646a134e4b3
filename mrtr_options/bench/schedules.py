"""What the client, the network and the servers do during one call, as scripts that can be read.

A schedule is data: it knows no option and no deployment. `player` plays it. The rounds of a call are
named by the question they answer: "first" (none), "place", "units", and "consent", which only some
redeploys ask for. A step is skipped if its question was never asked, so one script serves options that
ask less.

A script of task steps is for options that return tasks to clients that take them (SEP-2663).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

RoundName = Literal["first", "place", "units", "consent"]

AGREE: dict[str, Any] = {"place": "Springfield, Illinois", "units": "metric"}
"""What the user says unless a step says otherwise."""


# --- what the user answers ----------------------------------------------------------------------


@dataclass(frozen=True)
class Accept:
    """The user fills the form in; `content` is what they write, valid or not."""

    content: Any


@dataclass(frozen=True)
class Refuse:
    """The user declines or cancels, perhaps with content."""

    action: Literal["decline", "cancel"]
    content: Any = None


@dataclass(frozen=True)
class Roots:
    """Not an answer to a form at all: the result of a roots request."""


@dataclass(frozen=True)
class Nothing:
    """The round goes out without answers: the user is not done yet."""


UserAnswer = Accept | Refuse | Roots | Nothing


# --- what is done to the state ------------------------------------------------------------------

StateEdit = Literal["flip", "truncate", "garbage", "too long", "forge", "drop"]
"""What a client does to the state it was given: "forge" writes another place into it, if it can be
read; "drop" sends the round without any."""


# --- what goes wrong inside a round -------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """Something goes wrong at an effect, if its round reaches that effect.

    Attributes:
        at: The kind of effect.
        what: "crash": the instance dies right after the effect. "down": it dies right before it.
            "disconnect": the client is gone right after the effect, and the SDK cancels the handler.
            "fail": the effect does not happen and raises in the handler, as often as it is tried;
            "once": only the first time in the round. "slow": the first time takes longer. "lock": for a
            moment somebody else writes.
    """

    at: Literal["audit", "bill"]
    what: Literal["crash", "down", "disconnect", "fail", "once", "slow", "lock"]

    @property
    def is_of_ledger(self) -> bool:
        """Whether it happens in the ledger, and the instance and the client stay."""
        return self.what in ("fail", "once", "slow", "lock")


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Send:
    """One round, sent by a modern client.

    Attributes:
        round: Which one.
        answer: The user's answer to that round's question; None to agree.
        extra: Answers to questions that were not asked, by key: an answer, or content that is accepted.
        lost: The response breaks off; the client never sees it.
        again: The network delivers the request twice: one after the other, or at once.
        edit: What is done to the state.
        location: Another argument than the call's.
        principal: Who is calling, if not the call's user; empty for somebody without a name.
        asks: Whether the client declares elicitation on this request.
        call: Which call, where a client makes several.
        state_of: The call whose state it carries, if not its own.
        state: A state from elsewhere that it carries.
        to: The instance it goes to; None for the next in turn.
        fault: What goes wrong in this round.
        retry: Whether it is sent only where the request before it brought an error or nothing.
        if_asked: Whether it is sent only where the request before it brought this round's question.
        tool: Another tool than the weather tool.
        arguments: Arguments in place of the location, valid or not.
    """

    round: RoundName
    answer: UserAnswer | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    lost: bool = False
    again: Literal["later", "at once"] | None = None
    edit: StateEdit | None = None
    location: str | None = None
    principal: str | None = None
    asks: bool = True
    call: int = 1
    state_of: int | None = None
    state: str | None = None
    to: int | None = None
    fault: Fault | None = None
    retry: bool = False
    if_asked: bool = False
    tool: str | None = None
    arguments: Any = None


@dataclass(frozen=True)
class Repeat:
    """An earlier request is delivered again, unchanged, by a slow proxy.

    Attributes:
        call: Of which call.
        back: Which of its requests, counted from the latest: 1 for that one.
        to: The instance it goes to; None for the next in turn.
    """

    call: int = 1
    back: int = 1
    to: int | None = None


@dataclass(frozen=True)
class Forge:
    """A client makes states from those it holds (`attacks`), and sends each with a good answer.

    Attributes:
        round: The round whose state is meant.
        answer: The user's answer to that round's question; None to agree.
        call: Which call.
        only: The name of the one state that is made; empty for all.
    """

    round: RoundName
    answer: UserAnswer | None = None
    call: int = 1
    only: str = ""


@dataclass(frozen=True)
class ListTools:
    """The client lists the tools."""


@dataclass(frozen=True)
class Caller:
    """Whose call it is, and what about.

    Attributes:
        location: The tool's argument.
        principal: The user; empty for one without a name.
        asks: Whether their client declares that it can ask by forms.
        declares: How it declares elicitation: as `{}`, which means forms, or by URL only; None for what
            the SDK's client says.
    """

    location: str
    principal: str = "alice"
    asks: bool = True
    declares: Literal["empty", "url"] | None = None


@dataclass(frozen=True)
class Call:
    """A whole call, its questions answered as they come; the only step of a legacy client.

    Attributes:
        answers: What the user says, by the name of the form's field, where they do not agree; of
            several, one each time they are asked, and the last from then on.
        call: Which call, where a client makes several.
        lost: The result breaks off; the client never sees it.
        asks: Whether the client declares elicitation.
        leaves: The client is gone when the first question reaches it; of a legacy client only.
        fault: What goes wrong during the call.
        takes_tasks: Whether the client declares the Tasks extension, and finishes a task it is given.
        waits_for: Its user thinks until this other call, which begins meanwhile, has ended; of a legacy
            client only.
    """

    answers: dict[str, UserAnswer | tuple[UserAnswer, ...]] = field(
        default_factory=dict[str, UserAnswer | tuple[UserAnswer, ...]]
    )
    call: int = 1
    lost: bool = False
    asks: bool = True
    leaves: bool = False
    fault: Fault | None = None
    takes_tasks: bool = False
    waits_for: int | None = None


@dataclass(frozen=True)
class Together:
    """Rounds of different calls, or whole ones, begin at the same moment."""

    steps: tuple[Send | Call, ...]


@dataclass(frozen=True)
class Restart:
    """Every instance ends and a new one takes its place.

    Attributes:
        keys: What the new ones know: the same keys, a ring that was rotated (the old key still
            verifies), or only a new key.
    """

    keys: Literal["same", "rotated", "new"] = "same"


@dataclass(frozen=True)
class Wait:
    """Time passes.

    Attributes:
        seconds: How much.
    """

    seconds: float


Change = Literal["reworded", "schema", "inserted", "removed", "reordered", "effect"]
"""What the author changes between two versions: the wording of the question about the units, its
choices, a question before it, whether places are asked for at all, which question comes first, or an
effect above them. See `redeploys`."""


@dataclass(frozen=True)
class Redeploy:
    """Instances end, and others with another version of the file take their place.

    Attributes:
        change: What that version has changed; None for the file as it is.
        only: The one instance that is replaced; None for all.
    """

    change: Change | None
    only: int | None = None


# --- steps of a client that takes tasks ---------------------------------------------------------

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Create:
    """The tool is called, and a task is returned.

    Attributes:
        lost: The response breaks off; the client never learns of the task.
        asks: Whether the client declares elicitation.
        fault: What goes wrong in the work that begins.
    """

    lost: bool = False
    asks: bool = True
    fault: Fault | None = None


@dataclass(frozen=True)
class Look:
    """`tasks/get`, repeated until the task has a status.

    Attributes:
        until: Which statuses; with none, one request is sent.
        principal: Who looks.
        takes_tasks: Whether this request declares the extension.
        guessed: Whether the id was never handed out.
    """

    until: tuple[Status, ...] = ()
    principal: str = "alice"
    takes_tasks: bool = True
    guessed: bool = False


@dataclass(frozen=True)
class Update:
    """`tasks/update`: the client sends answers.

    Attributes:
        answers: What the user says, by round; None to agree to every question that is open.
        extra: Answers that were not asked, by key; each accepted with this content.
        lost: The response breaks off; the client sends the same again.
        again: The network delivers the request twice: one after the other, or at once.
        principal: Who sends it.
        fault: What goes wrong in the work that goes on.
    """

    answers: dict[RoundName, UserAnswer] | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    lost: bool = False
    again: Literal["later", "at once"] | None = None
    principal: str = "alice"
    fault: Fault | None = None


@dataclass(frozen=True)
class Stop:
    """`tasks/cancel`.

    Attributes:
        principal: Who wants it stopped.
    """

    principal: str = "alice"


@dataclass(frozen=True)
class AtOnce:
    """An answer and a cancellation arrive at the same moment, at two instances where there are two."""

    update: Update
    stop: Stop


TaskStep = Create | Look | Update | Stop | AtOnce
Step = Send | Call | Repeat | Forge | Together | ListTools | Restart | Redeploy | Wait | TaskStep


@dataclass(frozen=True)
class Schedule:
    """What happens during one call.

    Attributes:
        slug: Its name.
        models: One sentence: what it models, and why it happens in practice.
        script: The steps, for a modern client; empty if the schedule does not apply to one.
        legacy: The steps, for a legacy client.
        location: The tool's argument.
        calls: How many calls of the tool the user means to make.
        sticky: Whether rounds go to the instance that handed out their state.
        honours_keys: Whether the effects' destination absorbs one whose idempotency key it has seen.
        who: Of several calls, whose each is; empty for calls that are all alike.
    """

    slug: str
    models: str
    script: tuple[Step, ...] = ()
    legacy: tuple[Step, ...] = ()
    location: str = "Springfield"
    calls: int = 1
    sticky: bool = False
    honours_keys: bool = False
    who: tuple[Caller, ...] = ()

    def caller(self, call: int) -> Caller:
        """Which call this is, and whose; calls are counted from 1."""
        return self.who[call - 1] if self.who else Caller(self.location)

    @property
    def has_fault(self) -> bool:
        """Whether something goes wrong inside a round, at an effect."""
        steps = (*self.script, *self.legacy)
        return any(isinstance(step, Send | Call) and step.fault is not None for step in steps)

    @property
    def takes_tasks(self) -> bool:
        """Whether its client takes tasks."""
        return any(
            isinstance(step, TaskStep) or (isinstance(step, Call) and step.takes_tasks)
            for step in self.script
        )

    @property
    def changes(self) -> set[Change]:
        """The versions that are deployed besides the file as it is."""
        return {step.change for step in self.script if isinstance(step, Redeploy) and step.change}

    @property
    def needs_two(self) -> bool:
        """Whether it needs more than one instance."""
        return any(isinstance(step, Redeploy) and step.only is not None for step in self.script)


FIRST, PLACE, UNITS = Send("first"), Send("place"), Send("units")
DECLINE, CANCEL = Refuse("decline"), Refuse("cancel")
MISSOURI = Accept({"place": "Springfield, Missouri"})

# A redeploy: the user's answers differ from what is assumed, and every repeated question is answered.
_PLACE = Send("place", MISSOURI)
_CONSENT = Send("consent", Accept({"consent": "yes"}))
_REST = 3 * tuple(replace(step, if_asked=True) for step in (_PLACE, _CONSENT, UNITS))

_BEGUN: dict[Change, tuple[Send, ...]] = {
    "reworded": (_PLACE, UNITS),
    "schema": (_PLACE, Send("units", Accept({"units": "kelvin"}))),
    "inserted": (_PLACE, _CONSENT, UNITS),
    "removed": (UNITS,),
    "reordered": (UNITS, _PLACE),
    "effect": (_PLACE, UNITS),
}
"""The rounds after the first in a call of the changed version; the last one comes too late."""


def _redeploys(change: Change, what: str) -> tuple[Schedule, ...]:
    *before, last = _BEGUN[change]
    new, old = Redeploy(change), Redeploy(None)
    return (
        Schedule(
            f"redeploy-{change}",
            f"While the user is thinking about the last question, the server is deployed anew: {what}.",
            (FIRST, _PLACE, new, UNITS, *_REST),
        ),
        Schedule(
            f"redeploy-{change}-back",
            f"The same change is taken back: {what}, until the server is rolled back.",
            (new, FIRST, *before, old, last, *_REST),
        ),
        Schedule(
            f"redeploy-{change}-mixed",
            f"Half of the fleet has the change, half has not, and rounds go to either in turn: {what}.",
            (Redeploy(change, only=1), FIRST, _PLACE, UNITS, *_REST),
        ),
    )


# A task: created, its two questions answered, and looked at until it is over.
_ASKED = Look(("input_required",))
_OVER = Look(ENDED)
_CREATED = (Create(), _ASKED)
_PLACED = (*_CREATED, Update(), _ASKED)
_FINISHED = (*_PLACED, Update(), _OVER)
_AT_THE_BILL = Fault("bill", "crash")

_TASKS = (
    Schedule("task-clean", "A task, its questions and its result.", _FINISHED),
    Schedule(
        "task-lost-create",
        "The response with the task's id is lost; the client calls again and finishes that task.",
        (Create(lost=True), *_FINISHED),
    ),
    Schedule(
        "task-lost-update",
        "The response to an answer is lost; the client sends the answer again.",
        (*_PLACED, Update(lost=True), Update(again="later"), _OVER),
    ),
    Schedule(
        "task-update-twice",
        "A proxy delivers an answer twice, the second time when it was taken.",
        (*_CREATED, Update(again="later"), _ASKED, Update(again="later"), _OVER),
    ),
    Schedule(
        "task-update-at-once",
        "An answer is delivered twice at the same moment, to two instances.",
        (*_CREATED, Update(again="at once"), _ASKED, Update(again="at once"), _OVER),
    ),
    Schedule(
        "task-two-answers",
        "The user answers, goes back and answers differently.",
        (*_CREATED, Update(), Update({"place": MISSOURI}), _ASKED, Update(), _OVER),
    ),
    Schedule(
        "task-unknown-keys",
        "A client sends answers to questions that were not asked, alone and along with the real one.",
        (
            *_CREATED,
            Update({}, extra={"horoscope": {"sign": "leo"}}),
            Look(),
            Update(extra={"horoscope": {"sign": "leo"}}),
            _ASKED,
            Update(),
            _OVER,
        ),
    ),
    Schedule(
        "task-partial-keys",
        "A client sends an update with none of the answers, then with all of them.",
        (*_CREATED, Update({}), Look(), Update(), _ASKED, Update({}), Update(), _OVER),
    ),
    Schedule(
        "task-bad-answer",
        "A client without form validation sends an answer that does not fit, then a good one.",
        (*_PLACED, Update({"units": Accept({"units": "kelvin"})}), Look(), Update(), _OVER),
    ),
    Schedule(
        "task-decline",
        "The user says no to the last question.",
        (*_PLACED, Update({"units": DECLINE}), _OVER),
    ),
    Schedule(
        "task-cannot-ask",
        "The client takes tasks and cannot ask its user.",
        (Create(asks=False), _OVER),
    ),
    Schedule(
        "task-other-principal",
        "Somebody else has learned the task's id: they look, answer and cancel.",
        (
            *_PLACED,
            Look(principal="mallory"),
            Update(principal="mallory"),
            Stop(principal="mallory"),
            Update(),
            _OVER,
        ),
    ),
    Schedule("task-guessed", "Somebody makes an id up.", (*_PLACED, Look(guessed=True))),
    Schedule(
        "task-undeclared",
        "A client that did not declare the extension looks at a task.",
        (*_PLACED, Look(takes_tasks=False)),
    ),
    Schedule(
        "task-cancel",
        "The user has the task stopped while it waits for them, and answers all the same.",
        (*_PLACED, Stop(), _OVER, Update({"units": Accept({"units": "metric"})}), Stop(), _OVER),
    ),
    Schedule(
        "task-cancel-finished",
        "The task is over when it is cancelled.",
        (*_FINISHED, Stop(), _OVER, Stop(), _OVER),
    ),
    Schedule(
        "task-cancel-races",
        "The last answer and a cancellation arrive at the same moment, at two instances.",
        (*_PLACED, AtOnce(Update(), Stop()), _OVER, Stop(), _OVER, _OVER),
    ),
    Schedule(
        "task-expired",
        "The user comes back after the task's time.",
        (*_PLACED, Wait(3 * 3600), Look()),
    ),
    Schedule(
        "task-killed-working",
        "The instance that works at the task dies right after the bill.",
        (*_PLACED, Update(fault=_AT_THE_BILL), _OVER),
    ),
    Schedule(
        "task-killed-working-keyed",
        "As `killed-working`, and the destination honours the effect's idempotency key.",
        (*_PLACED, Update(fault=_AT_THE_BILL), _OVER),
        honours_keys=True,
    ),
    Schedule(
        "task-killed-waiting",
        "Every instance is replaced while the task waits for the user.",
        (*_CREATED, Restart(), _ASKED, Update(), _ASKED, Restart(), Update(), _OVER),
    ),
    Schedule(
        "task-killed-completed",
        "Every instance is replaced when the task is over.",
        (*_FINISHED, Restart(), _OVER),
    ),
    Schedule(
        "task-killed-failed",
        "Every instance is replaced after the task failed, since its audit did.",
        (Create(fault=Fault("audit", "fail")), _OVER, Restart(), _OVER, _OVER),
    ),
    Schedule(
        "task-killed-cancelled",
        "Every instance is replaced after the task was cancelled.",
        (*_PLACED, Stop(), Restart(), _OVER, _OVER),
    ),
)

SCHEDULES: dict[str, Schedule] = {
    schedule.slug: schedule
    for schedule in (
        # clean calls
        Schedule(
            "clean-tokyo",
            "Nothing goes wrong, one question: what every demo shows.",
            (FIRST, UNITS),
            (Call(),),
            location="Tokyo",
        ),
        Schedule(
            "clean-springfield",
            "Nothing goes wrong, two questions, the second depends on the first.",
            (FIRST, PLACE, UNITS),
            (Call(),),
        ),
        # responses that are lost
        Schedule(
            "lost-first",
            "The first response breaks off (a proxy times out); the client starts over, with nothing "
            "that says it is the same call.",
            (Send("first", lost=True), FIRST, PLACE, UNITS),
            (),
        ),
        Schedule(
            "lost-interim",
            "A response in the middle breaks off and the client, which kept no state, starts over.",
            (FIRST, Send("place", lost=True), FIRST, PLACE, UNITS),
        ),
        Schedule(
            "lost-interim-resent",
            "A response in the middle breaks off; the client kept the state and sends the round again.",
            (FIRST, Send("place", lost=True), PLACE, UNITS),
        ),
        Schedule(
            "lost-final",
            "The result is lost on its way; the client retries the last round, as a new request.",
            (FIRST, PLACE, Send("units", lost=True), UNITS),
            (Call(lost=True), Call()),
        ),
        Schedule(
            "lost-final-anew",
            "The result is lost on its way and the client gives up; the application calls the tool "
            "anew.",
            (FIRST, PLACE, Send("units", lost=True), FIRST, PLACE, UNITS),
        ),
        # requests that arrive twice
        Schedule(
            "duplicate-interim",
            "A retrying proxy delivers a round in the middle twice, one after the other.",
            (FIRST, Send("place", again="later"), UNITS),
        ),
        Schedule(
            "concurrent-interim",
            "A retrying proxy delivers a round in the middle twice at once.",
            (FIRST, Send("place", again="at once"), UNITS),
        ),
        Schedule(
            "duplicate-final",
            "A retrying proxy delivers the last round twice, one after the other.",
            (FIRST, PLACE, Send("units", again="later")),
        ),
        Schedule(
            "concurrent-final",
            "A retrying proxy, or an impatient user, delivers the last round twice at once.",
            (FIRST, PLACE, Send("units", again="at once")),
        ),
        Schedule(
            "late-replay",
            "A finished call's last round is sent once more, half a minute later (a resumed laptop).",
            (FIRST, PLACE, UNITS, Wait(30), UNITS),
        ),
        # rounds that end before their response
        Schedule(
            "disconnect-after-audit",
            "The client is gone when the first effect has happened; the SDK cancels the handler, and "
            "the client starts over.",
            (Send("first", fault=Fault("audit", "disconnect")), FIRST, PLACE, UNITS),
        ),
        Schedule(
            "disconnect-after-effect",
            "The client is gone when the bill is written; the SDK cancels the handler, and the client "
            "sends the last round again.",
            (FIRST, PLACE, Send("units", fault=Fault("bill", "disconnect")), UNITS),
        ),
        Schedule(
            "crash-after-effect",
            "The process dies between the bill and the response; the client sends the round again.",
            (FIRST, PLACE, Send("units", fault=Fault("bill", "crash")), UNITS),
        ),
        Schedule(
            "lost-final-keyed",
            "As lost-final, where the effects' destination honours idempotency keys.",
            (FIRST, PLACE, Send("units", lost=True), UNITS),
            honours_keys=True,
        ),
        Schedule(
            "crash-after-effect-keyed",
            "As crash-after-effect, where the effects' destination honours idempotency keys.",
            (FIRST, PLACE, Send("units", fault=Fault("bill", "crash")), UNITS),
            honours_keys=True,
        ),
        Schedule(
            "failed-audit",
            "The first effect fails (its destination is down) and the client starts over.",
            (Send("first", fault=Fault("audit", "fail")), Send("first", retry=True), PLACE, UNITS),
            (Call(fault=Fault("audit", "fail")), Call()),
        ),
        Schedule(
            "failed-bill",
            "The last effect fails (its destination is down) and the client sends the round again.",
            (FIRST, PLACE, Send("units", fault=Fault("bill", "fail")), Send("units", retry=True)),
            (Call(fault=Fault("bill", "fail")), Call()),
        ),
        Schedule(
            "abandoned",
            "The user closes the window at the second question and never comes back.",
            (FIRST, PLACE),
            (Call(leaves=True),),
        ),
        # answers
        Schedule(
            "decline",
            "The user says no to the last question.",
            (FIRST, PLACE, Send("units", DECLINE)),
            (Call({"units": DECLINE}),),
        ),
        Schedule(
            "decline-first",
            "The user says no to the first of two questions.",
            (FIRST, Send("place", DECLINE), UNITS),
            (Call({"place": DECLINE}),),
        ),
        Schedule(
            "decline-with-content",
            "The user fills the form in and then says no; the client sends what was typed along.",
            (FIRST, PLACE, Send("units", Refuse("decline", {"units": "metric"}))),
            (Call({"units": Refuse("decline", {"units": "metric"})}),),
        ),
        Schedule(
            "cancel",
            "The user dismisses the last question without an answer.",
            (FIRST, PLACE, Send("units", CANCEL)),
            (Call({"units": CANCEL}),),
        ),
        Schedule(
            "bad-answer",
            "A client without form validation sends an answer that does not fit, then a good one.",
            (FIRST, PLACE, Send("units", Accept({"units": "kelvin"})), UNITS),
            (Call({"units": (Accept({"units": "kelvin"}), Accept({"units": "metric"}))}),),
        ),
        Schedule(
            "empty-answer",
            "A client accepts the form with no content at all, then properly.",
            (FIRST, PLACE, Send("units", Accept(None)), UNITS),
            (Call({"units": (Accept(None), Accept({"units": "metric"}))}),),
        ),
        Schedule(
            "wrong-kind",
            "A confused client answers the form with the result of a roots request, then properly.",
            (FIRST, PLACE, Send("units", Roots()), UNITS),
        ),
        Schedule(
            "early-retry",
            "An eager client polls: it sends the state back before the user has answered.",
            (FIRST, PLACE, Send("units", Nothing()), UNITS),
        ),
        Schedule(
            "extra-answer",
            "A client sends answers to questions that were not asked along with the real one.",
            (FIRST, Send("place", extra={"horoscope": {"sign": "leo"}}), UNITS),
        ),
        Schedule(
            "settled-answer",
            "The last round brings a different answer to the first question, which is settled.",
            (FIRST, PLACE, Send("units", extra={"place": MISSOURI.content})),
        ),
        Schedule(
            "fork",
            "The user answers, goes back and answers differently: one state, two answers.",
            (FIRST, PLACE, UNITS, Send("units", Accept({"units": "imperial"}))),
        ),
        Schedule(
            "fork-decline",
            "The user agrees in one window and says no in another: one state, two answers.",
            (FIRST, PLACE, UNITS, Send("units", DECLINE)),
        ),
        Schedule(
            "fork-interim",
            "The user goes back to the first question, answers it differently and finishes.",
            (FIRST, PLACE, Send("place", MISSOURI), UNITS),
        ),
        Schedule(
            "cold-answer",
            "A client that has used the tool before sends the answer with the first request.",
            (Send("first", extra={"units": {"units": "metric"}}), UNITS),
            location="Tokyo",
        ),
        Schedule(
            "cold-answers",
            "As cold-answer, with both answers at once.",
            (
                Send("first", extra={key: {key: said} for key, said in AGREE.items()}),
                PLACE,
                UNITS,
            ),
        ),
        Schedule(
            "dropped-state",
            "A client that forgets the state sends the first answer without it.",
            (FIRST, Send("place", edit="drop"), UNITS),
        ),
        Schedule(
            "crossed-states",
            "Two equal calls at once; the client confuses their states.",
            (
                FIRST,
                Send("first", call=2),
                Send("place", state_of=2),
                Send("place", call=2, state_of=1),
                Send("units", state_of=2),
                Send("units", call=2, state_of=1),
            ),
            calls=2,
        ),
        # states
        Schedule(
            "tampered",
            "A client changes one character of the state: the state is attacker-controlled input.",
            (FIRST, Send("place", edit="flip"), UNITS),
        ),
        Schedule(
            "forged",
            "A client decodes the state, writes another place into it and encodes it again.",
            (FIRST, PLACE, Send("units", edit="forge")),
        ),
        Schedule(
            "truncated",
            "A client cuts the state short (a column too narrow for it).",
            (FIRST, Send("place", edit="truncate"), UNITS),
        ),
        Schedule(
            "garbage",
            "A client makes a state up.",
            (FIRST, Send("place", edit="garbage"), UNITS),
        ),
        Schedule(
            "too-long",
            "A client sends a state of a megabyte, to see what decoding it costs.",
            (FIRST, Send("place", edit="too long"), UNITS),
        ),
        Schedule(
            "other-arguments",
            "A client carries the state of one call over to a call with other arguments.",
            (FIRST, PLACE, Send("units", location="Portland")),
        ),
        Schedule(
            "other-principal",
            "A state leaks, and somebody else sends it.",
            (FIRST, Send("place", principal="mallory")),
        ),
        Schedule(
            "slow-user",
            "The user takes nine minutes for each question; a state is good for ten.",
            (FIRST, Wait(540), PLACE, Wait(540), UNITS),
        ),
        Schedule(
            "expired",
            "The user comes back after lunch; a state is good for ten minutes.",
            (FIRST, PLACE, Wait(3600), UNITS),
        ),
        # instances
        Schedule(
            "failover",
            "A load balancer without stickiness sends every round to another instance.",
            (Send("first", to=0), Send("place", to=1), Send("units", to=0)),
        ),
        Schedule(
            "sticky",
            "A load balancer that hashes the state sends every round where its state came from.",
            (FIRST, PLACE, UNITS),
            sticky=True,
        ),
        Schedule(
            "restart",
            "The server is deployed anew, unchanged, while the user is thinking.",
            (FIRST, PLACE, Restart(), UNITS),
        ),
        Schedule(
            "key-rotation",
            "The keys are rotated while the user is thinking; the old one still verifies.",
            (FIRST, PLACE, Restart(keys="rotated"), UNITS),
        ),
        Schedule(
            "key-lost",
            "The server restarts with another key: one that lived in its memory only.",
            (FIRST, PLACE, Restart(keys="new"), UNITS),
        ),
        # eras and capabilities
        Schedule(
            "no-elicitation-tokyo",
            "The client cannot ask its user; the call can do with what it assumes.",
            (Send("first", asks=False), Send("units", asks=False)),
            (Call(asks=False),),
            location="Tokyo",
        ),
        Schedule(
            "no-elicitation-springfield",
            "The client cannot ask its user, and the call cannot go on without.",
            (Send("first", asks=False), Send("place", asks=False)),
            (Call(asks=False),),
        ),
        Schedule(
            "capability-lost",
            "The client stops declaring elicitation half-way (another frontend took over).",
            (FIRST, Send("place", asks=False), UNITS),
        ),
        Schedule(
            "unknown-place",
            "The caller names a place that does not exist.",
            (FIRST,),
            (Call(),),
            location="Atlantis",
        ),
        # other versions of the code
        *_redeploys("reworded", "a question has another wording"),
        *_redeploys("schema", "a question has one more choice"),
        *_redeploys("inserted", "another question comes before it"),
        *_redeploys("removed", "the first question is gone, its first choice is taken"),
        *_redeploys("reordered", "the second question comes first"),
        *_redeploys("effect", "there is one more effect above the questions"),
        Schedule(
            "redeploy-rolling",
            "Another instance is deployed anew, a question reworded; the call stays where it began.",
            (FIRST, _PLACE, Redeploy("reworded", only=1), UNITS, *_REST),
            sticky=True,
        ),
        *_TASKS,
    )
}
"""Every named schedule by its slug, in the order of the matrix."""
