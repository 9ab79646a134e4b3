"""The weather tool by hand on a plain engine, for an unambiguous place: the baseline of K and L.

It has the steps of L, on the server that all options share, and no code of L. Each engine has its
default settings and passes question and answer as its documentation says: DBOS by events and
messages (on SQLite it looks for them once a second), Temporal by updates, with an activity for each
step.

Needs the extras `durable` and `fleet`. Knows the engines, the domain and the shared server.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

import anyio
import anyio.to_thread
import mcp_types as types
from dbos import DBOS, DBOSConfig, SetWorkflowID
from mcp.server import Server
from temporalio import activity, workflow
from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.questions import request_for
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text
from mrtr_options.tool.settings import Settings, configured


class Engine(Protocol):
    """The tool on an engine."""

    async def begin(self, handle: str, location: str) -> str:
        """Begin a call, and return the place whose units it asks for."""
        ...

    async def go_on(self, handle: str, units: JsonObject | None) -> str:
        """Send the answer to a call, and return the call's report."""
        ...


def server_by_hand(url: str) -> Server[Any]:
    """Build the tool on an engine of its own. A process can have one.

    Args:
        url: The URL of the engine, as L takes it: `temporal://HOST:PORT#NAME`, or a database for
            DBOS.
    """
    opened: Engine | None = None

    @asynccontextmanager
    async def engine(desk: weather.Desk, **_: Any) -> AsyncGenerator[None]:
        nonlocal opened
        start = _on_temporal if url.startswith("temporal://") else _on_dbos
        async with start(url, desk) as opened:
            yield

    async def call_weather(ctx: Context, params: Params) -> Result:
        assert opened is not None
        handle = params.request_state
        if handle is None:
            handle = secrets.token_urlsafe(16)
            place = await opened.begin(handle, location_of(params))
            question = request_for(weather.which_units(place))
            return types.InputRequiredResult(
                input_requests={"units": question}, request_state=handle
            )
        given = (params.input_responses or {})["units"]
        assert isinstance(given, types.ElicitResult)
        return text(await opened.go_on(handle, given.content))

    with configured(Settings(weather.MemoryLedger())):
        return build_server("weather-by-hand", call_weather, sealed=True, resources=[engine])


# --- DBOS ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _on_dbos(url: str, desk: weather.Desk) -> AsyncGenerator[Engine]:
    DBOS(config=DBOSConfig(name="by-hand", system_database_url=url, log_level="WARNING"))

    @DBOS.workflow(name="weather-by-hand")
    async def call(location: str) -> None:
        await DBOS.run_step_async({"name": "audit"}, desk.audit, location)
        (place,) = weather.places_named(location)
        await DBOS.set_event_async("asked", place)
        units = weather.UnitsAnswer.model_validate(await DBOS.recv_async("units", 600))
        await DBOS.run_step_async({"name": "bill"}, desk.bill, place)
        await DBOS.set_event_async("result", weather.report(place, units))

    class OnDbos:
        async def begin(self, handle: str, location: str) -> str:
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(call, location)
            return await DBOS.get_event_async(handle, "asked")

        async def go_on(self, handle: str, units: JsonObject | None) -> str:
            await DBOS.send_async(handle, units, "units", idempotency_key=handle)
            return await DBOS.get_event_async(handle, "result")

    DBOS.launch()
    try:
        yield OnDbos()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(DBOS.destroy)


# --- Temporal -----------------------------------------------------------------------------------


class _Steps:
    """The activities of the workflow."""

    def __init__(self, desk: weather.Desk) -> None:
        self._desk = desk

    @activity.defn
    async def audit(self, location: str) -> None:
        await self._desk.audit(location)

    @activity.defn
    async def bill(self, place: str) -> None:
        await self._desk.bill(place)


@workflow.defn(name="weather-by-hand")
class _Call:
    def __init__(self) -> None:
        self.place: str | None = None
        self.units: JsonObject | None = None
        self.report: str | None = None

    @workflow.run
    async def run(self, location: str) -> None:
        (place,) = weather.places_named(location)
        limit = timedelta(seconds=30)
        await workflow.execute_activity("audit", location, start_to_close_timeout=limit)
        self.place = place
        await workflow.wait_condition(lambda: self.units is not None)
        await workflow.execute_activity("bill", place, start_to_close_timeout=limit)
        self.report = weather.report(place, weather.UnitsAnswer.model_validate(self.units))
        await workflow.wait_condition(workflow.all_handlers_finished)

    @workflow.update
    async def begin(self) -> str:
        await workflow.wait_condition(lambda: self.place is not None)
        return self.place or ""

    @workflow.update
    async def go_on(self, units: JsonObject) -> str:
        self.units = units
        await workflow.wait_condition(lambda: self.report is not None)
        return self.report or ""


class _OnTemporal:
    def __init__(self, client: Client, queue: str) -> None:
        self._client = client
        self._queue = queue

    async def begin(self, handle: str, location: str) -> str:
        start = WithStartWorkflowOperation(
            _Call.run,
            location,
            id=handle,
            task_queue=self._queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        return await self._client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
            _Call.begin, start_workflow_operation=start
        )

    async def go_on(self, handle: str, units: JsonObject | None) -> str:
        call = self._client.get_workflow_handle_for(_Call.run, handle)
        return await call.execute_update(  # pyright: ignore[reportUnknownMemberType]
            _Call.go_on, units or {}, id=handle
        )


@asynccontextmanager
async def _on_temporal(url: str, desk: weather.Desk) -> AsyncGenerator[Engine]:
    address, _, name = url.removeprefix("temporal://").partition("#")
    client = await Client.connect(address)
    steps = _Steps(desk)
    queue = f"by-hand-{name}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[_Call],
        activities=[steps.audit, steps.bill],
        workflow_runner=UnsandboxedWorkflowRunner(),  # the workflow uses the domain's modules, as L
    ):
        yield _OnTemporal(client, queue)
