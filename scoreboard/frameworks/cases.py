"""The cases that every framework is played in: a call for "Springfield", and what goes wrong in it.

The user answers "Springfield, Missouri" and "imperial", which no code assumes. Cases are scenarios
of the review. The cases that need to read a pause are clients, written as code. Knows no framework.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from mrtr_options.review.bench.client.player import Player
from mrtr_options.review.bench.history import Effect, Event, Received
from mrtr_options.review.bench.messages import Request
from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    FIRST,
    MISSOURI,
    NOTHING,
    Redeploy,
    Restart,
    Send,
    Step,
    accept,
)
from mrtr_options.tool.weather import Effect as Bill

IMPERIAL = accept({"units": "imperial"})
PLACE = Send("place", MISSOURI)
UNITS = Send("units", IMPERIAL)
_CONSENT = Send("consent", accept({"consent": "yes"}))
_REST = 3 * tuple(replace(step, only_if="asked") for step in (PLACE, _CONSENT, UNITS))
_AGAIN = (replace(PLACE, only_if="asked"), replace(PLACE, only_if="failed"))
"""Steps that answer the place once more, unless the call has ended or gone on."""

ELSEWHERE = "Lisbon, Portugal"
"""The forged answer that is written into a pause."""

MAX_EDITS = 12
"""The largest number of changes of one pause that are tried."""

Client = Callable[[Player], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        scenario: The scenario, with the case's name.
        words: The scenario in a few words, for a table.
        client: The client that plays it, if a script is not enough.
        slow: Whether the bill takes seconds, so that two deliveries meet there.
        carried: The frameworks that it is for: those whose caller holds the run's state (True), or
            only a name of the run (False); None for all.
    """

    scenario: Scenario
    words: str
    client: Client | None = None
    slow: bool = False
    carried: bool | None = None

    @property
    def name(self) -> str:
        return self.scenario.name


def _case(name: str, words: str, why: str, script: tuple[Step, ...], *, slow: bool = False) -> Case:
    return Case(Scenario(name, why, script=script), words, slow=slow)


# --- changes of a pause -------------------------------------------------------------------------


def made_up(pause: str) -> list[str]:
    """Return a pause of the same form with ids that were never handed out."""

    def other(value: Any) -> Any:
        match value:
            case str():
                return "".join(_next(each) for each in value)
            case dict():
                parts = cast("dict[str, Any]", value)
                return {key: other(part) for key, part in parts.items()}
            case list():
                return [other(part) for part in cast("list[Any]", value)]
            case _:
                return value

    return [json.dumps(other(json.loads(pause)))]


def _next(letter: str) -> str:
    """Return the next digit, or the next letter among those of hexadecimal numbers."""
    for row in ("0123456789", "abcdef", "ABCDEF"):
        if letter in row:
            return row[(row.index(letter) + 1) % len(row)]
    return letter


def edited(pause: str) -> list[str]:
    """Return pauses with another place than the user's: replaced everywhere, then once each."""
    mine = "Springfield, Missouri"
    parts = pause.split(mine)
    singly = (
        mine.join(parts[:at]) + ELSEWHERE + mine.join(parts[at:])
        for at in range(len(parts) - 1, 0, -1)
    )
    everywhere = ELSEWHERE.join(parts)
    occurs_at_most_once = len(parts) <= 2
    if occurs_at_most_once:
        return [everywhere]
    return [everywhere, *singly][:MAX_EDITS]


def _with(change: Callable[[str], list[str]]) -> Client:
    """Return a client that changes the pause of the second question before it answers.

    It tries one change after the other, until the bill is for the other place.
    """

    async def play(player: Player) -> None:
        await player.take(FIRST)
        await player.take(PLACE)
        events = player.instances.recording.events
        *_, got = (each.reply for each in events if isinstance(each, Received))
        if got.state is None or not got.questions:
            return
        (key,) = got.questions
        player.answer(1, "units", IMPERIAL)
        forged = "another place is written into it" if change is edited else "its ids are made up"
        for state in change(got.state):
            request = Request("Springfield", {key: IMPERIAL}, state, forged=forged)
            await player.play_round(request, [0])
            if any(map(bills_elsewhere, player.instances.recording.events)):
                return

    return play


def bills_elsewhere(event: Event) -> bool:
    """Return whether an event is the bill of the forged place."""
    return isinstance(event, Effect) and event.effect == Bill("bill", ELSEWHERE)


# --- the cases ----------------------------------------------------------------------------------

CASES: tuple[Case, ...] = (
    _case("clean", "every call", "Nothing goes wrong.", (FIRST, PLACE, UNITS)),
    _case(
        "killed",
        "killed after each response",
        "The process is killed when it has responded, as by a deployment.",
        (FIRST, Restart(), PLACE, Restart(), UNITS),
    ),
    _case(
        "first-twice",
        "1st answer twice",
        "The first answer is delivered twice; the second time the next question is pending.",
        (FIRST, replace(PLACE, again="later"), replace(UNITS, only_if="asked")),
    ),
    _case(
        "first-lost",
        "response to 1st answer lost",
        "The response to the first answer is lost; the same answer is sent again.",
        (FIRST, replace(PLACE, lost=True), PLACE, *_REST),
    ),
    _case(
        "last-twice",
        "last answer twice",
        "The last answer is delivered twice, the second time when the call has ended.",
        (FIRST, PLACE, replace(UNITS, again="later")),
    ),
    _case(
        "last-lost",
        "result lost",
        "The result is lost; the same answer is sent again.",
        (FIRST, PLACE, replace(UNITS, lost=True), UNITS),
    ),
    _case(
        "at-once",
        "last answer twice at once, while the bill takes 3 s",
        "The last answer is delivered to two processes at the same moment: the user clicks twice.",
        (FIRST, PLACE, replace(UNITS, again="at once")),
        slow=True,
    ),
    _case(
        "crash-bill",
        "crash after bill",
        "The process is killed right after the bill; the same answer is sent again.",
        (
            FIRST,
            PLACE,
            replace(UNITS, fault="crash@bill"),
            replace(UNITS, only_if="failed"),
        ),
    ),
    _case(
        "crash-audit",
        "crash after audit",
        "The process is killed right after the audit of the first request, which is sent again.",
        (
            replace(FIRST, fault="crash@audit"),
            replace(FIRST, only_if="failed"),
            *_REST,
        ),
    ),
    _case(
        "crash-audit-2",
        "crash after repeated audit",
        "The process is killed right after an audit that the first answer repeats;"
        " it is sent again.",
        (
            FIRST,
            replace(PLACE, fault="crash@audit"),
            replace(PLACE, only_if="failed"),
            *_REST,
        ),
    ),
    _case(
        "added-first",
        "question added while 1st pends",
        "A version with one more question, before the units,"
        " is deployed while the first is pending.",
        (FIRST, Redeploy("inserted"), PLACE, *_REST),
    ),
    _case(
        "added-second",
        "question added above the pending one",
        "A version with one more question, before the units,"
        " is deployed while the units are pending.",
        (FIRST, PLACE, Redeploy("inserted"), UNITS, *_REST),
    ),
    _case(
        "early",
        "2nd answer early",
        "An answer to the units arrives by its name while the place is pending.",
        (FIRST, Send("place", NOTHING, extra={"units": IMPERIAL}), *_AGAIN, *_REST),
    ),
    _case(
        "misfit",
        "answer of another question",
        "The place is answered with what fits the units.",
        (FIRST, Send("place", accept({"place": "imperial"})), *_AGAIN, *_REST),
    ),
    Case(
        Scenario("made-up", "An answer comes with made-up ids."),
        "made-up ids",
        _with(made_up),
        carried=False,
    ),
    Case(
        Scenario("edited", "Another place is written into the state."),
        "edited state",
        _with(edited),
        carried=True,
    ),
    Case(
        Scenario(
            "others",
            "Another user answers with the pause of the first one's call.",
            callers=(Caller("Springfield"), Caller("Springfield", principal="mallory")),
            script=(
                FIRST,
                PLACE,
                Send("first", call=2),
                Send("place", MISSOURI, call=2),
                Send("units", IMPERIAL, call=2, state_of=1),
            ),
        ),
        "another user's pause",
    ),
)

ATTACKS = ("made-up", "edited", "others")
"""Attacks: did the framework go on from a pause that was not the caller's?"""


def cases_for(carries: bool) -> list[Case]:
    """Return the cases of a framework whose caller holds the run's state, or only its name."""
    return [case for case in CASES if case.carried in (None, carries)]
