"""Cases in which an effect, an instance, a client or all servers fail, or in which time passes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal, get_args

from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    DECLINE,
    NOTHING,
    Keys,
    Repeat,
    Restart,
    Send,
    Step,
    Together,
    Wait,
)
from mrtr_options.review.check.calls import case, place, rounds, units, user_in_turn


def dies_case() -> Scenario:
    """Let an instance die in a round, before its effect; all users go on with its successor."""
    who = 2 * [Caller("Springfield"), Caller("Lisbon", "bob")]
    who += [Caller("Portland", "bob"), Caller("Portland", "bob"), Caller("Tokyo")]
    steps: list[Step] = [Send("first", call=2), *rounds(1, who[0])[:-1]]
    steps += [
        Send("units", fault="slow@bill", ends="instance"),
        Send("units", call=2),
    ]
    steps += [*rounds(3, who[2]), *rounds(4, who[3])]
    steps += [Send("first", call=5, fault="slow@audit", ends="instance")]
    steps += [*rounds(6, who[5]), *rounds(7, who[6])]
    return case("dies", "An instance dies in a round, and others call.", who, steps)


def leaves_case() -> Scenario:
    """Let a client leave while its bill takes long; its user and another one go on.

    A client whose request arrives twice leaves while its audit takes long, and the second delivery
    goes on. Another one leaves before it was asked.
    """
    who = [Caller("Springfield"), Caller("Lisbon", "bob"), Caller("Tokyo"), Caller("Nairobi")]
    steps: list[Step] = [Send("first", call=2), *rounds(1, who[0])[:-1], Send("first", call=3)]
    steps += [
        Send("units", fault="slow@bill", ends="client"),
        Send("units", call=2),
        Send("units"),
    ]
    last = Send("units", call=3)
    steps += [
        Together((replace(last, fault="slow@audit", ends="client"), last)),
        Send("first", call=4, fault="slow@audit", ends="client"),
        Send("first", call=2),
    ]
    return case("leaves", "A client leaves while its effect takes long.", who, steps)


def fails_case() -> Scenario:
    """Let more effects fail at once than a pool has slots; then the ledger works again."""
    who = [
        *SLOTS * [Caller("Tokyo")],
        *SLOTS * [Caller("Lisbon")],
        *2 * [Caller("Springfield", "bob")],
    ]
    begin = range(1, SLOTS + 1)
    other = range(SLOTS + 1, 2 * SLOTS + 1)
    fail = [Send("first", call=number, fault="fail@audit") for number in begin]
    bills = [Send("units", call=number, fault="fail@bill") for number in other]
    steps: list[Step] = [Send("first", call=number) for number in other]
    steps += [
        Together(tuple(fail)),
        *rounds(len(who), who[-1]),
        replace(fail[0], fault=None),
    ]
    steps += [
        Together(tuple(bills)),
        *rounds(len(who) - 1, who[-1]),
        replace(bills[0], fault=None),
    ]
    # Equal ones bring another answer, and fail again, since a server may give up after a few.
    steps += [replace(bills[1], answer=units("imperial"), fault=None), *6 * [bills[2]]]
    return case("many-fail", "The effects of many calls fail.", who, steps)


SLOTS = 12
"""The number of effects that fail at the same moment."""


def restart_cases() -> list[Scenario]:
    """Replace the servers at every question."""
    found: list[Scenario] = []
    for ring in get_args(Keys):
        who = [Caller("Springfield"), Caller("Portland", "bob"), Caller("Tokyo"), Caller("Lisbon")]
        steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
        steps += [
            *rounds(4, who[3]),
            Send("place", place("Portland, Oregon"), call=2),
            Restart(ring),
        ]
        steps.insert(0, Restart("same"))  # else what earlier runs have left open counts
        # Equal calls begin beside those from before, in the same order.
        who += [Caller("Springfield"), Caller("Portland", "bob")]
        one = rounds(5, who[4], "Springfield, Massachusetts")
        other = rounds(6, who[5])
        steps += [one[0], *other[:2], Send("place", place("Springfield, Missouri")), one[1]]
        steps.append(Send("units", units("imperial"), call=2))
        steps += [Send("units", units("imperial"), call=3), Send("units", units("imperial"))]
        steps += [one[2], other[2]]
        found.append(case(f"restart-{ring}", "The servers are replaced.", who, steps))
    return found


def fault_cases() -> list[Scenario]:
    """Let each effect fail, always or only for a moment, beside a call in which it does not."""
    found: list[Scenario] = []
    for what, kind in itertools.product(FAILS, ("audit", "bill")):
        if (what, kind) == ("slow", "audit"):
            continue
        who = [Caller("Springfield"), Caller("Lisbon", "bob"), Caller("Springfield")]
        who.append(Caller("Tokyo", asks=False))
        fault = f"{what}@{kind}"
        one = rounds(1, who[0], "Springfield, Missouri", "imperial")
        broken = 0 if kind == "audit" else 2
        equal = rounds(3, who[2], "Springfield, Illinois")
        steps: list[Step] = [Send("first", call=2), *equal[:2], *one[:broken]]
        again = "at once" if what == "slow" else None
        steps += (
            replace(one[broken], fault=fault, again=again),
            Send("units", units("imperial"), call=2),
        )
        steps += [replace(one[broken], only_if="failed"), *one[broken + 1 :], *equal[2:]]
        alone = Send("first", call=4, fault=fault)  # one round has both effects
        steps += [alone, Send("first", call=4, only_if="failed")]
        slug = f"{FAILS[what]}-{kind}-beside"
        found.append(case(slug, f"The {kind} of one call fails, or has to wait.", who, steps))
    return found


FAILS: dict[Literal["fail", "once", "slow", "lock"], str] = {
    "fail": "failed",
    "once": "failed-once",
    "slow": "slow",
    "lock": "locked",
}
"""The faults of the ledger, with their names in the names of cases."""


def time_cases() -> list[Scenario]:
    """Let a state grow old at every question, and a long call live from round to round."""
    who = [Caller("Springfield"), Caller("Tokyo", "bob"), Caller("Springfield", "bob")]
    steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
    steps += [Wait(530), Send("place", place("Springfield, Missouri"))]
    steps += [Send("units", units("imperial"), call=2)]
    steps += [Wait(530), Send("units", units("imperial"))]
    steps += [Send("place", place("Springfield, Missouri"), call=3)]  # too late by now
    late: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
    late += [Send("place", place("Springfield, Missouri"), call=3), *rounds(6, Caller("Lisbon"))]
    late += [Wait(615), Repeat(3), Repeat(6)]  # what had its response is no younger
    # Beside the next call of the same user, which is equal to the one that is too old.
    late += [Send("first", call=5), Send("place", place("Springfield, Massachusetts"), call=5)]
    late += [Send("place", NOTHING), Send("units", NOTHING, call=2)]
    late += [Send("place", place("Springfield, Missouri")), Send("units", units("metric"), call=2)]
    late += [Send("units", DECLINE, call=3), Send("units", units("metric"), call=3)]
    late += [Send("units", units("metric"), call=5)]
    late += [Send("first", call=2)]  # the user of an abandoned call comes back
    # An answer that does not fit makes no state younger.
    who += [Caller("Tokyo"), Caller("Springfield"), Caller("Lisbon")]
    steps += [Send("first", call=4), Wait(480), Send("units", units("kelvin"), call=4)]
    steps += [Wait(300), Send("units", units("metric"), call=4)]
    # A state under an older key grows old as well.
    begun: list[Step] = [Send("first"), Send("first", call=2)]
    old = [Send("place", place("Springfield, Missouri")), Send("units", units("metric"), call=2)]
    rotated = [*begun, Restart("rotated"), Wait(615), *old]
    # A user who says nothing has agreed to nothing.
    silence: list[Step] = [Send("first"), Send("first", call=2)]
    for number, seconds in ((1, 400), (2, 140)):
        silence += [Wait(seconds), Send("units", NOTHING, call=number)]
    silence += [Send("units", call=1), Send("units", call=2)]
    same = "The clock shows a state's own time again."
    # Equal calls: the first has expired when the third begins, and the second goes on.
    equal = 3 * [Caller("Springfield")]
    one = rounds(2, equal[0], "Springfield, Missouri", "imperial")
    other = rounds(3, equal[0], "Springfield, Massachusetts")
    over: list[Step] = [Wait(1200), Send("first"), Wait(400), one[0], Wait(250), one[1]]
    over += [other[0], one[2], *other[1:]]
    # The second instance runs in another time zone.
    zones: list[Step] = [Send("first", to=0), Wait(615), Send("place", to=1)]
    clock: list[Step] = []
    for number in range(1, DAY // MINUTES_8 + 2):
        clock += [Send("first", call=number), Wait(MINUTES_8), Send("units", call=number)]
    day = [Caller("Tokyo", user_in_turn(number)) for number in range(DAY // MINUTES_8 + 1)]
    return [
        case("slow-users", "Nine minutes for each question.", who, steps),
        case("silence", "No answer for minutes.", [Caller("Tokyo")] * 2, silence),
        case("eleven-minutes", "Eleven minutes at every question.", who, late),
        case("over-an-expiry", "An equal call expires, and another begins.", equal, over),
        case("around-the-clock", "Eight minutes for a question, all day.", day, clock),
        case("late-elsewhere", "Eleven minutes, and another zone.", who[:1], zones, instances=2),
        case("old-key-later", "The key is rotated, and eleven minutes pass.", who[:2], rotated),
        *(
            case(slug, same, who[:2], [*begun, Wait(seconds + 5), *old])
            for slug, seconds in LATER.items()
        ),
    ]


DAY = 86_400


MINUTES_8 = 480


LATER = {"an-hour-later": 3600, "a-day-later": 86_400, "a-week-later": 604_800}
"""The seconds after which a clock that goes around shows the same time again."""
