"""FastMCP's client, used as its documentation says."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.auth import ClientCredentialsOAuthProvider
from fastmcp.client.transports import StdioTransport
from jobs import CREDENTIALS, Job, run


async def call(job: Job) -> None:
    """Make the call of a job."""

    async def user(
        message: str, response_type: Any, params: types.ElicitRequestParams, context: Any
    ) -> Any:
        assert isinstance(params, types.ElicitRequestFormParams)
        return await job.answer(message, params.requested_schema["properties"])

    server = StdioTransport(job.command[0], job.command[1:]) if job.command else job.url
    mode = "legacy" if job.era == "legacy" else "auto"
    auth = ClientCredentialsOAuthProvider(**CREDENTIALS, issuer=job.issuer) if job.issuer else None
    async with Client(server, mode=mode, elicitation_handler=user, auth=auth) as client:
        await job.make(
            lambda: client.call_tool(job.tool, job.arguments, raise_on_error=False),
            client.list_tools,
        )


if __name__ == "__main__":
    run(call)
