"""Cases of answers: those that do not fit, come too early, twice, or under another key."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    CANCEL,
    DECLINE,
    KEY_EDITS,
    NOTHING,
    ROOTS,
    Repeat,
    Send,
    Step,
    Together,
    UserAnswer,
    accept,
    refuse,
)
from mrtr_options.review.check.calls import (
    CHOSEN,
    CITIES,
    case,
    choices_of,
    place,
    rounds,
    units,
    user_in_turn,
)
from mrtr_options.tool.weather import REPORTS


def bad_answers(
    name: Literal["place", "units"], good: str, foreign: str, meant: Sequence[str] = ()
) -> Sequence[UserAnswer]:
    """Return answers to a question that do not fit, some of them almost.

    Args:
        name: The question's name.
        good: One of its choices.
        foreign: A choice of the question in another call.
        meant: Other words for the good choice.
    """
    other = "units" if name == "place" else "place"
    texts = foreign, good.upper(), f" {good}", f"{good} ", good[:-1], "", "kelvin", "1"
    values: list[Any] = [*texts, *meant, 0, 1, True, None, [good], [], 1.5]
    return [
        *(accept({name: value}) for value in values),
        accept({}),
        accept(None),
        accept({other: good}),
        accept({name.upper(): good}),
        accept({name: {"value": good}}),
        accept(good),
        refuse("maybe", {name: good}),  # pyright: ignore[reportArgumentType]
        ROOTS,
    ]


def bad_answers_case() -> Scenario:
    """Send every bad answer at every question, and then a good one, with the same state."""
    who = [
        Caller("Springfield"),
        Caller("Tokyo", "bob"),
        Caller("Portland"),
        Caller("Portland", "bob"),
    ]
    meant = "springfield, missouri", "Missouri", "MO", "Springfield", "s"
    bad_place = bad_answers("place", "Springfield, Missouri", "Portland, Oregon", meant)
    meant = "Imperial", "fahrenheit", "°F", "us", "i"
    bad_units = bad_answers("units", "imperial", "Springfield, Missouri", meant)
    steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
    steps += [Send("place", answer) for answer in bad_place]
    steps += [Send("place", NOTHING), Send("place", place("Springfield, Missouri"))]
    steps += [Send("units", answer) for answer in bad_units]
    steps += [Send("units", NOTHING), Send("units", units("imperial"))]
    steps += [Send("units", answer, call=2) for answer in bad_units[:4]]
    steps += 8 * [Send("units", NOTHING, call=2)]  # as many as a call's ten rounds leave room for
    steps += [Send("units", units("imperial"), call=2)]
    # A good answer once more, with more than was asked: more than a state has room for.
    wide = accept({"place": "Portland, Oregon", "note": 20_000 * "x"})
    steps += [
        Send("place", wide, call=3),
        Send("place", place("Portland, Oregon"), call=3, only_if="failed"),
    ]
    wide = accept({"units": "imperial", "place": "Portland, Maine"})
    steps += [Send("units", NOTHING, call=3), Send("units", wide, call=3)]
    steps += [Send("units", units("imperial"), call=3, only_if="failed"), Send("first", call=4)]
    # That is the name of the next question, too.
    wide = accept({"place": "Portland, Oregon", "units": "imperial"})
    steps += [
        Send("place", wide, call=4),
        Send("place", place("Portland, Oregon"), call=4, only_if="failed"),
    ]
    steps += [Send("units", units("metric"), call=4)]
    return case("bad-answers", "Every answer that does not fit, then a good one.", who, steps)


def near_keys_case() -> Scenario:
    """Send a good answer under a key that is nearly the question's own; then under its own."""
    who: list[Caller] = []
    steps: list[Step] = []
    for edit, name in itertools.product(KEY_EDITS, ("place", "units")):
        who.append(Caller("Springfield", user_in_turn(len(who))))
        clean = rounds(len(who), who[-1], "Springfield, Missouri", "imperial")
        for step in clean:
            if step.name == name:
                near = replace(step, key_edit=edit)
                steps += [near, replace(near, answer=DECLINE, only_if="asked")]
            steps.append(_if_asked(step))
    return case("near-keys", "Answers under keys that are nearly those asked.", who, steps)


def _if_asked(step: Send) -> Send:
    """Return a step that is left out if its question is not asked."""
    return step if step.name == "first" else replace(step, only_if="asked")


def refusals_case() -> Scenario:
    """Decline and cancel every question, with content and without, and answer it afterwards."""
    who: list[Caller] = []
    steps: list[Step] = []
    for location, name, good in (
        ("Springfield", "place", "Springfield, Missouri"),
        ("Portland", "units", "imperial"),
        ("Tokyo", "units", "metric"),
    ):
        for action, content in itertools.product(("decline", "cancel"), (None, {name: good})):
            refusal = refuse(action, content)  # pyright: ignore[reportArgumentType]
            who.append(Caller(location, user_in_turn(len(who))))
            number = len(who)
            steps.append(Send("first", call=number))
            if location == "Portland":
                steps.append(Send("place", place("Portland, Oregon"), call=number))
            steps.append(Send(name, refusal, call=number))  # pyright: ignore[reportArgumentType]
            steps.append(Repeat(number))
    return case("refusals", "Every question declined and cancelled.", who, steps)


def forks_case() -> Scenario:
    """Send two answers with one state, at every question, in every order; some are nearly equal."""
    missouri = place("Springfield, Missouri")
    illinois = place("Springfield, Illinois")
    metric = units("metric")
    imperial = units("imperial")
    pairs = [(metric, imperial), (metric, DECLINE), (DECLINE, imperial), (CANCEL, metric)]
    pairs += [(metric, refuse(no, metric.content)) for no in ("decline", "cancel")]
    pairs += [(metric, units(near)) for near in ("METRIC", " metric", ["metric"])]
    who = [Caller("Springfield")] * 3 + [Caller("Tokyo", "bob")] * (1 + len(pairs))
    steps: list[Step] = [
        Send("first", call=1),
        Send("place", illinois),
        Send("place", missouri),
        Send("units", imperial),
        Send("units", metric),
        Send("first", call=2),
        Send("place", illinois, call=2),
        Send("place", DECLINE, call=2),
        Send("place", refuse("cancel", illinois.content), call=2),
        Send("units", imperial, call=2),
        Send("units", metric, call=2),
        Send("first", call=3),
        Send("place", missouri, call=3),
        Send("units", imperial, call=3),
        Send("place", illinois, call=3),
        Send("units", metric, call=3),
    ]
    for number, (one, other) in enumerate(pairs, start=4):
        steps += [Send("first", call=number), Send("units", one, call=number)]
        steps += [Send("units", other, call=number), Send("units", one, call=number)]
    last = len(who)
    both = Send("units", metric, call=last), Send("units", imperial, call=last)
    steps += [Send("first", call=last), Together(both)]
    return case("forks", "One state comes with two answers.", who, steps)


def cold_case() -> Scenario:
    """Answer before the question, well and badly, and answer questions that are settled."""
    imperial = {"units": "imperial"}
    who: list[Caller] = []
    steps: list[Step] = []

    def call(
        location: str, first: dict[str, Any], at_place: dict[str, Any], at_units: dict[str, Any]
    ):
        who.append(Caller(location, user_in_turn(len(who))))
        number = len(who)
        choices = choices_of(location)
        steps.append(Send("first", call=number, extra=first))
        if len(choices) > 1:
            steps.append(
                Send("place", place(choices[-1]), call=number, extra=at_place, only_if="asked")
            )
        steps.append(Send("units", units("metric"), call=number, extra=at_units, only_if="asked"))

    call("Tokyo", {}, {}, {})  # from here on the keys are known
    call("Springfield", {}, {}, {})
    call("Tokyo", {"units": imperial}, {}, {})
    call("Tokyo", {"place": {"place": "Springfield, Missouri"}}, {}, {})
    call("Tokyo", {"units": {"units": "kelvin"}}, {}, {})
    call("Tokyo", {"units": DECLINE}, {}, {})
    call("Springfield", {"units": imperial}, {}, {})
    call("Springfield", {"units": {"units": "kelvin"}}, {}, {})
    call("Springfield", {"units": refuse("decline", imperial)}, {}, {})
    call("Springfield", {"place": {"place": "Springfield, Missouri"}}, {}, {})
    call("Springfield", {"place": {"place": "Portland, Maine"}}, {}, {})
    call("Springfield", {}, {"units": imperial}, {})
    call("Springfield", {}, {"units": {"units": "kelvin"}}, {})
    call("Springfield", {}, {}, {"place": {"place": "Springfield, Massachusetts"}})
    call("Springfield", {}, {}, {"place": DECLINE})
    call("Springfield", {}, {}, {"place": CANCEL})
    call("Portland", {"horoscope": {"sign": "leo"}}, {"x": DECLINE}, {"": {"units": "imperial"}})
    call(
        "Tokyo",
        {},
        {},
        {"place": {"place": "Lisbon, Portugal"}, "location": {"location": "Lisbon"}},
    )
    call("Atlantis", {"place": {"place": "Tokyo, Japan"}, "units": imperial}, {}, {})
    for chosen in ("Missouri", "Illinois", "Missouri"):  # everything at once, again and again
        call(
            "Springfield", {"place": {"place": f"Springfield, {chosen}"}, "units": imperial}, {}, {}
        )
        call("Tokyo", {"units": imperial}, {}, {})
    _add_unasked_alone(who, steps)
    return case("cold-answers", "Answers before and after their questions.", who, steps)


def _add_unasked_alone(who: list[Caller], steps: list[Step]) -> None:
    """Add calls in which an unasked answer comes alone.

    It is the answer to another question, or it fits and has a key that no question has.
    """
    imperial = {"units": "imperial"}
    missouri = {"place": "Springfield, Missouri"}
    unasked: list[tuple[str, dict[str, Any]]] = [
        ("place", {"units": imperial}),
        ("units", {"place": missouri}),
        ("place", {"city": missouri}),
        ("units", {"scale": imperial}),
    ]
    for name, other in unasked:
        for extra in (other, dict.fromkeys(other, DECLINE)):
            who.append(Caller("Springfield", user_in_turn(len(who))))
            number = len(who)
            for step in rounds(number, who[-1], "Springfield, Massachusetts"):
                if step.name == name:
                    steps.append(Send(step.name, NOTHING, call=number, extra=extra))
                steps.append(_if_asked(step))


def cannot_be_asked_case() -> Scenario:
    """Call with clients that cannot ask: from the beginning, later, and only for one round."""
    who = [Caller(location, asks=False) for location in (*REPORTS, *CITIES, "Atlantis", " tokyo")]
    who += [Caller(location, asks=False, declares="url") for location in ("Tokyo", "Springfield")]
    steps: list[Step] = [Send("first", call=number) for number in range(1, len(who) + 1)]
    for location in ("Springfield", "Tokyo"):
        for name in ("place", "units"):
            if location == "Tokyo" and name == "place":
                continue
            for answer in (NOTHING, None, DECLINE, CANCEL):
                who.append(Caller(location, "bob"))
                number = len(who)
                steps.append(Send("first", call=number))
                if location == "Springfield" and name == "units":
                    steps.append(Send("place", CHOSEN["place"], call=number))
                said = answer or CHOSEN[name]
                steps.append(Send(name, said, call=number, asks=False))  # pyright: ignore
    for declares in (None, "empty", "form"):  # others still are asked
        who.append(Caller("Springfield", declares=declares))
        steps += rounds(len(who), who[-1], "Springfield, Missouri", "imperial")
    # And after them, one that cannot.
    who += [Caller("Tokyo", asks=False), Caller("Springfield", asks=False, declares="url")]
    steps += [Send("first", call=number) for number in (len(who) - 1, len(who))]
    return case("cannot-be-asked", "Clients that cannot ask.", who, steps)


def declares_tasks_case() -> Scenario:
    """Call as a client that declares the Tasks extension; a server need not make tasks."""
    who: list[Caller] = []
    steps: list[Step] = []
    for location in ("Tokyo", "Springfield", "Atlantis", "Portland"):
        who.append(Caller(location, user_in_turn(len(who))))
        clean = rounds(len(who), who[-1], "", "imperial")
        if location == "Portland":
            clean[-1] = replace(clean[-1], answer=DECLINE)
        steps += [replace(step, takes_tasks=True) for step in clean]
    return case("declares-tasks", "The client declares the Tasks extension.", who, steps)
