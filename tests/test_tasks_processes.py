"""Option K on a real process on a SQLite file, which may be killed at any time and is started again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import LATEST_MODERN_VERSION

from examples.tasks_client import TasksClient, cancel_task, get_task, update_task
from mrtr_options.bench.client import agreeable
from mrtr_options.bench.deployments.processes import ProcessInstances
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Subject
from mrtr_options.sdk.serving import PATH
from mrtr_options.sdk.tasks.wire import IDENTIFIER, CreateTaskResult, Task, TaskFields
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, option_named
from mrtr_options.tool.server import TOOL
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ILLINOIS = "Springfield, Illinois: 22 °C, partly cloudy."
LOCATION = {"location": "Springfield"}
ANSWERS = {"place": "Springfield, Illinois", "units": "metric"}


# --- a server, and clients of it ----------------------------------------------------------------


class Server(ProcessInstances):
    """A server process of option K. A client is one request's; nothing is kept between two."""

    def __init__(self, folder: Path, option: Option) -> None:
        super().__init__(Subject(option), folder, honours_keys=True, processes=1)
        self._before: dict[weather.EffectKind, int] = {"audit": 0, "bill": 0}

    async def count_from_here(self) -> None:
        """Count effects from here on."""
        self._before = await super().effects()

    async def effects(self) -> dict[weather.EffectKind, int]:
        now = await super().effects()
        return {kind: now[kind] - self._before[kind] for kind in now}

    def url(self) -> str:
        return self._workers[0].origin + PATH

    def arm_one(self, fault: str) -> None:
        """Have something go wrong in one process."""
        self._workers[0].ledger.send(fault)

    @asynccontextmanager
    async def client(self, extension: ClientExtension | None = None) -> AsyncGenerator[Client]:
        transport = streamable_http_client(self.url(), http_client=self._http)
        async with Client(
            transport,
            mode=LATEST_MODERN_VERSION,
            elicitation_callback=user,
            extensions=[extension or TasksClient()],
        ) as client:
            yield client

    async def create(self) -> CreateTaskResult:
        async with self.client() as client:
            created = await client.session.call_tool(TOOL, LOCATION, allow_claimed=True)
        assert isinstance(created, CreateTaskResult)
        return created

    async def get(self, task: TaskFields) -> Task:
        async with self.client() as client:
            return await get_task(client.session, task.task_id)

    async def until(self, task: TaskFields, *wanted: str) -> Task:
        """The task as soon as it asks that, or has that status."""
        while True:
            seen = await self.get(task)
            if seen.status in wanted or set(wanted) & set(seen.input_requests or {}):
                return seen
            assert seen.status in ("working", "input_required"), seen
            await anyio.sleep(0.02)

    async def answer(self, task: TaskFields, key: str) -> None:
        """Answer a question through one process."""
        answer = types.ElicitResult(action="accept", content={key: ANSWERS[key]})
        async with self.client() as client:
            await update_task(client.session, task.task_id, {key: answer})

    async def cancel(self, task: TaskFields) -> None:
        async with self.client() as client:
            await cancel_task(client.session, task.task_id)


async def user(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, whose tests share processes."""
    return "asyncio"


@pytest.fixture(scope="module")
async def both() -> AsyncGenerator[Server]:
    """The process that the tests share."""
    with scratch() as folder:
        served = Server(folder, option_named("K"))
        async with served.running():
            yield served


@pytest.fixture
async def processes(both: Server) -> Server:
    """A process that lives, with effects counted from here on."""
    await both.count_from_here()
    return both


def said(task: Task) -> str:
    assert task.status == "completed", task
    return (task.result or {})["content"][0]["text"]


# --- killed after each step ---------------------------------------------------------------------


async def test_a_process_is_killed_after_each_step(processes: Server) -> None:
    task = await processes.create()
    await processes.until(task, "place")  # so that there is something on record to lose
    await processes.crash(0)
    await processes.until(task, "place")
    await processes.answer(task, "place")
    await processes.until(task, "units")
    await processes.crash(0)
    await processes.until(task, "units")
    await processes.answer(task, "units")
    assert said(await processes.until(task, "completed")) == ILLINOIS
    assert await processes.effects() == {"audit": 1, "bill": 1}


# --- killed in each status ----------------------------------------------------------------------


async def test_killed_at_work_and_the_next_process_finishes(processes: Server) -> None:
    task = await processes.create()
    await processes.until(task, "place")
    await processes.answer(task, "place")
    await processes.until(task, "units")
    processes.arm_one("crash@bill")
    with suppress(httpx2.TransportError, MCPError, ExceptionGroup):
        await processes.answer(task, "units")  # the process dies of it
    await processes.crash(0)
    assert said(await processes.until(task, "completed")) == ILLINOIS
    assert await processes.effects() == {"audit": 1, "bill": 1}


async def test_killed_when_tasks_are_settled_and_they_stay_so(processes: Server) -> None:
    settled: list[Task] = []
    for ending, code in ("cancelled", None), ("failed", types.INTERNAL_ERROR), ("completed", None):
        task = await processes.create()
        await processes.until(task, "place")
        if ending == "cancelled":
            await processes.cancel(task)
        else:
            await processes.answer(task, "place")
            await processes.until(task, "units")
            if ending == "failed":
                processes.arm_one("fail@bill")
            await processes.answer(task, "units")
        seen = await processes.until(task, ending)
        assert (seen.error and seen.error.code) == code
        settled.append(seen)
    await processes.crash(0)
    for seen in settled:
        assert await processes.get(seen) == seen
        await processes.cancel(seen)
        assert await processes.get(seen) == seen
    assert await processes.effects() == {"audit": 3, "bill": 1}


async def test_a_client_that_is_restarted_finishes_a_task_by_its_id(processes: Server) -> None:
    task = await processes.create()
    await processes.crash(0)
    extension = TasksClient()
    async with processes.client(extension) as client:
        finished = await extension.resume(client.session, task.task_id)
    (block,) = finished.content
    assert isinstance(block, types.TextContent)
    assert block.text == ILLINOIS


# --- on the wire --------------------------------------------------------------------------------


async def post(url: str, method: str, headers: dict[str, str], **params: Any) -> httpx2.Response:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {IDENTIFIER: {}}},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    always = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": LATEST_MODERN_VERSION,
        "Mcp-Method": method,
    }
    async with httpx2.AsyncClient(trust_env=False, timeout=SECONDS) as http:
        return await http.post(url, json=body, headers={**always, **headers})


async def test_the_routing_header_has_to_name_the_task(processes: Server) -> None:
    task = await processes.create()
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        for headers in ({}, {"Mcp-Name": "another"}):
            refused = await post(processes.url(), method, headers, taskId=task.task_id)
            assert refused.status_code == 400
            error = refused.json()["error"]
            assert error["code"] == types.HEADER_MISMATCH
            assert ("needs the HTTP header Mcp-Name" in error["message"]) is (not headers)
    headers = {"Mcp-Name": task.task_id}
    got = await post(processes.url(), "tasks/get", headers, taskId=task.task_id)
    assert got.status_code == 200
    assert f'"taskId":"{task.task_id}"' in got.text.replace(": ", ":")
