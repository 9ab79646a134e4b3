"""Instances in memory: they end with their block, whatever ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mrtr_options.bench.deployments import memory
from mrtr_options.bench.deployments.memory import MemoryInstances
from mrtr_options.bench.history import Reply, Request
from mrtr_options.bench.subjects import Subject
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

E = Subject(option_named("E"))


async def test_a_ctrl_c_while_an_instance_is_dead_is_not_taken_for_its_death(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = anyio.Event()

    async def never(client: Client, request: Request, gone: anyio.Event | None) -> Reply:
        waiting.set()
        await anyio.sleep_forever()
        raise AssertionError("went on")

    monkeypatch.setattr(memory, "exchange", never)
    with anyio.fail_after(SECONDS):
        async with MemoryInstances(E, 1, shared_folder).running() as deployment:
            call = asyncio.ensure_future(deployment.send(0, Request("Tokyo")))
            await waiting.wait()
            deployment.death = asyncio.CancelledError()
            call.cancel()  # what asyncio does at a Ctrl-C
            with pytest.raises(asyncio.CancelledError):
                await call


async def test_an_instance_that_cannot_end_as_it_should_is_not_waited_for(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def interrupted(*arguments: Any) -> AsyncGenerator[None]:
        yield
        raise ZeroDivisionError

    monkeypatch.setattr(memory, "client_of", interrupted)
    with anyio.fail_after(SECONDS), pytest.RaisesGroup(ZeroDivisionError):
        async with MemoryInstances(E, 1, shared_folder, hang_seconds=2 * SECONDS).running():
            pass
