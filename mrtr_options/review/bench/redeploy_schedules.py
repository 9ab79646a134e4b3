"""Schedules in which another version of the file is deployed in the middle of a call."""

from __future__ import annotations

from dataclasses import replace

from mrtr_options.review.bench.answers import Accept
from mrtr_options.review.bench.schedule import Schedule, make_schedule
from mrtr_options.review.bench.steps import FIRST, MISSOURI, UNITS, Change, Redeploy, Send

# A redeploy: the user's answers differ from what is assumed, and every repeated question is
# answered.
CHOSEN = Send("place", MISSOURI)
_CONSENT = Send("consent", Accept({"consent": "yes"}))
REPEATED = 3 * tuple(replace(step, only_if="asked") for step in (CHOSEN, _CONSENT, UNITS))

_BEGUN: dict[Change, tuple[Send, ...]] = {
    "reworded": (CHOSEN, UNITS),
    "schema": (CHOSEN, Send("units", Accept({"units": "kelvin"}))),
    "inserted": (CHOSEN, _CONSENT, UNITS),
    "removed": (UNITS,),
    "reordered": (UNITS, CHOSEN),
    "effect": (CHOSEN, UNITS),
    "renamed": (CHOSEN, UNITS),
}
"""The rounds after the first in a call of the changed version; the last one comes too late."""


def redeploy_schedules(change: Change, what: str) -> tuple[Schedule, ...]:
    *before, last = _BEGUN[change]
    new = Redeploy(change)
    old = Redeploy(None)
    return (
        make_schedule(
            f"redeploy-{change}",
            "While the user is thinking about the last question, a new version is deployed:"
            f" {what}.",
            (FIRST, CHOSEN, new, UNITS, *REPEATED),
        ),
        make_schedule(
            f"redeploy-{change}-back",
            f"The same change is taken back: {what}, until the server is rolled back.",
            (new, FIRST, *before, old, last, *REPEATED),
        ),
        make_schedule(
            f"redeploy-{change}-mixed",
            "Half of the fleet has the change, half has not, and rounds go to either in turn:"
            f" {what}.",
            (Redeploy(change, only=1), FIRST, CHOSEN, UNITS, *REPEATED),
        ),
    )
