"""What a server holds while it has connections: opened once, closed once, whoever comes and goes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest

from mrtr_options.tool.server import build_server, text
from mrtr_options.tool.settings import configured
from tests.bounds import SECONDS
from tests.rounds import settings
from tests.sdk.fakes import until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops."""
    return request.param


class Held:
    """A resource whose opening and closing take until they are let go."""

    def __init__(self) -> None:
        self.log: list[str] = []
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


def lifespan_of(*resources: Any) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """What every connection of a server with these resources enters."""

    async def handler(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return text("")

    with configured(settings()):
        server = build_server("weather-held", handler, resources=resources)
    return lambda: server.lifespan(server)


async def connection(
    lifespan: Callable[[], AbstractAsyncContextManager[Any]], log: list[str], stay: anyio.Event
) -> None:
    """Is there until it is told to leave."""
    async with lifespan():
        log.append("in")
        await stay.wait()


async def test_two_first_connections_open_what_is_held_once_and_close_it_when_cut_off() -> None:
    held = Held()
    held.may_close.set()
    lifespan = lifespan_of(held)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(connection, lifespan, held.log, anyio.Event())
            await until(lambda: bool(held.log))
            held.may_open.set()
            await until(lambda: held.log.count("in") == 2)
            group.cancel_scope.cancel()
    assert held.log == ["opens", "open", "in", "in", "closes", "closed"]


async def test_a_connection_that_comes_during_the_cleanup_finds_what_is_held_open() -> None:
    held, leave, stay = Held(), anyio.Event(), anyio.Event()
    held.may_open.set()
    lifespan = lifespan_of(held)
    with anyio.fail_after(SECONDS):
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
    once = ["opens", "open", "in", "closes", "closed"]
    assert held.log == once * 2


async def test_a_resource_that_fails_to_open_closes_those_before_it_and_can_be_tried_again() -> None:
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
    with anyio.fail_after(SECONDS):
        with pytest.raises(OSError, match="no database"):
            async with lifespan():
                raise AssertionError("was opened")
        assert held.log == ["opens", "open", "closes", "closed"]
        fails.append(False)
        async with lifespan():
            held.log.append("in")
    assert held.log[4:] == ["opens", "open", "in", "closes", "closed"]
