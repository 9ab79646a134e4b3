"""The cases that a proposal is held to: systematic inputs, and random ones.

First what can be listed (every place with every choice, every bad answer at every question, every
attack on every state, every pair of calls at once), many calls in one run, so that it costs little;
then runs drawn at random from a seed. Each is a scenario; `contract` says how it may end.

Knows scenarios, the domain's places and the contract's limits; nothing of how servers work.
"""

from __future__ import annotations

from dataclasses import replace

from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Send, Step
from mrtr_options.review.check.ages import time_cases
from mrtr_options.review.check.answer_cases import (
    bad_answers_case,
    cannot_be_asked_case,
    cold_case,
    declares_tasks_case,
    forks_case,
    near_keys_case,
    refusals_case,
)
from mrtr_options.review.check.failures import (
    dies_case,
    fails_case,
    fault_cases,
    leaves_case,
    restart_cases,
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
