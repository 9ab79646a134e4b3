"""A running server, in any language, as a deployment: reached by URL, its effects read from a file.

What can be done to it is what any client can do. It cannot be restarted, aged, crashed or told who is
calling, so the schedules that need that are left out (`can_play`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from mcp import Client
from mcp.client.session import ElicitationFnT

from mrtr_options.bench.deployments import (
    HANG_SECONDS,
    Request,
    client_of,
    exchange,
    until_gone,
    unused,
)
from mrtr_options.bench.observations import HUNG, Reply
from mrtr_options.bench.observe import MODES
from mrtr_options.bench.schedules import Change, Fault, Redeploy, Restart, Schedule, Send, Wait
from mrtr_options.tool import weather

CONNECT_SECONDS = 30.0


class CannotReach(Exception):
    """There is no such server. The text is one line that says what to do."""


def can_play(schedule: Schedule) -> bool:
    """Whether a schedule can be played on a server that is only reached by URL."""
    bare = not (schedule.has_fault or schedule.honours_keys or schedule.takes_tasks)
    return bare and not any(
        isinstance(step, Restart | Redeploy | Wait)
        or (isinstance(step, Send) and step.principal != "alice")
        for step in (*schedule.script, *schedule.legacy)
    )


class RemoteDeployment:
    """One server somewhere else.

    Args:
        url: Its MCP endpoint.
        ledger: The SQLite file that it counts effects in.
    """

    def __init__(self, url: str, ledger: weather.SqliteLedger) -> None:
        self._url = url
        self._ledger = ledger
        self._before = 0
        self._clients: dict[bool, Client] = {}

    name = "one"
    instances = 1

    @property
    def entries(self) -> dict[str, int]:
        return {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[RemoteDeployment]:
        """Connect; disconnect with the block.

        Raises:
            CannotReach: Nothing answers there.
        """
        self._before = len(await self._ledger.effects())
        async with (
            client_of(self._url, (True, False)) as asking,
            client_of(self._url, (False, False)) as silent,
        ):
            self._clients = {True: asking, False: silent}
            yield self

    async def send(self, instance: int, request: Request) -> Reply:
        with anyio.move_on_after(HANG_SECONDS):
            return await exchange(self._clients[request.asks], request)
        return Reply(nothing=HUNG)

    async def call_legacy(self, location: str, user: ElicitationFnT | None, gone: anyio.Event) -> Reply:
        reply = Reply(nothing=HUNG)
        with anyio.move_on_after(HANG_SECONDS):
            async with Client(self._url, mode=MODES["legacy"], elicitation_callback=user) as client:
                reply = await until_gone(client, Request(location), gone)
        return reply

    async def restart(self, keys: Literal["same", "rotated", "new"]) -> None:
        raise NotImplementedError("a server reached by URL is not ours to restart")

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        raise NotImplementedError("a server reached by URL is not ours to change")

    async def arm(self, fault: Fault | None, only: int | None = None) -> None:
        if fault is not None:
            raise NotImplementedError("a server reached by URL cannot be made to fail")

    def wait(self, seconds: float) -> None:
        raise NotImplementedError("a server reached by URL keeps its own time")

    async def effects(self) -> dict[weather.EffectKind, int]:
        return weather.count((await self._ledger.effects())[self._before :])


async def reach(url: str) -> None:
    """Find out whether a server of the modern era answers.

    Raises:
        CannotReach: It does not, within `CONNECT_SECONDS`.
    """
    answered = False
    try:
        with anyio.move_on_after(CONNECT_SECONDS):
            async with Client(url, mode="auto", elicitation_callback=unused) as client:
                await client.list_tools()
                answered = True
    except Exception as error:
        if not answered:
            raise CannotReach(f"no MCP server answers at {url}; start it, or correct the URL") from error
    if not answered:
        raise CannotReach(f"no MCP server answers at {url} in {CONNECT_SECONDS:.0f} seconds")
