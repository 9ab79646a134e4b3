"""The named schedules: what happens in practice, by name.

A schedule that is a set of faults is written as one, and the default client plays it: `lost-final`
is `lost3`. The others are scripts. Task schedules are for options that return tasks to clients that
take them (SEP-2663).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.scenario import (
    AGREE,
    CANCEL,
    DECLINE,
    ENDED,
    FIRST,
    MISSOURI,
    PLACE,
    UNITS,
    Accept,
    Caller,
    Change,
    Create,
    Look,
    Nothing,
    Redeploy,
    Refuse,
    Restart,
    Roots,
    Scenario,
    Send,
    Step,
    Stop,
    Together,
    Update,
    Wait,
    WholeCall,
)
from mrtr_options.review.bench.setup import Era, Policy, Setup
from mrtr_options.tool.weather import Destination


@dataclass(frozen=True)
class Named:
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


def _named(
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
) -> Named:
    """Make a schedule; see `Named` and `Setup`.

    Args:
        name: See `Named`.
        why: See `Named`.
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
    return Named(name, why, new, old)


# A redeploy: the user's answers differ from what is assumed, and every repeated question is
# answered.
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
    "renamed": (_PLACE, UNITS),
}
"""The rounds after the first in a call of the changed version; the last one comes too late."""


def _redeploys(change: Change, what: str) -> tuple[Named, ...]:
    *before, last = _BEGUN[change]
    new = Redeploy(change)
    old = Redeploy(None)
    return (
        _named(
            f"redeploy-{change}",
            "While the user is thinking about the last question, a new version is deployed:"
            f" {what}.",
            (FIRST, _PLACE, new, UNITS, *_REST),
        ),
        _named(
            f"redeploy-{change}-back",
            f"The same change is taken back: {what}, until the server is rolled back.",
            (new, FIRST, *before, old, last, *_REST),
        ),
        _named(
            f"redeploy-{change}-mixed",
            "Half of the fleet has the change, half has not, and rounds go to either in turn:"
            f" {what}.",
            (Redeploy(change, only=1), FIRST, _PLACE, UNITS, *_REST),
        ),
    )


# A task: created, its two questions answered, and looked at until it is over.
_ASKED = Look(("input_required",))
_OVER = Look(ENDED)
_CREATED = (Create(), _ASKED)
_PLACED = (*_CREATED, Update(), _ASKED)
_FINISHED = (*_PLACED, Update(), _OVER)

_TASKS = (
    _named("task-clean", "A task, its questions and its result.", _FINISHED),
    _named(
        "task-lost-create",
        "The response with the task's id is lost; the client calls again and finishes that task.",
        (Create(lost=True), *_FINISHED),
    ),
    _named(
        "task-lost-update",
        "The response to an answer is lost; the client sends the answer again.",
        (*_PLACED, Update(lost=True), Update(again="later"), _OVER),
    ),
    _named(
        "task-update-twice",
        "A proxy delivers an answer twice, the second time when it was taken.",
        (*_CREATED, Update(again="later"), _ASKED, Update(again="later"), _OVER),
    ),
    _named(
        "task-update-at-once",
        "An answer is delivered twice at the same moment, to two instances.",
        (*_CREATED, Update(again="at once"), _ASKED, Update(again="at once"), _OVER),
    ),
    _named(
        "task-two-answers",
        "The user answers, goes back and answers differently.",
        (*_CREATED, Update(), Update({"place": MISSOURI}), _ASKED, Update(), _OVER),
    ),
    _named(
        "task-unknown-keys",
        "A client sends answers to questions that were not asked, alone and along with the real"
        " one.",
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
    _named(
        "task-partial-keys",
        "A client sends an update with none of the answers, then with all of them.",
        (*_CREATED, Update({}), Look(), Update(), _ASKED, Update({}), Update(), _OVER),
    ),
    _named(
        "task-bad-answer",
        "A client without form validation sends an answer that does not fit, then a good one.",
        (*_PLACED, Update({"units": Accept({"units": "kelvin"})}), Look(), Update(), _OVER),
    ),
    _named(
        "task-decline",
        "The user says no to the last question.",
        (*_PLACED, Update({"units": DECLINE}), _OVER),
    ),
    _named(
        "task-cannot-ask",
        "The client takes tasks and cannot ask its user.",
        (Create(asks=False), _OVER),
    ),
    _named(
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
    _named("task-guessed", "Somebody makes an id up.", (*_PLACED, Look(guessed=True))),
    _named(
        "task-undeclared",
        "A client that did not declare the extension looks at a task.",
        (*_PLACED, Look(takes_tasks=False)),
    ),
    _named(
        "task-cancel",
        "The user has the task stopped while it waits for them, and answers anyway.",
        (*_PLACED, Stop(), _OVER, Update({"units": Accept({"units": "metric"})}), Stop(), _OVER),
    ),
    _named(
        "task-cancel-finished",
        "The task is over when it is cancelled.",
        (*_FINISHED, Stop(), _OVER, Stop(), _OVER),
    ),
    _named(
        "task-cancel-races",
        "The last answer and a cancellation arrive at the same moment, at two instances.",
        (*_PLACED, Together((Update(), Stop())), _OVER, Stop(), _OVER, _OVER),
    ),
    _named(
        "task-expired",
        "The user comes back after the task's time.",
        (*_PLACED, Wait(3 * 3600), Look()),
    ),
    _named(
        "task-killed-working",
        "The instance that works at the task dies right after the bill.",
        (*_PLACED, Update(fault="crash@bill"), _OVER),
    ),
    _named(
        "task-killed-working-keyed",
        "As `killed-working`, and the destination honours the effect's idempotency key.",
        (*_PLACED, Update(fault="crash@bill"), _OVER),
        destination="honours keys",
    ),
    _named(
        "task-killed-waiting",
        "Every instance is replaced while the task waits for the user.",
        (*_CREATED, Restart(), _ASKED, Update(), _ASKED, Restart(), Update(), _OVER),
    ),
    _named(
        "task-killed-completed",
        "Every instance is replaced when the task is over.",
        (*_FINISHED, Restart(), _OVER),
    ),
    _named(
        "task-killed-failed",
        "Every instance is replaced after the task failed, since its audit did.",
        (Create(fault="fail@audit"), _OVER, Restart(), _OVER, _OVER),
    ),
    _named(
        "task-killed-cancelled",
        "Every instance is replaced after the task was cancelled.",
        (*_PLACED, Stop(), Restart(), _OVER, _OVER),
    ),
)

SCHEDULES: dict[str, Named] = {
    schedule.name: schedule
    for schedule in (
        # clean calls
        _named(
            "clean-tokyo",
            "Nothing goes wrong, one question: what every demo shows.",
            "",
            (WholeCall(),),
            location="Tokyo",
        ),
        _named(
            "clean-springfield",
            "Nothing goes wrong, two questions, the second depends on the first.",
            "",
            (WholeCall(),),
        ),
        # responses that are lost
        _named(
            "lost-first",
            "The first response breaks off (a proxy times out); the client starts over, with"
            " nothing that says it is the same call.",
            "lost1",
        ),
        _named(
            "lost-interim",
            "A response in the middle breaks off and the client, which kept no state, starts over.",
            "lost2",
            policy="calls again",
        ),
        _named(
            "lost-interim-resent",
            "A response in the middle breaks off; the client kept the state and sends the round"
            " again.",
            "lost2",
        ),
        _named(
            "lost-final",
            "The result is lost on its way; the client resends the last round, as a new request.",
            "lost3",
            (WholeCall(lost=True), WholeCall()),
        ),
        _named(
            "lost-final-anew",
            "The result is lost on its way and the client gives up; the application calls the tool "
            "again.",
            "lost3",
            policy="calls again",
        ),
        # requests that arrive twice
        _named(
            "duplicate-interim",
            "A retrying proxy delivers a round in the middle twice, one after the other.",
            "twice2",
        ),
        _named(
            "concurrent-interim",
            "A retrying proxy delivers a round in the middle twice at once.",
            "both2",
        ),
        _named(
            "duplicate-final",
            "A retrying proxy delivers the last round twice, one after the other.",
            "twice3",
        ),
        _named(
            "concurrent-final",
            "A retrying proxy, or an impatient user, delivers the last round twice at once.",
            "both3",
        ),
        _named(
            "late-replay",
            "A finished call's last round is sent once more, half a minute later (a resumed"
            " laptop).",
            (FIRST, PLACE, UNITS, Wait(30), UNITS),
        ),
        # rounds that end before their response
        _named(
            "disconnect-after-audit",
            "The client is gone when the first effect has happened; the SDK cancels the handler,"
            " and the client starts over.",
            "gone@audit1",
        ),
        _named(
            "disconnect-after-effect",
            "The client is gone when the bill is written; the SDK cancels the handler, and the"
            " client sends the last round again.",
            "gone@bill3",
        ),
        _named(
            "crash-after-effect",
            "The process dies between the bill and the response; the client sends the round again.",
            (FIRST, PLACE, Send("units", fault="crash@bill"), UNITS),
        ),
        _named(
            "lost-final-keyed",
            "As lost-final, where the effects' destination honours idempotency keys.",
            "lost3",
            destination="honours keys",
        ),
        _named(
            "crash-after-effect-keyed",
            "As crash-after-effect, where the effects' destination honours idempotency keys.",
            (FIRST, PLACE, Send("units", fault="crash@bill"), UNITS),
            destination="honours keys",
        ),
        _named(
            "failed-audit",
            "The first effect fails (its destination is down) and the client starts over.",
            (Send("first", fault="fail@audit"), Send("first", retry=True), PLACE, UNITS),
            (WholeCall(fault="fail@audit"), WholeCall()),
        ),
        _named(
            "failed-bill",
            "The last effect fails (its destination is down) and the client sends the round again.",
            (FIRST, PLACE, Send("units", fault="fail@bill"), Send("units", retry=True)),
            (WholeCall(fault="fail@bill"), WholeCall()),
        ),
        _named(
            "abandoned",
            "The user closes the window at the second question and never comes back.",
            (FIRST, PLACE),
            (WholeCall(leaves=True),),
        ),
        # answers
        _named(
            "decline",
            "The user says no to the last question.",
            (FIRST, PLACE, Send("units", DECLINE)),
            (WholeCall({"units": DECLINE}),),
        ),
        _named(
            "decline-first",
            "The user says no to the first of two questions.",
            (FIRST, Send("place", DECLINE), UNITS),
            (WholeCall({"place": DECLINE}),),
        ),
        _named(
            "decline-with-content",
            "The user fills the form in and then says no; the client sends what was typed along.",
            (FIRST, PLACE, Send("units", Refuse("decline", {"units": "metric"}))),
            (WholeCall({"units": Refuse("decline", {"units": "metric"})}),),
        ),
        _named(
            "cancel",
            "The user dismisses the last question without an answer.",
            (FIRST, PLACE, Send("units", CANCEL)),
            (WholeCall({"units": CANCEL}),),
        ),
        _named(
            "bad-answer",
            "A client without form validation sends an answer that does not fit, then a good one.",
            (FIRST, PLACE, Send("units", Accept({"units": "kelvin"})), UNITS),
            (WholeCall({"units": (Accept({"units": "kelvin"}), Accept({"units": "metric"}))}),),
        ),
        _named(
            "empty-answer",
            "A client accepts the form with no content at all, then properly.",
            (FIRST, PLACE, Send("units", Accept(None)), UNITS),
            (WholeCall({"units": (Accept(None), Accept({"units": "metric"}))}),),
        ),
        _named(
            "wrong-kind",
            "A confused client answers the form with the result of a roots request, then properly.",
            (FIRST, PLACE, Send("units", Roots()), UNITS),
        ),
        _named(
            "early-retry",
            "An eager client polls: it sends the state back before the user has answered.",
            (FIRST, PLACE, Send("units", Nothing()), UNITS),
        ),
        _named(
            "extra-answer",
            "A client sends answers to questions that were not asked along with the real one.",
            (FIRST, Send("place", extra={"horoscope": {"sign": "leo"}}), UNITS),
        ),
        _named(
            "settled-answer",
            "The last round brings a different answer to the first question, which is settled.",
            (FIRST, PLACE, Send("units", extra={"place": MISSOURI.content})),
        ),
        _named(
            "fork",
            "The user answers, goes back and answers differently: one state, two answers.",
            (FIRST, PLACE, UNITS, Send("units", Accept({"units": "imperial"}))),
        ),
        _named(
            "fork-decline",
            "The user agrees in one window and says no in another: one state, two answers.",
            (FIRST, PLACE, UNITS, Send("units", DECLINE)),
        ),
        _named(
            "fork-interim",
            "The user goes back to the first question, answers it differently and finishes.",
            (FIRST, PLACE, Send("place", MISSOURI), UNITS),
        ),
        _named(
            "cold-answer",
            "A client that has used the tool before sends the answer with the first request.",
            (Send("first", extra={"units": {"units": "metric"}}), UNITS),
            location="Tokyo",
        ),
        _named(
            "cold-answers",
            "As cold-answer, with both answers at once.",
            (
                Send("first", extra={key: {key: AGREE[key]} for key in ("place", "units")}),
                PLACE,
                UNITS,
            ),
        ),
        _named(
            "dropped-state",
            "A client that forgets the state sends the first answer without it.",
            (FIRST, Send("place", edit="drop"), UNITS),
        ),
        _named(
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
        _named(
            "tampered",
            "A client changes one character of the state: the state is attacker-controlled input.",
            (FIRST, Send("place", edit="changed"), UNITS),
        ),
        _named(
            "forged",
            "A client decodes the state, writes another place into it and encodes it again.",
            (FIRST, PLACE, Send("units", edit="another place")),
        ),
        _named(
            "truncated",
            "A client cuts the state short (a column too narrow for it).",
            (FIRST, Send("place", edit="cut short"), UNITS),
        ),
        _named(
            "garbage",
            "A client makes a state up.",
            (FIRST, Send("place", edit="not a state"), UNITS),
        ),
        _named(
            "too-long",
            "A client sends a state of a megabyte, to see what decoding it costs.",
            (FIRST, Send("place", edit="too long"), UNITS),
        ),
        _named(
            "other-arguments",
            "A client carries the state of one call over to a call with other arguments.",
            (FIRST, PLACE, Send("units", location="Portland")),
        ),
        _named(
            "other-principal",
            "A state leaks, and somebody else sends it.",
            (FIRST, Send("place", principal="mallory")),
        ),
        _named(
            "slow-user",
            "The user takes nine minutes for each question; a state is valid for ten.",
            (FIRST, Wait(540), PLACE, Wait(540), UNITS),
        ),
        _named(
            "expired",
            "The user comes back after lunch; a state is valid for ten minutes.",
            (FIRST, PLACE, Wait(3600), UNITS),
        ),
        # instances
        _named(
            "failover",
            "A load balancer without stickiness sends every round to another instance.",
            "",
        ),
        _named(
            "sticky",
            "A load balancer that hashes the state sends every round where its state came from.",
            (FIRST, PLACE, UNITS),
            sticky=True,
        ),
        _named(
            "misrouted",
            "Such a balancer sends a round to the wrong instance once, and the retry to the right"
            " one.",
            "misrouted3",
            sticky=True,
        ),
        _named(
            "restart",
            "The server is deployed again, unchanged, while the user is thinking.",
            "restart3",
        ),
        _named(
            "key-rotation",
            "The keys are rotated while the user is thinking; the old one still verifies.",
            (FIRST, PLACE, Restart(keys="rotated"), UNITS),
        ),
        _named(
            "key-lost",
            "The server restarts with another key: one that lived in its memory only.",
            (FIRST, PLACE, Restart(keys="new"), UNITS),
        ),
        # eras and capabilities
        _named(
            "no-elicitation-tokyo",
            "The client cannot ask its user; the call can do with what it assumes.",
            (Send("first", asks=False), Send("units", asks=False)),
            (WholeCall(asks=False),),
            location="Tokyo",
        ),
        _named(
            "no-elicitation-springfield",
            "The client cannot ask its user, and the call cannot go on without.",
            (Send("first", asks=False), Send("place", asks=False)),
            (WholeCall(asks=False),),
        ),
        _named(
            "capability-lost",
            "The client stops declaring elicitation half-way (another frontend took over).",
            (FIRST, Send("place", asks=False), UNITS),
        ),
        _named(
            "unknown-place",
            "The caller names a place that does not exist.",
            (FIRST,),
            (WholeCall(),),
            location="Atlantis",
        ),
        # other versions of the code
        *_redeploys("reworded", "a question has another wording"),
        *_redeploys("schema", "a question has one more choice"),
        *_redeploys("inserted", "another question comes before it"),
        *_redeploys("removed", "the first question is gone, its first choice is taken"),
        *_redeploys("reordered", "the second question comes first"),
        *_redeploys("effect", "there is one more effect above the questions"),
        *_redeploys("renamed", "the file and its functions have other names"),
        _named(
            "redeploy-rolling",
            "The other instance is redeployed, a question reworded; the call stays where it began.",
            (FIRST, _PLACE, Redeploy("reworded", only=1), UNITS, *_REST),
            sticky=True,
        ),
        *_TASKS,
    )
}
"""Every named schedule by its slug, in the order of the matrix."""


def named(slug: str, era: Era = "modern") -> Scenario:
    """Return the scenario of a schedule on two instances; `on_one()` is the same on one.

    Raises:
        KeyError: There is no such schedule, or it does not apply to that era.
    """
    found = SCHEDULES[slug].of(era)
    if found is None:
        raise KeyError(f"{slug} does not apply to a {era} client")
    return found


def _played(scenario: Scenario) -> Scenario:
    """Return a set of faults without name and instances, which do not tell two sets apart."""
    setup = replace(scenario.setup, fleet="one")
    return Scenario("", "", setup, (Caller(scenario.location),), scenario.faults)


_NAMES = {
    _played(schedule.modern): schedule.name
    for schedule in reversed(SCHEDULES.values())
    if schedule.modern is not None and not schedule.modern.script
}


def name_of(scenario: Scenario) -> str | None:
    """Return the first schedule with the same faults for the same client; None if none has."""
    return None if scenario.script else _NAMES.get(_played(scenario))
