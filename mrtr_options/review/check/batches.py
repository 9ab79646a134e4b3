"""Batches of calls that all end in the same way, to see what a process still holds of them.

Knows the processes of a file; nothing of what is done with what is found.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Literal, cast, get_args

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext

from mrtr_options.review.bench.deployments import Instances
from mrtr_options.review.bench.deployments.children import Children
from mrtr_options.review.bench.driver import MAX_REQUESTS
from mrtr_options.review.bench.edits import edit_state
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.sender import on_the_wire
from mrtr_options.review.bench.setup import Era
from mrtr_options.review.bench.steps import AGREE, CANCEL, DECLINE, Accept
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.calls import in_turn

Outcome = Literal["reported", "declined", "cancelled", "did not fit", "refused", "abandoned"]
"""The end of each call of a batch.

It ends with a report; it is declined or cancelled; it is left after an answer that does not fit,
after a changed state, or at the first question.
"""

MAY_GROW = {"tasks": 20, "threads": 60, "files": 20, "bytes": 64 * 2**20}
"""The most that a process may hold in addition after `CALLS` calls.

It may be a pool of workers, and an allocator's reserve.
"""

CALLS: dict[Era, int] = {"modern": 200, "legacy": 100}
"""The number of calls with one outcome. Calls of an old client take longer."""

PARTS = 4
"""The number of parts of a batch. The first part decides whether the others are made.

They are made only if the first leaves more than its share of `MAY_GROW`.
"""

WARM = 20
"""The number of calls that are made before a process is looked at for the first time."""

_WORDS: dict[Outcome, str] = {
    "did not fit": "given an answer that does not fit",
    "refused": "given a changed state",
}


async def find_held(
    subject: Subject, children: Children, era: Era, on_begin: Callable[[str], None]
) -> AsyncGenerator[tuple[Outcome, str]]:
    """Make calls with each outcome, and yield the outcomes after which a process holds too much.

    Args:
        subject: The subject that is called.
        children: Its processes.
        era: The client's era.
        on_begin: Called with the name of each batch before it is made.
    """
    async with children.started(subject, named("clean-tokyo", era).on_one()) as instances:
        await _make(instances, "reported", WARM, era)  # fills caches and pools
        before = await _held_now(instances, children)
        for outcome in get_args(Outcome):
            if outcome == "refused" and era == "legacy":  # an old client holds no state
                continue
            calls = CALLS[era] // PARTS
            on_begin(f"{calls} calls that are {_WORDS.get(outcome, outcome)}, {era}")
            await _make(instances, outcome, calls, era)
            after = await _held_now(instances, children)
            if too_much(before, after, CALLS[era] // PARTS, CALLS[era]):
                calls = CALLS[era]
                await _make(instances, outcome, calls - calls // PARTS, era)
                after = await _held_now(instances, children)
                found = too_much(before, after, calls, calls)
                if found:
                    words = _WORDS.get(outcome, outcome)
                    yield outcome, f"{', '.join(found)} more, after {calls} calls that were {words}"
            before = after


def too_much(
    before: dict[str, int], after: dict[str, int], calls: int, calls_for_all: int
) -> list[str]:
    """Return what a process still holds of so many calls, in words, where that is too much.

    Args:
        before: What it held before.
        after: What it holds now.
        calls: The number of calls that were made.
        calls_for_all: The number of calls after which all of `MAY_GROW` may be left.
    """
    grown = {what: after[what] - before[what] for what in before if what in after}
    return [
        f"{count / 2**20:.0f} MiB of memory" if what == "bytes" else f"{count} {what}"
        for what, count in grown.items()
        if count > MAY_GROW[what] * calls / calls_for_all
    ]


def one_call(outcome: Outcome, era: Era) -> Scenario:
    """Return one call of a batch, as its finding tells it."""
    slugs: dict[Outcome, str] = {
        "declined": "decline",
        "cancelled": "cancel",
        "did not fit": "bad-answer",
        "refused": "tampered",
        "abandoned": "abandoned",
    }
    slug = slugs.get(outcome, "clean-tokyo")
    return named(slug if era == "modern" else "clean-tokyo", era).on_one()


async def _make(instances: Instances, outcome: Outcome, calls: int, era: Era) -> None:
    """Make calls that all end in the same way."""
    for number in range(calls):
        request = Request(in_turn(("Tokyo", "Springfield"), number), era=era)
        if era == "legacy":
            await _make_legacy(instances, request, outcome)
        else:
            await _make_modern(instances, request, outcome)


async def _make_modern(instances: Instances, request: Request, outcome: Outcome) -> None:
    reply = await instances.send(0, request)
    if outcome == "abandoned":
        return
    if outcome == "refused":
        state = edit_state(reply.state, "changed")
        answers = _answers(reply, outcome)
        await instances.send(0, replace(request, answers=answers, state=state))
        return
    for _ in range(MAX_REQUESTS):  # a server may ask for ever
        if not reply.questions:
            return
        answers = _answers(reply, outcome)
        reply = await instances.send(0, replace(request, answers=answers, state=reply.state))
        if outcome != "reported":
            return


def _answers(reply: Reply, outcome: Outcome) -> types.InputResponses:
    """Return the answer to each question of a response."""
    return {key: _answer(reply.name_of(key), outcome) for key in reply.questions}


def _answer(name: str, outcome: Outcome) -> types.InputResponse:
    """Return the answer of the user of a call with an outcome to a question."""
    if outcome == "declined":
        return on_the_wire(DECLINE)
    if outcome == "cancelled":
        return on_the_wire(CANCEL)
    said: Mapping[str, str] = AGREE
    if outcome == "did not fit":
        said = dict.fromkeys(AGREE, "kelvin")
    return on_the_wire(Accept({name: said[name]}))


async def _make_legacy(instances: Instances, request: Request, outcome: Outcome) -> None:
    gone = anyio.Event()

    async def user(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        if outcome == "abandoned":
            gone.set()
            await anyio.sleep_forever()
        assert isinstance(params, types.ElicitRequestFormParams)
        name = next(iter(params.requested_schema["properties"]))
        return cast("types.ElicitResult", _answer(name, outcome))

    await instances.send(0, request, user, gone)


async def _held_now(instances: Instances, children: Children) -> dict[str, int]:
    """Count what a process holds, after every state has expired."""
    await instances.wait(1200)
    await instances.send(0, Request("Atlantis"))
    return await children.stats(0)
