"""The weather tool by hand on DBOS as it comes, for an unambiguous place: the baseline of L.

The steps of L, on the server that all options share, and nothing of L's own: questions and answers go
by DBOS's events and messages, and DBOS has its default settings. On SQLite these look for messages once
a second. Needs the extra `durable`. Knows DBOS, the domain and the shared server.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from dbos import DBOS, DBOSConfig, SetWorkflowID
from mcp.server import Server

from mrtr_options.sdk.questions import request_for
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text
from mrtr_options.tool.settings import Settings, configured


def server_by_hand(url: str) -> Server[Any]:
    """The tool on an engine of its own; one in a process.

    Args:
        url: The engine's database.
    """
    desk = weather.Desk(weather.MemoryLedger())

    @DBOS.workflow(name="weather-by-hand")
    async def call(location: str) -> None:
        await DBOS.run_step_async({"name": "audit"}, desk.audit, location)
        (place,) = weather.places_named(location)
        await DBOS.set_event_async("asked", place)
        content = await DBOS.recv_async("units", 600)
        units = weather.UnitsAnswer.model_validate(content)
        await DBOS.run_step_async({"name": "bill"}, desk.bill, place)
        await DBOS.set_event_async("result", weather.report(place, units))

    async def call_weather(ctx: Context, params: Params) -> Result:
        handle = params.request_state
        if handle is None:
            handle = secrets.token_urlsafe(16)
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(call, location_of(params))
            place = await DBOS.get_event_async(handle, "asked")
            question = request_for(weather.which_units(place))
            return types.InputRequiredResult(input_requests={"units": question}, request_state=handle)
        given = (params.input_responses or {})["units"]
        assert isinstance(given, types.ElicitResult)
        await DBOS.send_async(handle, given.content, "units", idempotency_key=handle)
        return text(await DBOS.get_event_async(handle, "result"))

    @asynccontextmanager
    async def engine(desk: weather.Desk, **_: Any) -> AsyncGenerator[None]:
        DBOS(config=DBOSConfig(name="by-hand", system_database_url=url, log_level="WARNING"))
        DBOS.launch()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(DBOS.destroy)

    with configured(Settings(weather.MemoryLedger())):
        return build_server("weather-by-hand", call_weather, sealed=True, resources=[engine])
