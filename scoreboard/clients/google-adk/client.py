"""An agent of Google ADK with MCP's tools, used as documented; its model is a script."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mcp_types
from google.adk import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from jobs import Job, run


class Scripted(BaseLlm):
    """A model that calls the tool once, and ends."""

    call: types.Part

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        has_response = any(part.function_response for part in parts)
        part = types.Part(text="The end.") if has_response else self.call
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def call(job: Job) -> None:
    """Make the call of a job."""

    async def user(context: Any, params: Any) -> mcp_types.ElicitResult:
        answer = await job.answer(params.message, params.requested_schema["properties"])
        return mcp_types.ElicitResult(action="accept", content=answer)

    where = StreamableHTTPConnectionParams(url=job.url)
    toolset = McpToolset(connection_params=where, elicitation_callback=user)
    wanted = types.Part(function_call=types.FunctionCall(name=job.tool, args=job.arguments))
    model = Scripted(model="scripted", call=wanted)
    runner = InMemoryRunner(agent=Agent(name="weather", model=model, tools=[toolset]))
    session = await runner.session_service.create_session(
        app_name=runner.app_name, user_id="the-user"
    )

    async def ask() -> Any:
        message = types.Content(role="user", parts=[types.Part(text="The weather, please.")])
        where = {"user_id": session.user_id, "session_id": session.id}
        events = [event async for event in runner.run_async(**where, new_message=message)]
        (result,) = [each.response for event in events for each in event.get_function_responses()]
        if "error" in result:
            result = {"content": [{"type": "text", "text": result["error"]}], "isError": True}
        blocks = [SimpleNamespace(**block) for block in result["content"]]
        return SimpleNamespace(content=blocks, is_error=result.get("isError", False))

    await job.make(ask, toolset.get_tools)
    await toolset.close()


if __name__ == "__main__":
    run(call)
