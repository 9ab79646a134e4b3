"""The OpenAI Agents SDK's client for MCP, with its retries, which are off by default, switched on."""

from __future__ import annotations

from agents.mcp import MCPServerStreamableHttp
from jobs import Job, run


async def call(job: Job) -> None:
    """Make the call of a job."""
    async with MCPServerStreamableHttp(params={"url": job.url}, max_retry_attempts=2) as server:
        await server.list_tools()
        job.begins()
        try:
            result = await server.call_tool(job.tool, job.arguments)
        except Exception as error:
            job.raised(error)
        else:
            texts = [block.text for block in result.content if block.type == "text"]
            job.returned("".join(texts), result.is_error)
        try:
            await server.list_tools()
        except Exception as error:
            job.usable(error)
        else:
            job.usable()


if __name__ == "__main__":
    run(call)
