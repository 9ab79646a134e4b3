"""Cases that are drawn at random from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import (
    CANCEL,
    DECLINE,
    NOTHING,
    Repeat,
    Send,
    Step,
    Together,
    Wait,
)
from mrtr_options.review.check.answer_cases import bad_answers
from mrtr_options.review.check.calls import CITIES, case, choices_of, rounds
from mrtr_options.review.judge.contract.content import UNITS
from mrtr_options.tool.weather import REPORTS


def at_random(seed: int) -> Iterator[Scenario]:
    """Yield cases without end, the same for the same seed: a few calls of two users, mixed."""
    for number in itertools.count(1):
        yield _drawn(random.Random(f"{seed}/{number}"), number)


def _drawn(draw: random.Random, number: int) -> Scenario:
    odd = (" springfield ", "PORTLAND", "Springfield", "Springfield", "Atlantis")
    locations = (*CITIES, *REPORTS, *odd)
    who: list[Caller] = []
    calls: list[list[Step]] = []
    for call in range(1, draw.randint(2, 4) + 1):
        caller = Caller(draw.choice(locations), draw.choice(("alice", "bob")), draw.random() < 0.9)
        if who and draw.random() < 0.3:
            caller = replace(draw.choice(who), principal=caller.principal)
        who.append(caller)
        calls.append(_life(draw, call, caller))
    steps: list[Step] = []
    while any(calls):
        here = draw.choice([each for each in calls if each])
        step = here.pop(0)
        others = [each for each in calls if each is not here and each and isinstance(each[0], Send)]
        if others and isinstance(step, Send) and draw.random() < 0.15:
            other = draw.choice(others).pop(0)
            assert isinstance(other, Send)
            steps.append(Together((step, other)))
        else:
            steps.append(step)
        if draw.random() < 0.05:
            steps.append(Wait(draw.choice((30, 500, 660))))
    instances: Literal[1, 2] = 1 if draw.random() < 0.6 else 2
    return case(f"random-{number}", "Calls drawn at random.", who, steps, instances=instances)


def _life(draw: random.Random, call: int, caller: Caller) -> list[Step]:
    """Draw the steps of one call."""
    choices = choices_of(caller.location)
    steps: list[Step] = []
    for step in rounds(call, caller, draw.choice(choices) if choices else "", draw.choice(UNITS)):
        name = step.round
        if name != "first" and draw.random() < 0.35:
            good = "imperial" if name == "units" else choices[0]
            bad = bad_answers("units" if name == "units" else "place", good, "Portland, Maine")
            steps.append(Send(name, draw.choice([*bad, NOTHING]), call=call))
        if name != "first" and draw.random() < 0.15:
            steps.append(Send(name, draw.choice((DECLINE, CANCEL)), call=call))
        if draw.random() < 0.1:
            step = replace(step, extra={draw.choice(("place", "units")): {"units": "imperial"}})
        if draw.random() < 0.15:
            step = replace(step, again=draw.choice(("later", "at once")))
        if name != "first" and draw.random() < 0.1:
            steps.append(replace(step, principal="mallory"))
        steps.append(step)
        if draw.random() < 0.15:
            steps.append(Repeat(call, draw.randint(1, 2)))
        if draw.random() < 0.1:
            break  # and never comes back
    return steps
