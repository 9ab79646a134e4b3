"""Tests of the client's connection, which is replaced when it breaks."""

import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options.sdk.resuming.connection import BadResponse, CannotConnect, Connection, Lost, Use
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("broken", "leaves", "lost"),
    [
        (OSError("the cable was pulled"), False, Lost),
        (httpx2.ConnectError("the cable was pulled"), False, CannotConnect),
        (httpx2.ConnectError("the cable was pulled"), True, Lost),
    ],
)
async def test_a_connection_that_broke_is_replaced(
    broken: Exception, leaves: bool, lost: type[Lost]
) -> None:
    made: list[anyio.Event] = []

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Any]:
        made.append(anyio.Event())

        async def break_off(breaks: anyio.Event) -> None:
            await breaks.wait()
            raise broken

        async with anyio.create_task_group() as group:
            group.start_soon(break_off, made[-1])
            yield SimpleNamespace(session=None)
            group.cancel_scope.cancel()

    async def breaks(client: Client) -> None:
        made[-1].set()
        await anyio.sleep_forever()

    async def is_left(client: Client) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    async def answers_oddly(client: Client) -> None:
        types.CallToolResult.model_validate({"content": 7})

    async def works(client: Client) -> str:
        return "works"

    async with anyio.create_task_group() as group:
        connection = Connection(cast("Any", connect), group, SECONDS)
        with anyio.fail_after(SECONDS):
            with anyio.CancelScope() as scope:
                if leaves:
                    await connection.use(is_left)
            with pytest.raises(Lost, match="the cable was pulled") as told:
                await connection.use(breaks)
            assert told.type is lost
            with pytest.raises(BadResponse, match="not of the protocol: content"):
                await connection.use(answers_oddly)
            assert await connection.use(works) == "works"
            assert len(made) == 2
        group.cancel_scope.cancel()


async def test_what_is_to_go_through_a_connection_that_is_closing_is_not_sent() -> None:
    broken, closed = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Any]:
        async def break_off() -> None:
            await broken.wait()
            raise OSError("the cable was pulled")

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(break_off)
                yield SimpleNamespace(session=None)
        finally:
            with anyio.CancelScope(shield=True):
                await closed.wait()

    async def breaks(client: Client) -> None:
        broken.set()
        await anyio.sleep_forever()

    async def is_sent(client: Client) -> None:
        raise AssertionError

    async def lose() -> None:
        with pytest.raises(Lost, match="the cable was pulled"):
            await connection.use(breaks)

    async with anyio.create_task_group() as group:
        connection = Connection(cast("Any", connect), group, SECONDS)
        group.start_soon(lose)
        await anyio.wait_all_tasks_blocked()
        try:
            with pytest.raises(CannotConnect, match="about to be replaced"):
                await connection.use(is_sent)
        finally:
            closed.set()


@asynccontextmanager
async def _fine() -> AsyncGenerator[Any]:
    yield SimpleNamespace(session=None)


async def test_a_late_loss_on_an_old_connection_leaves_the_new_one() -> None:
    late = anyio.Event()

    async def loses_at_once(client: Client) -> None:
        raise MCPError(types.CONNECTION_CLOSED, "closed")

    async def loses_late(client: Client) -> None:
        await late.wait()
        raise MCPError(types.CONNECTION_CLOSED, "closed")

    async def itself(client: Client) -> Client:
        return client

    async def lose(use: Use[None]) -> None:
        with pytest.raises(Lost, match="closed"):
            await connection.use(use)

    async with anyio.create_task_group() as group:
        connection = Connection(cast("Any", _fine), group, SECONDS)
        group.start_soon(lose, loses_late)
        await anyio.wait_all_tasks_blocked()
        await lose(loses_at_once)
        new = await connection.use(itself)
        late.set()
        await anyio.wait_all_tasks_blocked()
        assert await connection.use(itself) is new
        group.cancel_scope.cancel()


async def test_what_its_caller_left_is_not_held() -> None:
    async def leave() -> weakref.ref[Any]:
        async def waits(client: Client) -> None:
            scope.cancel()
            await anyio.sleep_forever()

        with anyio.CancelScope() as scope:
            await connection.use(waits)
        return weakref.ref(waits)

    async with anyio.create_task_group() as group:
        connection = Connection(cast("Any", _fine), group, SECONDS)
        left = await leave()
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        assert left() is None
        group.cancel_scope.cancel()
