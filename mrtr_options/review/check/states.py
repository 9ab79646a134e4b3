"""Cases of states: forged, changed, and of other users, calls and servers."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mrtr_options.review.bench.attacks.forgeries import Forge
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    CANCEL,
    DECLINE,
    NOTHING,
    STATE_EDITS,
    Send,
    Step,
    Wait,
    in_full_width,
)
from mrtr_options.review.check.calls import CHOSEN, case, choices_of, place, rounds, units


def bad_states_case() -> Scenario:
    """Send every kind of bad state with every kind of answer, and without one."""
    who = [Caller("Springfield"), Caller("Springfield", "mallory"), Caller("Tokyo")]
    misfit = {"place": place("Tokyo, Japan"), "units": units("kelvin")}
    steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]

    def each_answer(name: Literal["place", "units"], call: int) -> None:
        for answer in (DECLINE, CANCEL, misfit[name], NOTHING, CHOSEN[name]):
            steps.append(Forge(name, answer, call, most=FORGED))
            for edit in STATE_EDITS:
                if edit != "drop":
                    steps.append(Send(name, answer, call=call, edit=edit))
            # A genuine one, in other hands and with other arguments.
            steps.append(Send(name, answer, call=call, principal="eve"))
            steps.append(Send(name, answer, call=call, location="Portland"))

    each_answer("place", 1)
    each_answer("units", 3)
    steps.append(Send("place", CHOSEN["place"]))
    each_answer("units", 1)
    steps += [Send("units", CHOSEN["units"]), Send("units", CHOSEN["units"], call=3), Wait(660)]
    for answer in (DECLINE, CANCEL, misfit["place"], NOTHING, CHOSEN["place"]):  # too old by now
        steps.append(Send("place", answer, call=2))
    return case("bad-states", "Every kind of bad state with every answer.", who, steps)


FORGED = 16
"""The number of forged states that go with each answer; all of them go with an answer that fits."""


def respelled(location: str) -> tuple[str, ...]:
    """Return the same place in other spellings, which are other arguments."""
    wide = in_full_width(location)
    return (
        f" {location}",
        f"{location}\t",
        location.lower(),
        location.upper(),
        location.swapcase(),
        wide,
    )


NAMES = "\u0141ukasz", "\u738b\u5c0f\u660e"
"""Names of users in letters that one encoding or another does not have."""


SAME_CHECKSUM = ("user-l5dmvs", "user-pz8lbs"), ("user-smxnt4", "user-uhxxj7")
"""Pairs of users whose names have the same CRC-32, and the same Adler-32."""


_LONG = "someone.of.a.department.with.a.long.name." * 3
"""The beginning of names that are longer than most."""


def attacks_case(first: str, second: str) -> Scenario:
    """Attack the state of every question in every way, as somebody who also holds other states."""
    attacks = _Attacks(first, second)
    attacks.begin()
    attacks.send_forged()
    attacks.send_of_others()
    attacks.send_from_other_callers()
    attacks.send_after_the_answer()
    attacks.send_without_names()
    attacks.send_names_that_begin_alike()
    attacks.send_other_letters()
    attacks.send_same_checksums()
    slug = f"attacks-{first.lower()}"
    return case(slug, "Every attack on every state.", attacks.callers, attacks.steps)


class _Attacks:
    """The attacks on the states of calls for one location, with calls for a second one beside it.

    Calls are named by their numbers, from 1 on, in the order of the callers.
    """

    VICTIM = 5
    NAMELESS = 6
    LONG_NAME = 7
    SPACE_BEFORE = 8
    SPACE_BEHIND = 9
    OTHER_LETTERS = 10, 11
    EMPTY_NAME = 12
    SAME_CHECKSUM = 13, 14

    def __init__(self, first: str, second: str) -> None:
        self.first = first
        self.second = second
        self.metric = units("metric")
        self.imperial = units("imperial")
        self.callers = [
            Caller(first),
            Caller(second, "mallory"),
            Caller(first, "mallory"),
            Caller(second),
            Caller(first),
            Caller(first, None),
            Caller(first, f"{_LONG}@one"),
            Caller(f" {first}"),
            Caller(f"{first} "),
        ]
        self.callers += [Caller(first, name) for name in NAMES]
        self.callers.append(Caller(first, ""))
        self.callers += [Caller(first, one) for one, _ in SAME_CHECKSUM]
        self.steps: list[Step] = []

    def begin(self) -> None:
        """Begin calls of two users for both locations, up to their last question."""
        for number in (1, 2, 3, 4):
            self._ask_last(number)
        self.steps.append(Send("first", call=self.VICTIM))

    def send_forged(self) -> None:
        """Send forged states at each question."""
        call = self.VICTIM
        choices = choices_of(self.first)
        if len(choices) > 1:
            self.steps.append(Forge("place", place(choices[-1]), call=call))
            self.steps.append(Send("place", place(choices[-1]), call=call))
        self.steps.append(Forge("units", self.imperial, call=call))

    def send_of_others(self) -> None:
        """Send genuine states of other users and other calls, and this state in other hands."""
        for other in (2, 3, 4):
            self._answer(self.VICTIM, state_of=other)
        self._answer(self.VICTIM, principal="mallory")
        self.steps.append(Send("units", DECLINE, call=self.VICTIM, principal="mallory"))
        for name in ("Alice", "alice ", in_full_width("alice")):
            self._answer(self.VICTIM, principal=name)
        for location in (self.second, *respelled(self.first), "Nairobi", "Atlantis"):
            self._answer(self.VICTIM, location=location)

    def send_from_other_callers(self) -> None:
        """Send states from clients that cannot be asked, whose calls end without an answer."""
        call = self.VICTIM
        self.steps.append(Send("units", NOTHING, call=call, principal="mallory", asks=False))
        self.steps.append(Send("units", NOTHING, call=call, state="made up", asks=False))

    def send_after_the_answer(self) -> None:
        """Answer the call, and attack its state again."""
        call = self.VICTIM
        self.steps.append(Send("units", self.imperial, call=call))
        self.steps.append(Send("units", self.imperial, call=call, principal="mallory"))
        self.steps.append(Send("units", self.imperial, call=call, location="Nairobi"))

    def send_without_names(self) -> None:
        """Send states of somebody without a name, and of somebody with an empty one."""
        nameless = self.NAMELESS
        empty = self.EMPTY_NAME
        self._ask_last(nameless)
        self._ask_last(empty)
        self.steps.append(Send("units", self.imperial, call=nameless, state_of=self.VICTIM))
        self.steps.append(Send("units", self.imperial, call=empty, state_of=self.VICTIM))
        self._answer(nameless, state_of=empty)
        self._answer(empty, state_of=nameless)
        self._answer(empty)
        self._answer(nameless, principal="alice")
        self.steps.append(Send("units", DECLINE, call=nameless, principal="mallory"))
        for name in ("None", "null", "anonymous"):
            self._answer(nameless, principal=name)
        self._answer(nameless)
        self._answer(nameless, principal="mallory")

    def send_names_that_begin_alike(self) -> None:
        """Send states of long names, and of a name and a location that concatenate to the same."""
        for number in (self.LONG_NAME, self.SPACE_BEFORE, self.SPACE_BEHIND):
            self._ask_last(number)
        self._answer(self.LONG_NAME, principal=f"{_LONG}@two")
        self._answer(self.SPACE_BEFORE, principal="alice ", location=self.first)
        self._answer(self.SPACE_BEHIND, principal=" alice", location=self.first)

    def send_other_letters(self) -> None:
        """Send states of users whose names have other letters than ASCII's."""
        one, other = self.OTHER_LETTERS
        self._ask_last(one)
        self._ask_last(other)
        self._answer(one, principal=NAMES[1])
        self._answer(one)
        self._answer(other)

    def send_same_checksums(self) -> None:
        """Send states as users whose names have the checksum of the owner's name."""
        for number in self.SAME_CHECKSUM:
            self._ask_last(number)
        for number, (_, other) in zip(self.SAME_CHECKSUM, SAME_CHECKSUM, strict=True):
            self._answer(number, principal=other)

    def _ask_last(self, number: int) -> None:
        """Make a call up to its last question."""
        *questions, _ = rounds(number, self.callers[number - 1])
        self.steps += questions

    def _answer(
        self,
        call: int,
        *,
        state_of: int | None = None,
        principal: str | None = None,
        location: str | None = None,
    ) -> None:
        """Answer "metric" with a call's state or another one's, perhaps as somebody else."""
        step = Send(
            "units",
            self.metric,
            call=call,
            state_of=state_of,
            principal=principal,
            location=location,
        )
        self.steps.append(step)


def elsewhere(history: History) -> Scenario | None:
    """Return a case with states of another run of the same server; None if that had no states.

    The server had other keys and another ledger then.
    """
    who: list[Caller] = []
    steps: list[Step] = []
    for sent, got in history.exchanges:
        request = sent.request
        reply = got.reply
        names = list(map(reply.name_of, reply.questions))
        choices = choices_of(request.location)
        if reply.state is None or names not in (["place"], ["units"]) or len(who) == 12:
            continue
        who.append(Caller(request.location, request.principal))
        number = len(who)
        first, *later = rounds(number, who[-1])
        steps.append(first)
        for step in later:
            answer = place(choices[-1]) if step.name == "place" else units("imperial")
            if step.name == names[0]:
                steps.append(replace(step, answer=answer, state=reply.state))
            steps.append(step)
    if not who:
        return None
    return case("elsewhere", "States of servers with other keys and another ledger.", who, steps)
