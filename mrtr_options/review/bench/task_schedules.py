"""Schedules of tasks, for options that return tasks to clients that take them (SEP-2663)."""

from __future__ import annotations

from mrtr_options.review.bench.scenario import make_schedule
from mrtr_options.review.bench.steps import (
    DECLINE,
    ENDED,
    MISSOURI,
    Create,
    Look,
    Restart,
    Stop,
    Together,
    Update,
    Wait,
    accept,
)

# A task: created, its two questions answered, and looked at until it is over.
_ASKED = Look(("input_required",))
_OVER = Look(ENDED)
_CREATED = (Create(), _ASKED)
_PLACED = (*_CREATED, Update(), _ASKED)
_FINISHED = (*_PLACED, Update(), _OVER)

TASK_SCHEDULES = (
    make_schedule("task-clean", "A task, its questions and its result.", _FINISHED),
    make_schedule(
        "task-lost-create",
        "The response with the task's id is lost; the client calls again and finishes that task.",
        (Create(lost=True), *_FINISHED),
    ),
    make_schedule(
        "task-lost-update",
        "The response to an answer is lost; the client sends the answer again.",
        (*_PLACED, Update(lost=True), Update(again="later"), _OVER),
    ),
    make_schedule(
        "task-update-twice",
        "A proxy delivers an answer twice, the second time when it was taken.",
        (*_CREATED, Update(again="later"), _ASKED, Update(again="later"), _OVER),
    ),
    make_schedule(
        "task-update-at-once",
        "An answer is delivered twice at the same moment, to two instances.",
        (*_CREATED, Update(again="at once"), _ASKED, Update(again="at once"), _OVER),
    ),
    make_schedule(
        "task-two-answers",
        "The user answers, goes back and answers differently.",
        (*_CREATED, Update(), Update({"place": MISSOURI}), _ASKED, Update(), _OVER),
    ),
    make_schedule(
        "task-unknown-keys",
        "A client sends answers to questions that were not asked, alone and along with the real"
        " one.",
        (
            *_CREATED,
            Update({}, extra={"horoscope": {"sign": "leo"}}),
            Look(),
            Update(extra={"horoscope": {"sign": "leo"}}),
            _ASKED,
            Update(),
            _OVER,
        ),
    ),
    make_schedule(
        "task-partial-keys",
        "A client sends an update with none of the answers, then with all of them.",
        (*_CREATED, Update({}), Look(), Update(), _ASKED, Update({}), Update(), _OVER),
    ),
    make_schedule(
        "task-bad-answer",
        "A client without form validation sends an answer that does not fit, then a good one.",
        (*_PLACED, Update({"units": accept({"units": "kelvin"})}), Look(), Update(), _OVER),
    ),
    make_schedule(
        "task-decline",
        "The user says no to the last question.",
        (*_PLACED, Update({"units": DECLINE}), _OVER),
    ),
    make_schedule(
        "task-cannot-ask",
        "The client takes tasks and cannot ask its user.",
        (Create(asks=False), _OVER),
    ),
    make_schedule(
        "task-other-principal",
        "Somebody else has learned the task's id: they look, answer and cancel.",
        (
            *_PLACED,
            Look(principal="mallory"),
            Update(principal="mallory"),
            Stop(principal="mallory"),
            Update(),
            _OVER,
        ),
    ),
    make_schedule("task-guessed", "Somebody makes an id up.", (*_PLACED, Look(guessed=True))),
    make_schedule(
        "task-undeclared",
        "A client that did not declare the extension looks at a task.",
        (*_PLACED, Look(takes_tasks=False)),
    ),
    make_schedule(
        "task-cancel",
        "The user has the task stopped while it waits for them, and answers anyway.",
        (*_PLACED, Stop(), _OVER, Update({"units": accept({"units": "metric"})}), Stop(), _OVER),
    ),
    make_schedule(
        "task-cancel-finished",
        "The task is over when it is cancelled.",
        (*_FINISHED, Stop(), _OVER, Stop(), _OVER),
    ),
    make_schedule(
        "task-cancel-races",
        "The last answer and a cancellation arrive at the same moment, at two instances.",
        (*_PLACED, Together((Update(), Stop())), _OVER, Stop(), _OVER, _OVER),
    ),
    make_schedule(
        "task-expired",
        "The user comes back after the task's time.",
        (*_PLACED, Wait(3 * 3600), Look()),
    ),
    make_schedule(
        "task-killed-working",
        "The instance that works at the task dies right after the bill.",
        (*_PLACED, Update(fault="crash@bill"), _OVER),
    ),
    make_schedule(
        "task-killed-working-keyed",
        "As `killed-working`, and the destination honours the effect's idempotency key.",
        (*_PLACED, Update(fault="crash@bill"), _OVER),
        destination="honours keys",
    ),
    make_schedule(
        "task-killed-waiting",
        "Every instance is replaced while the task waits for the user.",
        (*_CREATED, Restart(), _ASKED, Update(), _ASKED, Restart(), Update(), _OVER),
    ),
    make_schedule(
        "task-killed-completed",
        "Every instance is replaced when the task is over.",
        (*_FINISHED, Restart(), _OVER),
    ),
    make_schedule(
        "task-killed-failed",
        "Every instance is replaced after the task failed, since its audit did.",
        (Create(fault="fail@audit"), _OVER, Restart(), _OVER, _OVER),
    ),
    make_schedule(
        "task-killed-cancelled",
        "Every instance is replaced after the task was cancelled.",
        (*_PLACED, Stop(), Restart(), _OVER, _OVER),
    ),
)
