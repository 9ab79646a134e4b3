"""The named schedules: what happens in practice, by name.

A schedule that is a set of faults is written as one, and the usual client plays it: `lost-final`
is `lost3`. The others are scripts.
"""

from __future__ import annotations

from dataclasses import replace

from mrtr_options.names import by_name
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.scenario import Caller, Scenario, Schedule, make_schedule
from mrtr_options.review.bench.steps import (
    AGREE,
    CANCEL,
    DECLINE,
    FIRST,
    MISSOURI,
    NOTHING,
    PLACE,
    ROOTS,
    UNITS,
    Change,
    Redeploy,
    Restart,
    Send,
    Wait,
    WholeCall,
    accept,
    refuse,
)
from mrtr_options.review.bench.task_schedules import TASK_SCHEDULES

# A redeploy: the user's answers differ from what is assumed, and every repeated question is
# answered.
_CHOSEN = Send("place", MISSOURI)
_CONSENT = Send("consent", accept({"consent": "yes"}))
_REPEATED = 3 * tuple(replace(step, only_if="asked") for step in (_CHOSEN, _CONSENT, UNITS))

_BEGUN: dict[Change, tuple[Send, ...]] = {
    "reworded": (_CHOSEN, UNITS),
    "schema": (_CHOSEN, Send("units", accept({"units": "kelvin"}))),
    "inserted": (_CHOSEN, _CONSENT, UNITS),
    "removed": (UNITS,),
    "reordered": (UNITS, _CHOSEN),
    "effect": (_CHOSEN, UNITS),
    "renamed": (_CHOSEN, UNITS),
}
"""The rounds after the first in a call of the changed version; the last one comes too late."""


def _redeploys(change: Change, what: str) -> tuple[Schedule, ...]:
    *before, last = _BEGUN[change]
    new = Redeploy(change)
    old = Redeploy(None)
    return (
        make_schedule(
            f"redeploy-{change}",
            "While the user is thinking about the last question, a new version is deployed:"
            f" {what}.",
            (FIRST, _CHOSEN, new, UNITS, *_REPEATED),
        ),
        make_schedule(
            f"redeploy-{change}-back",
            f"The same change is taken back: {what}, until the server is rolled back.",
            (new, FIRST, *before, old, last, *_REPEATED),
        ),
        make_schedule(
            f"redeploy-{change}-mixed",
            "Half of the fleet has the change, half has not, and rounds go to either in turn:"
            f" {what}.",
            (Redeploy(change, only=1), FIRST, _CHOSEN, UNITS, *_REPEATED),
        ),
    )


SCHEDULES = by_name(
    (
        # clean calls
        make_schedule(
            "clean-tokyo",
            "Nothing goes wrong, one question: what every demo shows.",
            "",
            (WholeCall(),),
            location="Tokyo",
        ),
        make_schedule(
            "clean-springfield",
            "Nothing goes wrong, two questions, the second depends on the first.",
            "",
            (WholeCall(),),
        ),
        # responses that are lost
        make_schedule(
            "lost-first",
            "The first response breaks off (a proxy times out); the client starts over, with"
            " nothing that says it is the same call.",
            "lost1",
        ),
        make_schedule(
            "lost-interim",
            "A response in the middle breaks off and the client, which kept no state, starts over.",
            "lost2",
            policy="calls again",
        ),
        make_schedule(
            "lost-interim-resent",
            "A response in the middle breaks off; the client kept the state and sends the round"
            " again.",
            "lost2",
        ),
        make_schedule(
            "lost-final",
            "The result is lost on its way; the client resends the last round, as a new request.",
            "lost3",
            (WholeCall(lost=True), WholeCall()),
        ),
        make_schedule(
            "lost-final-anew",
            "The result is lost on its way and the client gives up; the application calls the tool "
            "again.",
            "lost3",
            policy="calls again",
        ),
        # requests that arrive twice
        make_schedule(
            "duplicate-interim",
            "A retrying proxy delivers a round in the middle twice, one after the other.",
            "twice2",
        ),
        make_schedule(
            "concurrent-interim",
            "A retrying proxy delivers a round in the middle twice at once.",
            "both2",
        ),
        make_schedule(
            "duplicate-final",
            "A retrying proxy delivers the last round twice, one after the other.",
            "twice3",
        ),
        make_schedule(
            "concurrent-final",
            "A retrying proxy, or an impatient user, delivers the last round twice at once.",
            "both3",
        ),
        make_schedule(
            "late-replay",
            "A finished call's last round is sent once more, half a minute later (a resumed"
            " laptop).",
            (FIRST, PLACE, UNITS, Wait(30), UNITS),
        ),
        # rounds that end before their response
        make_schedule(
            "disconnect-after-audit",
            "The client is gone when the first effect has happened; the SDK cancels the handler,"
            " and the client starts over.",
            "gone@audit1",
        ),
        make_schedule(
            "disconnect-after-effect",
            "The client is gone when the bill is written; the SDK cancels the handler, and the"
            " client sends the last round again.",
            "gone@bill3",
        ),
        make_schedule(
            "crash-after-effect",
            "The process dies between the bill and the response; the client sends the round again.",
            (FIRST, PLACE, Send("units", fault="crash@bill"), UNITS),
        ),
        make_schedule(
            "lost-final-keyed",
            "As lost-final, where the effects' destination honours idempotency keys.",
            "lost3",
            destination="honours keys",
        ),
        make_schedule(
            "crash-after-effect-keyed",
            "As crash-after-effect, where the effects' destination honours idempotency keys.",
            (FIRST, PLACE, Send("units", fault="crash@bill"), UNITS),
            destination="honours keys",
        ),
        make_schedule(
            "failed-audit",
            "The first effect fails (its destination is down) and the client starts over.",
            (
                Send("first", fault="fail@audit"),
                Send("first", only_if="failed"),
                PLACE,
                UNITS,
            ),
            (WholeCall(fault="fail@audit"), WholeCall()),
        ),
        make_schedule(
            "failed-bill",
            "The last effect fails (its destination is down) and the client sends the round again.",
            (
                FIRST,
                PLACE,
                Send("units", fault="fail@bill"),
                Send("units", only_if="failed"),
            ),
            (WholeCall(fault="fail@bill"), WholeCall()),
        ),
        make_schedule(
            "abandoned",
            "The user closes the window at the second question and never comes back.",
            (FIRST, PLACE),
            (WholeCall(leaves="place"),),
        ),
        # answers
        make_schedule(
            "decline",
            "The user says no to the last question.",
            (FIRST, PLACE, Send("units", DECLINE)),
            (WholeCall({"units": DECLINE}),),
        ),
        make_schedule(
            "decline-first",
            "The user says no to the first of two questions.",
            (FIRST, Send("place", DECLINE), UNITS),
            (WholeCall({"place": DECLINE}),),
        ),
        make_schedule(
            "decline-with-content",
            "The user fills the form in and then says no; the client sends what was typed along.",
            (FIRST, PLACE, Send("units", refuse("decline", {"units": "metric"}))),
            (WholeCall({"units": refuse("decline", {"units": "metric"})}),),
        ),
        make_schedule(
            "cancel",
            "The user dismisses the last question without an answer.",
            (FIRST, PLACE, Send("units", CANCEL)),
            (WholeCall({"units": CANCEL}),),
        ),
        make_schedule(
            "bad-answer",
            "A client without form validation sends an answer that does not fit, then a good one.",
            (FIRST, PLACE, Send("units", accept({"units": "kelvin"})), UNITS),
            (WholeCall({"units": (accept({"units": "kelvin"}), accept({"units": "metric"}))}),),
        ),
        make_schedule(
            "empty-answer",
            "A client accepts the form with no content at all, then properly.",
            (FIRST, PLACE, Send("units", accept(None)), UNITS),
            (WholeCall({"units": (accept(None), accept({"units": "metric"}))}),),
        ),
        make_schedule(
            "wrong-kind",
            "A confused client answers the form with the result of a roots request, then properly.",
            (FIRST, PLACE, Send("units", ROOTS), UNITS),
        ),
        make_schedule(
            "early-retry",
            "An eager client polls: it sends the state back before the user has answered.",
            (FIRST, PLACE, Send("units", NOTHING), UNITS),
        ),
        make_schedule(
            "extra-answer",
            "A client sends answers to questions that were not asked along with the real one.",
            (FIRST, Send("place", extra={"horoscope": {"sign": "leo"}}), UNITS),
        ),
        make_schedule(
            "settled-answer",
            "The last round brings a different answer to the first question, which is settled.",
            (FIRST, PLACE, Send("units", extra={"place": MISSOURI})),
        ),
        make_schedule(
            "fork",
            "The user answers, goes back and answers differently: one state, two answers.",
            (FIRST, PLACE, UNITS, Send("units", accept({"units": "imperial"}))),
        ),
        make_schedule(
            "fork-decline",
            "The user agrees in one window and says no in another: one state, two answers.",
            (FIRST, PLACE, UNITS, Send("units", DECLINE)),
        ),
        make_schedule(
            "fork-interim",
            "The user goes back to the first question, answers it differently and finishes.",
            (FIRST, PLACE, Send("place", MISSOURI), UNITS),
        ),
        make_schedule(
            "cold-answer",
            "A client that has used the tool before sends the answer with the first request.",
            (Send("first", extra={"units": {"units": "metric"}}), UNITS),
            location="Tokyo",
        ),
        make_schedule(
            "cold-answers",
            "As cold-answer, with both answers at once.",
            (
                Send("first", extra={key: {key: AGREE[key]} for key in ("place", "units")}),
                PLACE,
                UNITS,
            ),
        ),
        make_schedule(
            "dropped-state",
            "A client that forgets the state sends the first answer without it.",
            (FIRST, Send("place", edit="drop"), UNITS),
        ),
        make_schedule(
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
        make_schedule(
            "tampered",
            "A client changes one character of the state: the state is attacker-controlled input.",
            (FIRST, Send("place", edit="changed"), UNITS),
        ),
        make_schedule(
            "forged",
            "A client decodes the state, writes another place into it and encodes it again.",
            (FIRST, PLACE, Send("units", edit="another place")),
        ),
        make_schedule(
            "truncated",
            "A client cuts the state short (a column too narrow for it).",
            (FIRST, Send("place", edit="cut short"), UNITS),
        ),
        make_schedule(
            "garbage",
            "A client makes a state up.",
            (FIRST, Send("place", edit="not a state"), UNITS),
        ),
        make_schedule(
            "too-long",
            "A client sends a state of a megabyte, to see what decoding it costs.",
            (FIRST, Send("place", edit="too long"), UNITS),
        ),
        make_schedule(
            "other-arguments",
            "A client carries the state of one call over to a call with other arguments.",
            (FIRST, PLACE, Send("units", location="Portland")),
        ),
        make_schedule(
            "other-principal",
            "A state leaks, and somebody else sends it.",
            (FIRST, Send("place", principal="mallory")),
        ),
        make_schedule(
            "slow-user",
            "The user takes nine minutes for each question; a state is valid for ten.",
            (FIRST, Wait(540), PLACE, Wait(540), UNITS),
        ),
        make_schedule(
            "expired",
            "The user comes back after lunch; a state is valid for ten minutes.",
            (FIRST, PLACE, Wait(3600), UNITS),
        ),
        # instances
        make_schedule(
            "failover",
            "A load balancer without stickiness sends every round to another instance.",
            "",
        ),
        make_schedule(
            "sticky",
            "A load balancer that hashes the state sends every round where its state came from.",
            (FIRST, PLACE, UNITS),
            sticky=True,
        ),
        make_schedule(
            "missent",
            "Such a balancer sends a round to the wrong instance once, and the retry to the right"
            " one.",
            "missent3",
            sticky=True,
        ),
        make_schedule(
            "restart",
            "The server is deployed again, unchanged, while the user is thinking.",
            "restart3",
        ),
        make_schedule(
            "key-rotation",
            "The keys are rotated while the user is thinking; the old one still verifies.",
            (FIRST, PLACE, Restart(keys="rotated"), UNITS),
        ),
        make_schedule(
            "key-lost",
            "The server restarts with another key: one that lived in its memory only.",
            (FIRST, PLACE, Restart(keys="new"), UNITS),
        ),
        # eras and capabilities
        make_schedule(
            "no-elicitation-tokyo",
            "The client cannot ask its user; the call can do with what it assumes.",
            (
                Send("first", asks=False),
                Send("units", asks=False),
            ),
            (WholeCall(asks=False),),
            location="Tokyo",
        ),
        make_schedule(
            "no-elicitation-springfield",
            "The client cannot ask its user, and the call cannot go on without.",
            (
                Send("first", asks=False),
                Send("place", asks=False),
            ),
            (WholeCall(asks=False),),
        ),
        make_schedule(
            "capability-lost",
            "The client stops declaring elicitation half-way (another frontend took over).",
            (FIRST, Send("place", asks=False), UNITS),
        ),
        make_schedule(
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
        make_schedule(
            "redeploy-rolling",
            "The other instance is redeployed, a question reworded; the call stays where it began.",
            (FIRST, _CHOSEN, Redeploy("reworded", only=1), UNITS, *_REPEATED),
            sticky=True,
        ),
        *TASK_SCHEDULES,
    ),
    "schedules",
)
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
