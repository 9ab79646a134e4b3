"""Option K on real processes: any of them serves any method of a task, and any of them may be killed.

The processes share the database, the state keys and the ledger's file, and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension, advertise
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.bench import postgres as real_postgres
from mrtr_options.bench.client import agreeable
from mrtr_options.bench.deployments.processes import ProcessInstances
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Subject
from mrtr_options.sdk.serving import PATH
from mrtr_options.sdk.tasks.client import TasksClient, cancel_task, get_task, update_task
from mrtr_options.sdk.tasks.wire import IDENTIFIER, CreateTaskResult, Task, TaskFields
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, option_at, option_named
from mrtr_options.tool.server import TOOL
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ILLINOIS = "Springfield, Illinois: 22 °C, partly cloudy."
LOCATION = {"location": "Springfield"}
ANSWERS = {"place": "Springfield, Illinois", "units": "metric"}


# --- a fleet, and a client of any of its processes ----------------------------------------------


class Fleet(ProcessInstances):
    """Two server processes of option K. A client is one request's; nothing is kept between two."""

    def __init__(self, folder: Path, database: str, option: Option) -> None:
        super().__init__(Subject(option), folder, database=database, honours_keys=True)
        self._before: dict[weather.EffectKind, int] = {"audit": 0, "bill": 0}

    async def count_from_here(self) -> None:
        """Count effects from here on."""
        self._before = await super().effects()

    async def effects(self) -> dict[weather.EffectKind, int]:
        now = await super().effects()
        return {kind: now[kind] - self._before[kind] for kind in now}

    async def replace_killed(self) -> None:
        """Start new processes in place of those that were killed."""
        for place in range(self.instances):
            if not self._workers[place].process.is_alive():
                await anyio.to_thread.run_sync(self._end, place)
                await anyio.to_thread.run_sync(self._start, place)

    def url(self, place: int) -> str:
        return self._workers[place].origin + PATH

    def arm_one(self, place: int, fault: str) -> None:
        """Have something go wrong in one process."""
        self._workers[place].ledger.send(fault)

    @asynccontextmanager
    async def client(
        self, place: int, extension: ClientExtension | None = None
    ) -> AsyncGenerator[Client]:
        transport = streamable_http_client(self.url(place), http_client=self._http)
        async with Client(
            transport,
            mode=LATEST_MODERN_VERSION,
            elicitation_callback=user,
            extensions=[extension or TasksClient()],
        ) as client:
            yield client

    async def create(self, place: int) -> CreateTaskResult:
        async with self.client(place) as client:
            created = await client.session.call_tool(TOOL, LOCATION, allow_claimed=True)
        assert isinstance(created, CreateTaskResult)
        return created

    async def get(self, place: int, task: TaskFields) -> Task:
        async with self.client(place) as client:
            return await get_task(client.session, task.task_id)

    async def until(self, place: int, task: TaskFields, *wanted: str) -> Task:
        """The task as soon as it asks that, or has that status."""
        while True:
            seen = await self.get(place, task)
            if seen.status in wanted or set(wanted) & set(seen.input_requests or {}):
                return seen
            assert seen.status in ("working", "input_required"), seen
            await anyio.sleep(0.02)

    async def answer(self, place: int, task: TaskFields, key: str) -> None:
        """Answer a question through one process."""
        answer = types.ElicitResult(action="accept", content={key: ANSWERS[key]})
        async with self.client(place) as client:
            await update_task(client.session, task.task_id, {key: answer})

    async def cancel(self, place: int, task: TaskFields) -> None:
        async with self.client(place) as client:
            await cancel_task(client.session, task.task_id)


async def user(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)


def changed(folder: Path, line: str, replacement: str) -> Option:
    """Option K with other code in place of a line."""
    code = option_named("K").path.read_text(encoding="utf-8")
    assert line in code
    file = folder / "option_k_task.py"
    file.write_text(code.replace(line, replacement), encoding="utf-8")
    return option_at(file)


LEASE = """
from functools import partial

from mrtr_options.sdk.durable import Engine

Engine.opened = partial(Engine.opened, lease_seconds=2.0)
"""
"""Has a process that died be noticed soon where nothing but its lease tells."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, whose tests share processes."""
    return "asyncio"


@pytest.fixture(
    scope="module",
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.evidence("on PostgreSQL"))],
)
async def both(request: pytest.FixtureRequest) -> AsyncGenerator[Fleet]:
    """The processes that the tests share, on each database."""
    with scratch() as folder:
        url = f"sqlite:///{folder / 'calls.sqlite'}"
        if request.param == "postgres":
            url = real_postgres.database(request.getfixturevalue("postgres"))
        build = "\nserver = build_server("
        processes = Fleet(folder, url, changed(folder, build, LEASE + build))
        async with processes.running():
            yield processes


@pytest.fixture
async def processes(both: Fleet) -> Fleet:
    """Two processes that live, with effects counted from here on."""
    await both.replace_killed()
    await both.count_from_here()
    return both


on_sqlite = pytest.mark.parametrize("both", ["sqlite"], indirect=True)
"""What is under test stands above the database."""


def said(task: Task) -> str:
    assert task.status == "completed", task
    return (task.result or {})["content"][0]["text"]


# --- statelessness ------------------------------------------------------------------------------


async def test_a_task_lives_on_two_processes_in_strict_alternation(processes: Fleet) -> None:
    task = await processes.create(0)
    sibling = await processes.create(1)
    await processes.until(0, task, "place")
    await processes.until(1, sibling, "place")
    await processes.answer(0, task, "place")
    await processes.until(1, task, "units")
    await processes.cancel(0, sibling)
    assert (await processes.get(1, sibling)).status == "cancelled"
    await processes.answer(0, task, "units")
    done = await processes.until(1, task, "completed")
    assert said(done) == ILLINOIS
    assert await processes.get(0, task) == done
    assert (await processes.get(1, sibling)).status == "cancelled"
    assert await processes.effects() == {"audit": 2, "bill": 1}


async def test_cancelling_stops_the_work_in_another_process(shared_folder: Path, url: str) -> None:
    endless = """
    try:
        while True:
            await ctx.status("at it")
    finally:
        await desk.bill(place)  # how the test sees that it has stopped
"""
    option = changed(shared_folder, '    await ctx.status(f"Found {place}.")\n', endless)
    processes = Fleet(shared_folder, url, option)
    with anyio.fail_after(SECONDS):
        async with processes.running():
            task = await processes.create(0)
            await processes.until(1, task, "place")
            await processes.answer(1, task, "place")
            while (await processes.get(1, task)).status_message != "at it":
                await anyio.lowlevel.checkpoint()
            await processes.cancel(1, task)
            assert (await processes.get(0, task)).status == "cancelled"
            while (await processes.effects())["bill"] == 0:
                await anyio.lowlevel.checkpoint()
            assert (await processes.get(0, task)).status == "cancelled"


@on_sqlite
async def test_one_process_is_killed_after_each_step(processes: Fleet) -> None:
    task = await processes.create(0)
    await processes.until(1, task, "place")  # so that there is something on record to lose
    await processes.kill(0)  # where it runs
    assert set((await processes.get(1, task)).input_requests or {}) == {"place"}
    await processes.answer(1, task, "place")
    await processes.until(1, task, "units")
    await processes.replace_killed()
    await processes.kill(1)
    await processes.answer(0, task, "units")
    assert said(await processes.until(0, task, "completed")) == ILLINOIS
    assert await processes.effects() == {"audit": 1, "bill": 1}


# --- killed in each status ----------------------------------------------------------------------


async def test_killed_at_work_and_another_process_finishes(processes: Fleet) -> None:
    task = await processes.create(0)
    await processes.until(1, task, "place")
    await processes.answer(1, task, "place")
    await processes.until(1, task, "units")
    processes.arm_one(0, "crash@bill")
    await processes.answer(1, task, "units")  # the process that works dies of it
    assert said(await processes.until(1, task, "completed")) == ILLINOIS
    assert await processes.effects() == {"audit": 1, "bill": 1}


@on_sqlite
async def test_killed_when_tasks_are_settled_and_they_stay_so(processes: Fleet) -> None:
    settled: list[Task] = []
    for ending, code in ("cancelled", None), ("failed", types.INTERNAL_ERROR), ("completed", None):
        task = await processes.create(0)
        await processes.until(0, task, "place")
        if ending == "cancelled":
            await processes.cancel(0, task)
        else:
            await processes.answer(0, task, "place")
            await processes.until(0, task, "units")
            if ending == "failed":
                processes.arm_one(0, "fail@bill")
            await processes.answer(0, task, "units")
        seen = await processes.until(0, task, ending)
        assert (seen.error and seen.error.code) == code
        settled.append(seen)
    await processes.kill(0)
    for seen in settled:
        assert await processes.get(1, seen) == seen
        await processes.cancel(1, seen)
        assert await processes.get(1, seen) == seen
    assert await processes.effects() == {"audit": 3, "bill": 1}


@on_sqlite
async def test_a_client_that_is_restarted_finishes_a_task_by_its_id(processes: Fleet) -> None:
    task = await processes.create(0)
    await processes.kill(0)
    extension = TasksClient()
    async with processes.client(1, extension) as client:
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


@on_sqlite
async def test_the_routing_header_has_to_name_the_task(processes: Fleet) -> None:
    task = await processes.create(0)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        for headers in ({}, {"Mcp-Name": "another"}):
            refused = await post(processes.url(0), method, headers, taskId=task.task_id)
            assert refused.status_code == 400
            error = refused.json()["error"]
            assert error["code"] == types.HEADER_MISMATCH
            assert ("needs the HTTP header Mcp-Name" in error["message"]) is (not headers)
    headers = {"Mcp-Name": task.task_id}
    got = await post(processes.url(0), "tasks/get", headers, taskId=task.task_id)
    assert got.status_code == 200
    assert f'"taskId":"{task.task_id}"' in got.text.replace(": ", ":")


@on_sqlite
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_a_method_of_the_old_tasks_is_not_found(processes: Fleet, method: str) -> None:
    gone = await post(processes.url(0), method, {"Mcp-Name": "x"}, taskId="x")
    assert gone.status_code == 404
    assert gone.json()["error"]["code"] == types.METHOD_NOT_FOUND


@on_sqlite
async def test_a_request_that_does_not_declare_the_extension_is_refused_over_http(
    processes: Fleet,
) -> None:
    task = await processes.create(0)
    async with processes.client(0, advertise("example.org/other")) as client:
        with pytest.raises(MCPError) as refused:
            await get_task(client.session, task.task_id)
    assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
