"""The official Python SDK's client, used as its documentation says."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from jobs import CREDENTIALS, Job, run
from mcp import Client, StdioServerParameters
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


class Tokens:
    """Keeps the tokens in memory."""

    token: Any = None

    async def get_tokens(self) -> Any:
        return self.token

    async def set_tokens(self, tokens: Any) -> None:
        self.token = tokens

    async def get_client_info(self) -> None:
        return None

    async def set_client_info(self, client_info: Any) -> None:
        pass


@asynccontextmanager
async def signed_in(url: str, issuer: str) -> AsyncGenerator[Any]:
    """Connect with a token, which the provider gets and renews."""
    auth = ClientCredentialsOAuthProvider(url, Tokens(), **CREDENTIALS, issuer=issuer)
    async with (
        create_mcp_http_client(auth=auth) as http,
        streamable_http_client(url, http_client=http) as streams,
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
        server = signed_in(job.url, job.issuer)
    mode = "legacy" if job.era == "legacy" else "auto"
    return Client(server, mode=mode, elicitation_callback=user)


async def call(job: Job) -> None:
    """Make the call of a job."""
    async with client_of(job) as client:
        await job.make(lambda: client.call_tool(job.tool, job.arguments), client.list_tools)


if __name__ == "__main__":
    run(call)
