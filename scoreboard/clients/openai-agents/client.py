"""The OpenAI Agents SDK's client for MCP, used as its documentation says."""

from __future__ import annotations

from agents.mcp import MCPServerStreamableHttp
from jobs import RETRYING, Job, run
from tokens import auth_of


async def call(job: Job) -> None:
    """Make the call of a job."""
    retries = 2 if RETRYING else 0
    async with MCPServerStreamableHttp(
        params={"url": job.url, "auth": auth_of(job)}, max_retry_attempts=retries
    ) as server:
        await server.list_tools()
        await job.make(lambda: server.call_tool(job.tool, job.arguments), server.list_tools)


if __name__ == "__main__":
    run(call)
