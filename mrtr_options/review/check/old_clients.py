"""Cases of clients of the old era."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mrtr_options.review.bench.messages import Declares
from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    CANCEL,
    DECLINE,
    ROOTS,
    ListTools,
    Step,
    Together,
    WholeCall,
    accept,
    refuse,
)
from mrtr_options.review.check.calls import (
    CHOSEN,
    case,
    choices_of,
    in_turn,
    place,
    unit_in_turn,
    units,
    user_in_turn,
)
from mrtr_options.tool.weather import REPORTS

CANNOT_ASK = ("Portland, Maine", "Springfield, Illinois", "Springfield, Missouri")
"""The places that are called for by clients that cannot ask."""


def legacy_case() -> Scenario:
    """Call as a client of the old era: every place, every answer."""
    who: list[Caller] = []
    steps: list[Step] = []

    def call(
        location: str,
        answers: dict[str, Any],
        *,
        asks: bool = True,
        declares: Declares | None = None,
        version: str | None = None,
    ) -> None:
        who.append(Caller(location, user_in_turn(len(who)), asks, declares, version))
        steps.append(WholeCall(answers, call=len(who)))

    for label in REPORTS:
        call(label.partition(",")[0], {"place": place(label), "units": units("imperial")})
        call(label, {"units": units("metric")}, asks=label not in CANNOT_ASK)
    for location in ("Springfield", "Tokyo"):
        call(location, {}, asks=False, declares="url")
        call(location, {}, declares="empty")
        for version in HANDSHAKE_PROTOCOL_VERSIONS[:-1]:  # elicitation is as old as 2025-06-18
            call(location, {}, asks=version >= "2025-06-18", version=version)
    for name, location in (("place", "Springfield"), ("units", "Portland")):
        good = {"place": place(choices_of(location)[-1]), "units": units("imperial")}
        refused = (DECLINE, CANCEL, refuse("decline", good[name].content))
        for wrong in (*refused, (accept({name: "kelvin"}), good[name])):
            call(location, {**good, name: wrong})
        for always in (accept({name: "kelvin"}), ROOTS):
            call(location, {**good, name: always})
    steps.append(ListTools("carol"))
    return case("legacy", "A client of the old era.", who, steps, era="legacy")


def legacy_stays_case() -> Scenario:
    """Call again in the same session as clients of the old era, whose users answer differently."""
    who: list[Caller] = []
    steps: list[Step] = []
    for at, location in enumerate(("Springfield", "Springfield", "Tokyo", "Tokyo", "Springfield")):
        for user in ("alice", "bob"):
            who.append(Caller(location, user))
            choices = choices_of(location)
            said = {
                "place": place(in_turn(choices, at + len(who))),
                "units": DECLINE if at == 3 else units(unit_in_turn(at + len(who))),
            }
            steps.append(WholeCall(said, call=len(who), session=user))
    return case("legacy-stays", "Clients stay connected.", who, steps, era="legacy")


def legacy_fails_case() -> Scenario:
    """Let each effect of an old client's call fail."""
    who = [Caller("Tokyo"), Caller("Springfield", "bob"), Caller("Lisbon")]
    steps: list[Step] = [
        WholeCall(call=1, fault="fail@audit"),
        WholeCall(call=2, fault="fail@bill"),
        WholeCall(call=3),
    ]
    return case("legacy-fails", "The effects of an old client fail.", who, steps, era="legacy")


def legacy_waits_case() -> Scenario:
    """Let users of the old era think, while other calls come and go."""
    who = [
        Caller("Springfield", "bob"),
        *(Caller("Springfield", f"user-{n}") for n in range(THINKING)),
    ]
    who.append(Caller("Tokyo", "user-0"))  # who thinks in another call
    last = len(who)
    thinking = [WholeCall(CHOSEN, call=number, waits_for=last) for number in range(2, last)]
    steps: list[Step] = [
        Together((*thinking, WholeCall(CHOSEN, call=last))),
        WholeCall(CHOSEN, call=1),
    ]
    return case("legacy-waits", "Users think, and others call.", who, steps, era="legacy")


THINKING = 8
"""The number of users who think at a time: more than a small pool of workers has."""


def legacy_leaves_case() -> Scenario:
    """Let clients of the old era leave at each question; their users and others go on."""
    who = [Caller("Springfield"), Caller("Springfield", "bob"), Caller("Tokyo"), Caller("Lisbon")]
    steps: list[Step] = [
        WholeCall(CHOSEN, leaves="place"),
        WholeCall(CHOSEN, call=2, leaves="units"),
        WholeCall(call=3, leaves="units"),
        *(WholeCall(CHOSEN, call=number) for number in (4, 1, 2)),
    ]
    return case("legacy-leaves", "Clients leave at a question.", who, steps, era="legacy")


def legacy_at_once_case() -> Scenario:
    """Answer the same questions at the same moment as users of the old era, each differently."""
    who: list[Caller] = []
    calls: list[WholeCall] = []
    for at, location in enumerate(("Springfield", "Portland", "Springfield", "Tokyo")):
        for user in ("alice", "bob"):
            who.append(Caller(location, user))
            choices = choices_of(location)
            said = {
                "place": place(in_turn(choices, len(who))),
                "units": units(unit_in_turn(len(who) + at)),
            }
            calls.append(WholeCall(said, call=len(who)))
    steps: list[Step] = [Together(tuple(calls)), *(replace(each) for each in calls[:2])]
    why = "Users answer at the same moment, each otherwise."
    return case("legacy-at-once", why, who, steps, era="legacy")


def legacy_thinks_case() -> Scenario:
    """Let a user of the old era think for seconds, for a minute and for nine, and then answer."""
    who: list[Caller] = []
    steps: list[Step] = []
    for seconds in THINK_SECONDS:
        for location in ("Springfield", "Tokyo"):
            who.append(Caller(location, user_in_turn(len(who))))
            steps.append(WholeCall(CHOSEN, call=len(who), thinks=seconds))
    return case("legacy-thinks", "A user thinks for a while.", who, steps, era="legacy")


THINK_SECONDS = 5, 70, 540
"""Times to think: longer than a careless server waits, and shorter than a state lives."""
