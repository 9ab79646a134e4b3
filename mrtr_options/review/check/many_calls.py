"""Cases of calls beside each other: in pairs, at the same moment, and many at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    CANCEL,
    DECLINE,
    NOTHING,
    ROOTS,
    ListTools,
    Repeat,
    Send,
    Step,
    Together,
)
from mrtr_options.review.check.calls import case, in_turn, place, rounds, unit_in_turn, units
from mrtr_options.review.judge.contract.allowed import ROOM

_KINDS: dict[str, tuple[str, str]] = {
    "Tokyo": ("Tokyo", ""),
    "Springfield": ("Springfield", "Springfield, Missouri"),
    "Portland": (" portland", "Portland, Oregon"),
    "unknown": ("Zubrowka", ""),
}


def pairs_case(instances: Literal[1, 2], *, at_once: bool) -> Scenario:
    """Pair all calls, of two users and of one, with their rounds in turn or at the same moment."""
    who: list[Caller] = []
    steps: list[Step] = []
    for (one, other), same in itertools.product(itertools.product(_KINDS, repeat=2), (False, True)):
        here: list[list[Send]] = []
        for kind, user, unit in (
            (one, "alice", "metric"),
            (other, "alice" if same else "bob", "imperial"),
        ):
            location, chosen = _KINDS[kind]
            who.append(Caller(location, user))
            here.append(rounds(len(who), who[-1], chosen, unit))
        for turn in itertools.zip_longest(*here):
            together = tuple(step for step in turn if step is not None)
            steps.extend([Together(together)] if at_once else together)
    if not at_once:
        steps.append(ListTools("carol"))  # after calls of others, who are not named there
    how = "at the same moment" if at_once else "in turn"
    slug = f"pairs-{'at-once' if at_once else 'in-turn'}-{instances}"
    return case(slug, f"Every pair of calls, {how}.", who, steps, instances=instances)


def mixed_case(instances: Literal[1, 2]) -> Scenario:
    """Let one call be declined, left or answered badly while others are open."""
    who: list[Caller] = []
    steps: list[Step] = []
    bad = units("kelvin")
    for wrong in (bad, DECLINE, CANCEL, NOTHING, ROOTS):
        who += [
            Caller("Springfield", "alice"),
            Caller("Lisbon", "bob"),
            Caller("Springfield", "bob"),
        ]
        third = len(who)
        other = third - 1
        one = third - 2
        steps += [Send("first", call=one), Send("first", call=other), Send("first", call=third)]
        steps += [Send("place", place("Springfield, Missouri"), call=one)]
        steps += [Send("units", wrong, call=other)]
        steps += [Send("first", call=other, arguments={"location": 7})]
        steps += [Send("place", place("Springfield, Massachusetts"), call=third)]
        steps += [Send("units", units("imperial"), call=one), Repeat(one)]
        steps += [Send("units", units("metric"), call=third), Repeat(third, 2), Repeat(one)]
    slug = f"one-goes-wrong-{instances}"
    return case(slug, "One call goes wrong beside others.", who, steps, instances=instances)


def equal_calls_case() -> Scenario:
    """End one of three equal calls, in any way, and let the others go on; two are one user's."""
    who: list[Caller] = []
    steps: list[Step] = []
    kelvin = units("kelvin")
    first = Send("first")
    chosen = Send("place")
    ends = [[first, chosen, Send("units", answer)] for answer in (None, DECLINE, CANCEL, kelvin)]
    for end, stand in itertools.product((*ends, [first, Send("place", DECLINE)]), (1, 2)):
        who += [Caller("Springfield"), Caller("Springfield"), Caller("Springfield", "bob")]
        one, *others = range(len(who) - 2, len(who) + 1)
        clean = [rounds(number, who[-1], "", unit_in_turn(number)) for number in others]
        steps += [step for each in clean for step in each[:stand]]
        steps += [replace(step, call=one) for step in end]
        steps += [step for each in clean for step in each[stand:]]
    return case("equal-calls", "One of three equal calls ends, the others go on.", who, steps)


def again_case(instances: Literal[1, 2]) -> Scenario:
    """Make the same call again and again for one user, with requests that arrive late and twice."""
    who = [Caller("Tokyo"), Caller("Tokyo"), Caller("Tokyo", "bob"), Caller("Springfield")]
    who += [Caller("Springfield"), Caller("Springfield", asks=False), Caller("Tokyo", asks=False)]
    who += [Caller("Tokyo", asks=False), Caller("Tokyo", "bob", asks=False)]
    steps: list[Step] = []
    for number, caller in enumerate(who, start=1):
        if number > 2:
            steps += rounds(number, caller, "Springfield, Missouri", unit_in_turn(number))
    # Two that are equal in everything, at the same time.
    for one, other in zip(rounds(1, who[0]), rounds(2, who[1]), strict=True):
        steps += [one, other]
    steps += [Repeat(1), Repeat(2), Repeat(4, 2), Repeat(4), Repeat(3)]
    who += [Caller("Springfield"), Caller("Portland", "bob"), Caller("Tokyo")]
    for number in (10, 11, 12):
        for step in rounds(number, who[number - 1], "", "imperial"):
            steps.append(replace(step, again="at once" if number == 10 else "later"))
    who.append(Caller("Springfield"))
    for step in rounds(len(who), who[-1], "Springfield, Missouri", "imperial"):
        if step.name != "first":  # the response to a round without the answer is lost
            steps.append(replace(step, answer=NOTHING, lost=True))
        steps.append(step)
    slug = f"again-{instances}"
    return case(slug, "The same calls again, late and twice.", who, steps, instances=instances)


def astray_case() -> Scenario:
    """Choose one place on one instance and another on the other; each last round goes astray.

    The calls are equal but for the chosen place, so a handle that only one instance knows may be a
    handle of another call there.
    """
    here = [0, 1]
    places = ["Springfield, Illinois", "Springfield, Missouri"]
    who = 2 * ASTRAY * [Caller("Springfield")]
    steps: list[Step] = []
    for number in range(1, len(who) + 1):
        first, chosen, _ = rounds(number, who[0], in_turn(places, number))
        own = in_turn(here, number)
        steps += [replace(first, to=own), replace(chosen, to=own)]
    for number in range(1, len(who) + 1):
        other = in_turn(here, number + 1)
        steps.append(Send("units", units("imperial"), call=number, to=other))
    # The second instance runs in another environment, which may leave a check out.
    who.append(Caller("Tokyo"))
    steps.append(Send("first", call=len(who), to=1))
    for edit in ("changed", "cut short"):
        steps.append(Send("units", call=len(who), edit=edit, to=1))
    steps += [
        Send("units", call=len(who), location="Lisbon", to=1),
        Send("units", call=len(who), principal="mallory", to=1),
        Send("units", units("kelvin"), call=len(who), to=1),
        *(
            Send("units", call=len(who), arguments=bad, to=1)
            for bad in ({"location": 5}, {"location": "Tokyo" + " " * 96})
        ),
    ]
    why = "Calls with equal arguments go on at the instance that did not ask."
    return case("astray", why, who, steps, instances=2)


ASTRAY = 5
"""The number of calls on each instance that go on at the other."""


def at_once_case(slug: str, *users: str) -> Scenario:
    """Make the same calls at the same moment, of two users or of one; an effect takes long.

    Others begin beside the answers, and some of them cannot be asked.
    """
    who = [Caller("Tokyo", user) for user in 3 * users]
    begin, bill = (
        [replace(step, call=n, fault=fault) for n in range(1, len(who) + 1)]
        for step, fault in zip(rounds(1, who[0]), ("slow@audit", "slow@bill"), strict=True)
    )
    who += 2 * [Caller("Tokyo", asks=False)] + 3 * [Caller("Tokyo")]
    others = [Send("first", call=n) for n in range(len(bill) + 1, len(who) + 1)]
    steps = [Together(tuple(begin)), Together((*bill, *others))]
    # What goes on after an error shows beside another call that takes as long.
    late = Send("first", call=len(who) + 1, fault="slow@audit")
    who.append(Caller("Lisbon", "bob"))
    return case(slug, "The same call is made twice at once.", who, [*steps, late])


def crowd_case() -> Scenario:
    """Go on with a call after as many others were open as a server has room for.

    Most of the others are its own user's. When most of them have ended there is room again, and the
    oldest go on: a name that another call was given, too, shows there.
    """
    who = [
        Caller(in_turn(("Portland", "Springfield"), number))
        for number in range(1, ROOM - OTHERS + 1)
    ]
    # The names are too short to be looked for.
    users = [f"u{number}" for number in range(USERS)]
    who += [Caller("Tokyo", in_turn(users, number)) for number in range(MOST - len(who))]
    one, *answers = rounds(1, who[0], "Springfield, Missouri", "imperial")
    begin = [Send("first", call=number) for number in range(2, ROOM + 1)]
    begin += [Send("first", call=number, only_if="room") for number in range(ROOM + 1, MOST + 1)]
    # So many are at work at the same time.
    begin[0] = replace(begin[0], fault="lock@audit")
    answers_in_turn = [None, *4 * [DECLINE]]  # most decline
    ends = [
        Send("units", in_turn(answers_in_turn, number), call=number)
        for number in range(ROOM - OTHERS + 1, MOST + 1)
    ]
    oldest = [rounds(number, who[number - 1])[1] for number in range(2, OLDEST + 2)]
    who += [Caller("Tokyo", "u1"), Caller("Springfield")]
    new = [rounds(number, who[number - 1]) for number in (MOST + 1, MOST + 2)]
    batches = [
        Together(tuple(each[at : at + AT_ONCE]))
        for each in (begin[: ROOM - 1], begin[ROOM - 1 :], ends, oldest)
        for at in range(0, len(each), AT_ONCE)
    ]
    steps: list[Step] = [one, *batches, *new[0], *answers, *new[1]]
    return case("crowd", "Others begin calls while one is open, and end them.", who, steps)


USERS = 20
"""The number of other users."""


OTHERS = 100
"""The number of open calls of other users, if one user has most of them."""


MOST = 1_300
"""The most open calls, if a server has room for more than it has to."""


OLDEST = 300
"""The number of the user's calls that go on at the end."""


AT_ONCE = 50
"""The number of them that begin at the same moment: more than a pool has threads by default."""
