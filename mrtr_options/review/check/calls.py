"""The calls that cases are made of: callers, the rounds of a clean call, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import mcp_types as types

from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.scenario import Caller, Scenario, Setup
from mrtr_options.review.bench.steps import Send, Step, accept
from mrtr_options.review.judge.contract.content import UNITS, places_meant
from mrtr_options.tool.weather import REPORTS

T = TypeVar("T")

CITIES = tuple(dict.fromkeys(label.partition(",")[0] for label in REPORTS))


def case(
    name: str,
    why: str,
    who: list[Caller],
    steps: list[Step],
    *,
    era: Era = "modern",
    instances: Literal[1, 2] = 1,
) -> Scenario:
    setup = Setup(era, "one" if instances == 1 else "free")
    return Scenario(name, why, setup, tuple(who), script=tuple(steps))


def choices_of(location: str) -> tuple[str, ...]:
    """Return the places that may be chosen for a location; one or none if nothing is asked."""
    return places_meant(location)[0]


def place(choice: Any) -> types.ElicitResult:
    """Return an answer to the question "place"."""
    return accept({"place": choice})


def units(choice: Any) -> types.ElicitResult:
    """Return an answer to the question "units"."""
    return accept({"units": choice})


CHOSEN = {"place": place("Springfield, Missouri"), "units": units("imperial")}
"""Answers to a call for Springfield that differ from what is assumed."""


def rounds(number: int, caller: Caller, chosen: str = "", unit: str = "metric") -> list[Send]:
    """Return the rounds of a clean call."""
    choices = choices_of(caller.location)
    steps = [Send("first", call=number)]
    if len(choices) > 1:
        steps.append(Send("place", place(chosen or choices[0]), call=number))
    if choices and (len(choices) == 1 or caller.asks):
        steps.append(Send("units", units(unit), call=number))
    return steps


def in_turn(values: Sequence[T], number: int) -> T:
    """Return the value whose turn it is, if each has one after the other: by a call's number."""
    return values[number % len(values)]


def user_in_turn(number: int) -> str:
    """Return the user of a call: one of two users in turn, by the call's number."""
    return in_turn(("alice", "bob"), number)


def unit_in_turn(number: int) -> str:
    """Return the unit of a call: each in turn, by the call's number."""
    return in_turn(UNITS, number)
