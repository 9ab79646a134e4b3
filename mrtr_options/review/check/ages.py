"""Cases of time: a state grows old, and a clock shows the same time again."""

from __future__ import annotations

from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import DECLINE, NOTHING, Repeat, Restart, Send, Step, Wait
from mrtr_options.review.check.calls import case, place, rounds, units, user_in_turn


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
