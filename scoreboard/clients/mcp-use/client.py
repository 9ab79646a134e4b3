"""The client of mcp-use in Python, used as its documentation says.

Each call has an event loop of its own: a lost connection cancels the task that opened the session,
and with it what else the loop runs.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
from jobs import Job, run
from mcp.types import ElicitResult
from mcp_use import MCPClient
from tokens import auth_of


async def call(job: Job) -> None:
    """Make the call of a job, in a loop of its own."""
    await anyio.to_thread.run_sync(functools.partial(anyio.run, call_here, job))


async def call_here(job: Job) -> None:
    """Make the call of a job in this loop."""

    async def user(context: Any, params: Any) -> ElicitResult:
        answer = await job.answer(params.message, params.requestedSchema["properties"])
        return ElicitResult(action="accept", content=answer)

    config: Any = {"mcpServers": {"here": {"url": job.url, "auth": auth_of(job)}}}
    client = MCPClient(config, elicitation_callback=user)
    session = await client.create_session("here")

    async def ask() -> Any:
        result = await session.call_tool(job.tool, job.arguments)
        return SimpleNamespace(content=result.content, is_error=result.isError)

    await job.make(ask, session.list_tools)
    await client.close_all_sessions()


if __name__ == "__main__":
    run(call)
