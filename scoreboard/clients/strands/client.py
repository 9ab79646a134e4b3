"""The client for MCP of Strands Agents, used as its documentation says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
from jobs import Job, run
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from strands.tools.mcp import MCPClient
from tokens import auth_of


async def call(job: Job) -> None:
    """Make the call of a job."""

    async def user(context: Any, params: Any) -> types.ElicitResult:
        answer = await job.answer(params.message, params.requested_schema["properties"])
        return types.ElicitResult(action="accept", content=answer)

    def connect() -> Any:
        # The provider of its version of `mcp` takes no issuer.
        auth = auth_of(job, names_issuer=False)
        http = create_mcp_http_client(auth=auth) if auth else None
        return streamable_http_client(job.url, http_client=http)

    client = MCPClient(connect, elicitation_callback=user)
    await anyio.to_thread.run_sync(client.start)

    async def ask() -> Any:
        result = await client.call_tool_async("1", job.tool, job.arguments)
        blocks = [
            SimpleNamespace(type="text", text=each.get("text", "")) for each in result["content"]
        ]
        return SimpleNamespace(content=blocks, is_error=result["status"] == "error")

    await job.make(ask, lambda: anyio.to_thread.run_sync(client.list_tools_sync))
    await anyio.to_thread.run_sync(client.stop, None, None, None)


if __name__ == "__main__":
    run(call)
