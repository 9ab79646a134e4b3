"""Option L on real processes that are killed, paused and redeployed, on SQLite and on PostgreSQL."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from mrtr_options.bench.deployments.processes import ProcessInstances
from mrtr_options.bench.history import LOST, Reply, Request
from mrtr_options.bench.subjects import Subject
from mrtr_options.tool.catalogue import Option, option_at, option_named
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


ILLINOIS = "Springfield, Illinois: 22 °C, partly cloudy."
ANSWERS: dict[str, dict[str, Any]] = {
    "place": {"place": "Springfield, Illinois"},
    "units": {"units": "metric"},
}


LEASE = """
from functools import partial

from mrtr_options.sdk.durable import Engine

Engine.opened = partial(Engine.opened, lease_seconds=2.0)
"""
"""Has a process that died be noticed soon where nothing but its lease tells."""


@asynccontextmanager
async def fleet(
    folder: Path, url: str, option: Option | None = None, *, honours_keys: bool = False
) -> AsyncGenerator[ProcessInstances]:
    """Two server processes that share the keys, the ledger file and the database."""
    if option is None:
        file = folder / "option_l_durable.py"
        build = "\nserver = build_server("
        code = option_named("L").path.read_text(encoding="utf-8")
        assert build in code
        file.write_text(code.replace(build, LEASE + build), encoding="utf-8")
        option = option_at(file)
    column = Subject(option)
    deployment = ProcessInstances(column, folder, database=url, honours_keys=honours_keys)
    with anyio.fail_after(4 * SECONDS):
        async with deployment.running():
            yield deployment


def answering(asked: Reply) -> Request:
    """The round with the answer to what was asked, or with nothing but the state."""
    assert asked.state is not None, f"this did not ask: {asked}"
    answers: types.InputResponses = {
        key: types.ElicitResult(action="accept", content=ANSWERS[key]) for key in asked.questions
    }
    return Request("Springfield", answers or None, asked.state)


async def settled(processes: ProcessInstances, instance: int, request: Request) -> Reply:
    """A round, and on from there for as long as the server says that it is not done yet."""
    reply = await processes.send(instance, request)
    while reply.state is not None and not reply.questions:
        reply = await processes.send(instance, Request("Springfield", None, reply.state))
    return reply


def freeze(processes: ProcessInstances, instance: int, url: str) -> None:
    """Stop a process where it does not hold a SQLite file that the other one writes to."""
    while True:
        processes.signal(instance, signal.SIGSTOP)
        if not url.startswith("sqlite"):
            return
        try:
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=1)) as db:
                db.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            processes.signal(instance, signal.SIGCONT)


async def test_killed_between_rounds_and_the_other_process_finishes(
    shared_folder: Path, url: str
) -> None:
    async with fleet(shared_folder, url) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        assert list(first.questions) == ["place"]
        await processes.kill(0)
        second = await settled(processes, 1, answering(first))
        assert list(second.questions) == ["units"]
        assert (await settled(processes, 1, answering(second))).text == ILLINOIS
        assert await processes.effects() == {"audit": 1, "bill": 1}


@pytest.mark.parametrize(
    ("url", "fate"), [("sqlite", "paused"), ("postgres", "killed")], indirect=["url"]
)
async def test_stopped_in_the_middle_of_a_round_and_the_other_process_finishes(
    shared_folder: Path, url: str, fate: str
) -> None:
    async with fleet(shared_folder, url) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        second = await settled(processes, 1, answering(first))
        freeze(processes, 0, url)  # the call is there, and gets no further
        if fate == "killed":
            await processes.kill(0)
        reply = await settled(processes, 1, answering(second))
        assert reply.text == ILLINOIS
        if fate == "paused":
            processes.signal(0, signal.SIGCONT)
            assert (await settled(processes, 0, answering(second))).text == ILLINOIS
        assert (await settled(processes, 1, answering(second))).text == ILLINOIS
        assert await processes.effects() == {"audit": 1, "bill": 1}


@pytest.mark.parametrize("honours_keys", [False, True], ids=["naive", "honours-keys"])
async def test_killed_between_effect_and_record_runs_the_effect_again(
    shared_folder: Path, url: str, honours_keys: bool
) -> None:
    async with fleet(shared_folder, url, honours_keys=honours_keys) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        second = await settled(processes, 1, answering(first))
        await processes.arm("crash@bill")
        assert (await settled(processes, 0, answering(second))).nothing == LOST
        await processes.arm(None)
        assert (await settled(processes, 1, answering(second))).text == ILLINOIS
        assert await processes.effects() == {"audit": 1, "bill": 1 if honours_keys else 2}


async def test_a_redeploy_with_changed_code_refuses_the_calls_of_the_old(
    shared_folder: Path, url: str
) -> None:
    code = option_named("L").path.read_text(encoding="utf-8")
    file = shared_folder / "option_l_durable.py"
    file.write_text(code, encoding="utf-8")
    async with fleet(shared_folder, url, option_at(file)) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        file.write_text(code.replace('"bill", lambda', '"meter", lambda'), encoding="utf-8")
        await processes.restart("same")
        reply = await processes.send(0, answering(first))
        assert reply.code == types.INVALID_PARAMS
        assert "another version" in (reply.message or "")
        assert await processes.effects() == {"audit": 1, "bill": 0}
