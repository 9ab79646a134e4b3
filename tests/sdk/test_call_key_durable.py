"""The call key in L and K: it makes the beginning of a durable call, and of a task, idempotent."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import mcp_types as types
import pytest

from mrtr_options.bench.deployments.memory import Memory, MemoryInstances
from mrtr_options.bench.faults import parse
from mrtr_options.bench.history import Reply, Request
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import calling
from mrtr_options.bench.subjects import subject_named
from mrtr_options.judge.counterexamples import wrong
from mrtr_options.sdk.call_key import new_call_key
from tests.bounds import SECONDS
from tests.sdk.fakes import ON_ASYNCIO

pytest.importorskip("dbos", reason="needs DBOS: pip install dbos")
pytestmark = [pytest.mark.anyio, ON_ASYNCIO, pytest.mark.slow]


@asynccontextmanager
async def deployed(letter: Literal["L", "K"], folder: Path) -> AsyncGenerator[MemoryInstances]:
    """Two instances that share a database."""
    deployment = MemoryInstances(Memory(), subject_named(f"{letter}ᵏ"), 2, folder)
    with anyio.fail_after(SECONDS):
        async with deployment.running():
            yield deployment


def answered(request: Request, reply: Reply, value: str) -> Request:
    """The request that answers a response's one question."""
    (key,) = reply.questions
    answer = types.ElicitResult(action="accept", content={reply.name_of(key): value})
    return replace(request, answers={key: answer}, state=reply.state)


async def test_a_durable_call_begins_once_and_says_what_it_has_come_to(shared_folder: Path) -> None:
    async with deployed("L", shared_folder) as two:
        first = Request("Springfield", key=new_call_key())
        replies: list[Reply] = []

        async def begin(instance: int) -> None:
            replies.append(await two.send(instance, first))

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(begin, number % 2)
        assert {tuple(reply.questions.values()) for reply in replies} == {("Which Springfield?",)}
        place = answered(first, replies[0], "Springfield, Illinois")
        units = await two.send(0, place)
        assert (await two.send(1, first)).same_as(units)
        done = await two.send(1, answered(first, units, "metric"))
        assert done.text is not None
        assert (await two.send(0, first)).text == done.text
        assert await two.effects() == {"audit": 1, "bill": 1}
        other = await two.send(0, replace(first, location="Tokyo"))
        assert (other.code, other.reason) == (types.INVALID_PARAMS, "call_key_reused")
        old = await two.send(0, replace(first, key=new_call_key(0.0)))
        assert (old.code, old.reason) == (types.INVALID_PARAMS, "call_key_expired")


async def test_a_key_is_too_old_before_its_call_may_be_deleted(shared_folder: Path) -> None:
    """A call is kept for a day from its end. A key from far ahead would still be good after that."""
    async with deployed("L", shared_folder) as two:
        for days, taken in (0.8, True), (0.95, False), (-0.05, True), (-0.5, False):
            key = new_call_key(time.time() - days * 24 * 3600)
            reply = await two.send(0, Request("Springfield", key=key))
            assert reply.reason == (None if taken else "call_key_expired")


async def test_a_refused_answer_leaves_its_question_open_under_the_key(shared_folder: Path) -> None:
    async with deployed("L", shared_folder) as two:
        first = Request("Springfield", key=new_call_key())
        asked = await two.send(0, first)
        refused = await two.send(0, answered(first, asked, "Springfield, Nowhere"))
        assert refused.code == types.INVALID_PARAMS
        assert (await two.send(1, first)).same_as(asked)


async def test_a_task_is_created_once(shared_folder: Path) -> None:
    async with deployed("K", shared_folder) as two:
        first = Request("Tokyo", key=new_call_key(), takes_tasks=True)
        ids = {(await two.send(instance, first)).task for instance in (0, 1, 0)}
        assert len(ids) == 1
        other = await two.send(0, replace(first, key=new_call_key()))
        assert other.task not in {None, *ids}
        refused = await two.send(0, replace(first, location="Springfield"))
        assert refused.reason == "call_key_reused"
        assert (await two.send(1, replace(first, takes_tasks=False))).code is not None


async def test_work_that_is_begun_again_since_its_process_died_is_not_wrong() -> None:
    subject = subject_named("Lᵏ")
    with anyio.fail_after(SECONDS):
        history = await run(subject, calling().under(parse("crash@audit1 back2")))
    assert wrong(subject, history) is None
