"""The weather tool by hand on the engine (DBOS), for an unambiguous place: the baseline of L.

The steps of L, on the server, the ledger and the engine that L has, and nothing of L's own. Loaded as an
option file is, not imported. Needs the extra `durable`. Knows DBOS, the domain and the shared server.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from dbos import DBOS, SetWorkflowID

from mrtr_options.sdk.durable import Engine
from mrtr_options.sdk.questions import request_for
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text
from mrtr_options.tool.settings import settings_in_force

_desk = weather.Desk(settings_in_force().ledger)


@DBOS.workflow(name="raw-weather")
async def _weather(location: str) -> None:
    await DBOS.run_step_async({"name": "audit"}, _desk.audit, location)
    (place,) = weather.places_named(location)
    await DBOS.set_event_async("asked", place)
    content = await DBOS.recv_async("units", 600)
    units = weather.UnitsAnswer.model_validate(content)
    await DBOS.run_step_async({"name": "bill"}, _desk.bill, place)
    await DBOS.set_event_async("result", weather.report(place, units))


async def call_weather(ctx: Context, params: Params) -> Result:
    """A round: begin the workflow and ask, or send it the answer and return its result."""
    call = params.request_state
    if call is None:
        call = secrets.token_urlsafe(16)
        with SetWorkflowID(call):
            await DBOS.start_workflow_async(_weather, location_of(params))
        place = await DBOS.get_event_async(call, "asked")
        question = request_for(weather.which_units(place))
        return types.InputRequiredResult(input_requests={"units": question}, request_state=call)
    given = (params.input_responses or {})["units"]
    assert isinstance(given, types.ElicitResult)
    await DBOS.send_async(call, given.content, "units", idempotency_key=call)
    return text(await DBOS.get_event_async(call, "result"))


@asynccontextmanager
async def _engine(desk: weather.Desk, *, database: str | None, **_: Any) -> AsyncGenerator[None]:
    async with Engine.opened(database):
        yield


server = build_server("weather-raw", call_weather, sealed=True, resources=[_engine])
