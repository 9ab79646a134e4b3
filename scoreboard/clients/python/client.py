"""The official Python SDK's client, used as its documentation says."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from jobs import Job, run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tokens import auth_of


@asynccontextmanager
async def signed_in(job: Job) -> AsyncGenerator[Any]:
    """Connect with a token, which the provider gets and renews."""
    async with (
        create_mcp_http_client(auth=auth_of(job)) as http,
        streamable_http_client(job.url, http_client=http) as streams,
    ):
        yield streams


def client_of(job: Job) -> Client:
    """Return a client for the call of a job."""

    async def user(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        answer = await job.answer(params.message, params.requested_schema["properties"])
        return types.ElicitResult(action="accept", content=answer)

    server: Any = job.url
    if job.command:
        program, *arguments = job.command
        server = stdio_client(StdioServerParameters(command=program, args=arguments))
    if job.issuer:
        server = signed_in(job)
    mode = "legacy" if job.era == "legacy" else "auto"
    return Client(server, mode=mode, elicitation_callback=user)


async def call(job: Job) -> None:
    """Make the call of a job."""
    async with client_of(job) as client:
        await job.make(lambda: client.call_tool(job.tool, job.arguments), client.list_tools)


if __name__ == "__main__":
    run(call)
