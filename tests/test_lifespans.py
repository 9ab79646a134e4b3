"""Tests of the resources of a server: connections open them once and close them in order."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from mrtr_options import sdk
from mrtr_options.sdk.testing import client as client_of
from mrtr_options.sdk.testing import served
from tests.restaurant import answering, tool
from tests.sdk.fakes import until

pytestmark = pytest.mark.anyio


both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Held:
    """A resource that opens and closes only when it may."""

    def __init__(self) -> None:
        self.log = list[str]()
        self.may_open = anyio.Event()
        self.may_close = anyio.Event()

    @asynccontextmanager
    async def __call__(self, *_: object, **__: object) -> AsyncGenerator[None]:
        self.log.append("opens")
        await self.may_open.wait()
        self.log.append("open")
        try:
            yield
        finally:
            self.log.append("closes")
            await self.may_close.wait()
            self.log.append("closed")


Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


def lifespan_of(*resources: Any) -> Lifespan:
    """Return the lifespan that every connection of a server with these resources enters."""
    server = sdk.build_server("restaurant", tool(), resources=resources)
    return lambda: server.lifespan(server)


async def connection(lifespan: Lifespan, log: list[str], stay: anyio.Event) -> None:
    async with lifespan():
        log.append("in")
        await stay.wait()


@both_loops
async def test_a_connection_that_comes_during_the_cleanup_finds_what_is_held_open() -> None:
    held = Held()
    leave = anyio.Event()
    stay = anyio.Event()
    held.may_open.set()
    lifespan = lifespan_of(held)
    async with anyio.create_task_group() as group:
        group.start_soon(connection, lifespan, held.log, leave)
        await until(lambda: "in" in held.log)
        leave.set()
        await until(lambda: "closes" in held.log)
        group.start_soon(connection, lifespan, held.log, stay)
        await anyio.wait_all_tasks_blocked()
        held.may_close.set()
        await until(lambda: held.log.count("in") == 2)
        stay.set()
    assert held.log == ["opens", "open", "in", "closes", "closed"] * 2


@both_loops
async def test_a_resource_that_fails_to_open_closes_those_before_it_and_can_be_tried_again() -> (
    None
):
    held = Held()
    held.may_open.set()
    held.may_close.set()
    fails = [True]

    @asynccontextmanager
    async def second(*_: object, **__: object) -> AsyncGenerator[None]:
        if fails.pop():
            raise OSError("no database")
        fails.append(False)
        yield

    lifespan = lifespan_of(held, second)
    with pytest.raises(OSError, match="no database"):
        async with lifespan():
            raise AssertionError("the lifespan opened without its database")
    assert held.log == ["opens", "open", "closes", "closed"]
    fails.append(False)
    async with lifespan():
        held.log.append("in")
    assert held.log[4:] == ["opens", "open", "in", "closes", "closed"]


@pytest.mark.parametrize("raised", [ValueError("odd"), pytest.fail.Exception("not as expected")])
async def test_what_a_block_raises_comes_out_when_its_server_has_ended_in_order(
    raised: BaseException,
) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def resource() -> AsyncGenerator[None]:
        yield
        ended.append("in order")

    async def block() -> None:
        async with served(sdk.build_server("restaurant", tool(), resources=[resource()])) as url:
            async with client_of(url, answering()) as caller:
                await caller.list_tools()
            raise raised

    with pytest.raises(type(raised)) as told:
        await block()
    assert told.value is raised
    assert ended == ["in order"]


@both_loops
async def test_two_first_connections_open_what_is_held_once_and_close_it_when_cut_off() -> None:
    held = Held()
    held.may_close.set()
    lifespan = lifespan_of(held)
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(connection, lifespan, held.log, anyio.Event())
        await until(lambda: bool(held.log))
        held.may_open.set()
        await until(lambda: held.log.count("in") == 2)
        group.cancel_scope.cancel()
    assert held.log == ["opens", "open", "in", "in", "closes", "closed"]
