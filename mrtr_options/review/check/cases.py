"""The cases that a proposal is held to: systematic inputs, and random ones.

First what can be listed (every place with every choice, every bad answer at every question, every
attack on every state, every pair of calls at once), many calls in one run, so that it costs little;
then runs drawn at random from a seed. Each is a scenario; `contract` says how it may end.

Knows scenarios, the domain's places and the contract's limits; nothing of how servers work.
"""

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
from mrtr_options.review.check.answer_cases import (
    bad_answers,
    bad_answers_case,
    cannot_be_asked_case,
    cold_case,
    declares_tasks_case,
    forks_case,
    near_keys_case,
    refusals_case,
)
from mrtr_options.review.check.calls import CITIES, case, choices_of, rounds
from mrtr_options.review.check.failures import (
    dies_case,
    fails_case,
    fault_cases,
    leaves_case,
    restart_cases,
    time_cases,
)
from mrtr_options.review.check.inputs import arguments_case, hostile_case, places_case
from mrtr_options.review.check.many_calls import (
    again_case,
    astray_case,
    at_once_case,
    crowd_case,
    equal_calls_case,
    mixed_case,
    pairs_case,
)
from mrtr_options.review.check.old_clients import (
    legacy_at_once_case,
    legacy_case,
    legacy_fails_case,
    legacy_leaves_case,
    legacy_stays_case,
    legacy_thinks_case,
    legacy_waits_case,
)
from mrtr_options.review.check.states import attacks_case, bad_states_case
from mrtr_options.review.judge.contract.content import UNITS
from mrtr_options.tool.weather import REPORTS

TASKS = (
    "task-clean",
    "task-update-twice",
    "task-two-answers",
    "task-unknown-keys",
    "task-partial-keys",
    "task-bad-answer",
    "task-decline",
    "task-other-principal",
    "task-guessed",
    "task-undeclared",
    "task-cancel",
    "task-cancel-finished",
    "task-expired",
)
"""The schedules for a server that hands out tasks."""


def systematic() -> list[Scenario]:
    """Return every case that can be listed, the most revealing first."""
    return [
        places_case(),
        bad_answers_case(),
        attacks_case("Springfield", "Portland"),
        attacks_case("Tokyo", "Lisbon"),
        arguments_case("modern"),
        hostile_case(),
        declares_tasks_case(),
        near_keys_case(),
        pairs_case(1, at_once=False),
        cold_case(),
        forks_case(),
        refusals_case(),
        cannot_be_asked_case(),
        mixed_case(1),
        equal_calls_case(),
        again_case(1),
        pairs_case(1, at_once=True),
        legacy_case(),
        legacy_waits_case(),
        legacy_fails_case(),
        legacy_stays_case(),
        legacy_leaves_case(),
        legacy_at_once_case(),
        legacy_thinks_case(),
        at_once_case("users-at-once", "alice", "bob"),
        at_once_case("equal-at-once", "alice", "alice"),
        crowd_case(),
        leaves_case(),
        fails_case(),
        dies_case(),
        bad_states_case(),
        *time_cases(),
        *fault_cases(),
        *restart_cases(),
        astray_case(),
        pairs_case(2, at_once=False),
        mixed_case(2),
        again_case(2),
        arguments_case("legacy"),
    ]


def for_one_user(case: Scenario) -> Scenario:
    """Return a case for a server that cannot be told the caller: all calls are one user's."""
    callers = tuple(replace(caller, principal="alice") for caller in case.callers)
    script = tuple(step for step in case.script if not any(map(_is_of_another, step.parts)))
    return replace(case, callers=callers, script=script)


def _is_of_another(step: Step) -> bool:
    return isinstance(step, Send) and step.principal is not None


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
        name = step.name
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
