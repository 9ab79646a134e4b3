"""The contract as a specification that runs: what docs/CONTRACT.md allows, held against a history.

`violations` reads a history from its first event to its last. For each request it computes every
response that the page allows there, and every effect, from what any onlooker knows: what was sent,
which state, what that state was handed out with, and what happened to the servers since. Where the
page leaves a choice, each is allowed. Nothing here knows how a server works.

To read: `rules`, the rules by name; `answers` and `kinds`, what a client sends and what it may get;
`calls`, a history request by request; `allowed`, the responses that a request may get; and what is
held against that: `responses`, `effects` and `leaks`.
"""

from __future__ import annotations

from typing import Any

from mrtr_options.review.bench.history import History
from mrtr_options.review.judge.contract.calls import Calls
from mrtr_options.review.judge.contract.effects import wrong_effects
from mrtr_options.review.judge.contract.leaks import leaks
from mrtr_options.review.judge.contract.responses import wrong_responses
from mrtr_options.review.judge.contract.rules import EFFECTS, LISTED, RULES, SOURCES
from mrtr_options.review.judge.contract.tasks import has_tasks, wrong_tasks
from mrtr_options.review.judge.properties import Problem

__all__ = ["EFFECTS", "LISTED", "RULES", "SOURCES", "violations"]


def violations(
    history: History, *, tools: dict[str, dict[str, Any]] | None = None
) -> list[Problem]:
    """What a history has that the contract does not allow, in its order.

    Args:
        history: Of any server of the weather tool. One whose code is changed on the way is not
            what the contract is about: there is nothing to find in it. A task is held against the
            extension's rules and the page's questions and reports.
        tools: The server's listing, where it was read in another run.

    Source: docs/CONTRACT.md.
    """
    if history.scenario.changes:
        return []
    if has_tasks(history):
        return wrong_tasks(history)
    if history.scenario.takes_tasks:
        return []
    calls = Calls(history)
    found = [
        *calls.deaths,
        *wrong_responses(calls, tools or {}),
        *wrong_effects(calls),
        *leaks(calls),
    ]
    order = {name: number for number, name in enumerate(RULES)}
    return sorted(found, key=lambda each: (each.exchange or 10**9, order[each.property]))
