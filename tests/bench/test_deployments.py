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

from mrtr_options.bench import deployments
from mrtr_options.bench.deployments import MemoryDeployment, Request
from mrtr_options.bench.observations import Reply
from mrtr_options.bench.subjects import Column
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

E = Column(option_named("E"))


async def test_a_ctrl_c_while_an_instance_is_dead_is_not_taken_for_its_death(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = anyio.Event()

    async def never(client: Client, request: Request) -> Reply:
        waiting.set()
        await anyio.sleep_forever()
        raise AssertionError("went on")

    monkeypatch.setattr(deployments, "exchange", never)
    with anyio.fail_after(SECONDS):
        async with MemoryDeployment(E, 1, shared_folder).running() as deployment:
            call = asyncio.ensure_future(deployment.send(0, Request("Tokyo")))
            await waiting.wait()
            deployment.ledger.death = asyncio.CancelledError()
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

    monkeypatch.setattr(deployments, "client_of", interrupted)
    monkeypatch.setattr(deployments, "HANG_SECONDS", 2 * SECONDS)
    with anyio.fail_after(SECONDS), pytest.RaisesGroup(ZeroDivisionError):
        async with MemoryDeployment(E, 1, shared_folder).running():
            pass
