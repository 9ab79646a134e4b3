"""This project's own stand-in for a client, used as its documentation says."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from jobs import Job, run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from mrtr_options.sdk.resuming import ResumingClient


async def call(job: Job) -> None:
    """Make the call of a job."""

    async def user(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        answer = await job.answer(params.message, params.requested_schema["properties"])
        return types.ElicitResult(action="accept", content=answer)

    def connect() -> Client:
        server: Any = job.url
        if job.command:
            program, *arguments = job.command
            server = stdio_client(StdioServerParameters(command=program, args=arguments))
        mode = "legacy" if job.era == "legacy" else "auto"
        return Client(server, mode=mode, elicitation_callback=user)

    async with ResumingClient(connect) as client:
        job.begins()
        try:
            result = await client.call_tool(job.tool, job.arguments)
        except Exception as error:
            job.raised(error)
        else:
            texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
            job.returned("".join(texts), result.is_error or False)
        try:
            await client.use(lambda connected: connected.list_tools())
        except Exception as error:
            job.usable(error)
        else:
            job.usable()


if __name__ == "__main__":
    run(call)
