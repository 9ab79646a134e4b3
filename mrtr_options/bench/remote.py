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

from mrtr_options.bench.client import client_of, exchange
from mrtr_options.bench.deployments import HANG_SECONDS
from mrtr_options.bench.history import HUNG, Effect, Recording, Reply, Request
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
        hang_seconds: How long one request may take before it is called hung.
    """

    def __init__(
        self, url: str, ledger: weather.SqliteLedger, *, hang_seconds: float = HANG_SECONDS
    ) -> None:
        self.hang_seconds = hang_seconds
        self._url = url
        self._ledger = ledger
        self._before = self._effects_seen = 0
        self._clients: dict[bool, Client] = {}
        self.recording = Recording()

    name = "one"
    instances = 1

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[RemoteDeployment]:
        """Connect; disconnect with the block.

        Raises:
            CannotReach: Nothing answers there.
        """
        self._before = self._effects_seen = len(await self._ledger.effects())
        async with (
            client_of(self._url, Request()) as asking,
            client_of(self._url, Request(asks=False)) as silent,
        ):
            self._clients = {True: asking, False: silent}
            yield self

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        reply = Reply(nothing=HUNG)
        with anyio.move_on_after(self.hang_seconds):
            if request.era == "modern":
                reply = await exchange(self._clients[request.asks], request, gone)
            else:
                async with client_of(self._url, request, user) as client:
                    reply = await exchange(client, request, gone)
        await self.collect()
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

    async def collect(self) -> None:
        effects = await self._ledger.effects()
        for effect in effects[self._effects_seen :]:
            self.recording.append(Effect(None, None, effect))
        self._effects_seen = len(effects)

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
            async with Client(url, mode="auto") as client:
                await client.list_tools()
                answered = True
    except Exception as error:
        if not answered:
            raise CannotReach(f"no MCP server answers at {url}; start it, or correct the URL") from error
    if not answered:
        raise CannotReach(f"no MCP server answers at {url} in {CONNECT_SECONDS:.0f} seconds")
