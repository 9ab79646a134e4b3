"""The end of a server process: requests at work get an answer, and the process ends in bounded time.

Knows the SDK's middleware and threads; nothing of the tool.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import Counter
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_types import INTERNAL_ERROR

GRACE_SECONDS = 5.0
"""How long requests at work have to end after the signal, before they are answered with an error."""
EXIT_SECONDS = 20.0
"""How long after the signal a process has ended at the latest, whatever still runs in it."""


class Requests:
    """Server middleware, the outermost: knows the requests at work, and can end each with an answer."""

    def __init__(self) -> None:
        self._at_work: dict[anyio.CancelScope, str] = {}
        self._none = anyio.Event()
        self._ended = False

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:  # a notification
            return await call_next(ctx)
        if self._ended:
            raise _shutting_down()
        with anyio.CancelScope() as scope:
            self._at_work[scope] = _name_of(ctx)
            try:
                return await call_next(ctx)
            finally:
                del self._at_work[scope]
                if not self._at_work:
                    self._none.set()
        raise _shutting_down()

    def at_work(self) -> Counter[str]:
        """How many requests there are of each tool, or of each method that is not of a tool."""
        return Counter(self._at_work.copy().values())

    async def all_done(self) -> None:
        """Wait until there are none."""
        while self._at_work:
            self._none = anyio.Event()
            await self._none.wait()

    def end(self) -> None:
        """Cancel every request, and answer it and all that come now with an error that says so."""
        self._ended = True
        for scope in list(self._at_work):
            scope.cancel()


def _name_of(ctx: ServerRequestContext[Any, Any]) -> str:
    name = (ctx.params or {}).get("name")
    return repr(name[:40]) if isinstance(name, str) else ctx.method


def _shutting_down() -> MCPError:
    return MCPError(
        INTERNAL_ERROR,
        "This server is shutting down and has ended this request. Effects of it may have happened."
        " Send the same request again: another instance takes it, or this one after its restart.",
        {"reason": "shutting_down"},
    )


def end_process_in(seconds: float, requests: Requests, loop: asyncio.AbstractEventLoop) -> None:
    """End this process after this time with exit code 1, unless it has ended by itself.

    Args:
        seconds: From now.
        requests: Those that may be left; named on standard error then.
        loop: Whose tasks may be left.
    """

    def end() -> None:
        left = [f"requests of {name}: {number}" for name, number in requests.at_work().items()]
        left.append(f"tasks: {len(asyncio.all_tasks(loop))}")
        left.append(f"threads: {sum(not each.daemon for each in threading.enumerate()) - 1}")
        print(
            f"mrtr-options: ended {seconds:g} s after the signal, with work left: {', '.join(left)}",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
