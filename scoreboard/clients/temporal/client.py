"""A workflow of Temporal that calls MCP's tools by activities, used as documented.

The workflow does what the runner of OpenAI Agents does with a tool call of its model.
"""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

import anyio
from agents.mcp import MCPServerStreamableHttp
from jobs import Job, serve
from mcp.types import CallToolResult
from temporalio import workflow
from temporalio.client import Client
from temporalio.openai_agents import OpenAIAgentsPlugin
from temporalio.openai_agents.workflow import temporal_mcp_server
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from tokens import auth_of

SERVER = "here"
QUEUE = "weather"
NUMBERS = itertools.count()
JOBS: dict[int, Job] = {}
"""The jobs, whose servers the worker calls, by number."""


@workflow.defn
class Call:
    @workflow.run
    async def run(self, number: int, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        server = temporal_mcp_server(SERVER, factory_argument=number)
        return await server.call_tool(tool, arguments)


@workflow.defn
class ListTools:
    @workflow.run
    async def run(self, number: int) -> list[str]:
        tools = await temporal_mcp_server(SERVER, factory_argument=number).list_tools()
        return [tool.name for tool in tools]


async def call(client: Client, job: Job) -> None:
    """Make the call of a job: each call, and each list, is a workflow of its own."""
    JOBS[job.id] = job

    async def ask() -> CallToolResult:
        arguments = [job.id, job.tool, job.arguments]
        return await client.execute_workflow(Call.run, args=arguments, id=name(), task_queue=QUEUE)

    async def list_tools() -> list[str]:
        return await client.execute_workflow(ListTools.run, job.id, id=name(), task_queue=QUEUE)

    await job.make(ask, list_tools)


def name() -> str:
    """Return a new name for a workflow."""
    return f"workflow-{next(NUMBERS)}"


def server(number: Any) -> MCPServerStreamableHttp:
    """Return the client of the server of a job."""
    job = JOBS[number]
    return MCPServerStreamableHttp(params={"url": job.url, "auth": auth_of(job)}, name=SERVER)


async def main(port: int) -> None:
    """Run a worker, and make the calls that are asked for."""
    plugin = OpenAIAgentsPlugin(mcp_servers={SERVER: server})
    client = await Client.connect(f"127.0.0.1:{port}", plugins=[plugin])
    flows: Any = [Call, ListTools]
    async with Worker(
        client, task_queue=QUEUE, workflows=flows, workflow_runner=UnsandboxedWorkflowRunner()
    ):
        await serve(functools.partial(call, client))


if __name__ == "__main__":
    os.environ["OPENAI_API_KEY"] = "none: no model is asked"
    anyio.run(main, int(os.environ["MRTR_PORT"]))
