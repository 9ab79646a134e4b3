"""LangChain's adapters for MCP, used as documented: a tool opens a session for each call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jobs import Job, run
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult
from tokens import auth_of


async def call(job: Job) -> None:
    """Make the call of a job."""

    async def user(session: Any, params: Any, context: Any) -> ElicitResult:
        answer = await job.answer(params.message, params.requestedSchema["properties"])
        return ElicitResult(action="accept", content=answer)

    connections: Any = {"here": {"url": job.url, "transport": "http", "auth": auth_of(job)}}
    client = MultiServerMCPClient(connections, callbacks=Callbacks(on_elicitation=user))
    (tool,) = [tool for tool in await client.get_tools() if tool.name == job.tool]

    async def invoke() -> Any:
        wanted = {"type": "tool_call", "id": "1", "name": job.tool, "args": job.arguments}
        message = await tool.ainvoke(wanted)
        blocks = [SimpleNamespace(**block) for block in message.content]
        return SimpleNamespace(content=blocks, is_error=message.status == "error")

    await job.make(invoke, client.get_tools)


if __name__ == "__main__":
    run(call)
