"""An agent of Pydantic AI with MCP's tools, used as documented; its model is a script."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.auth import ClientCredentialsOAuthProvider
from jobs import CREDENTIALS, Job, run
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


async def call(job: Job) -> None:
    """Make the call of a job."""

    async def user(message: str, response_type: Any, params: Any, context: Any) -> Any:
        assert isinstance(params, types.ElicitRequestFormParams)
        return await job.answer(message, params.requested_schema["properties"])

    def model(messages: list[Any], info: Any) -> ModelResponse:
        """Call the tool, call it again after a retry, and end with its result."""
        parts = [part for message in messages for part in message.parts]
        returned = [part for part in parts if isinstance(part, ToolReturnPart)]
        if returned and returned[-1].outcome != "retried":
            return ModelResponse(parts=[TextPart(str(returned[-1].content))])
        return ModelResponse(parts=[ToolCallPart(job.tool, job.arguments)])

    mode = "legacy" if job.era == "legacy" else "auto"
    auth = ClientCredentialsOAuthProvider(**CREDENTIALS, issuer=job.issuer) if job.issuer else None
    toolset = MCPToolset(Client(job.url, mode=mode, elicitation_handler=user, auth=auth))
    agent = Agent(FunctionModel(model), toolsets=[toolset])

    async def ask() -> Any:
        result = await agent.run("The weather, please.")
        block = SimpleNamespace(type="text", text=result.output)
        return SimpleNamespace(content=[block], is_error=False)

    async with agent:
        await job.make(ask, toolset.list_tools)


if __name__ == "__main__":
    run(call)
