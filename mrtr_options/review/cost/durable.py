"""What a round of the durable option costs: beside H, which keeps its calls in memory, and beside the
engine used by hand for the same tool.

One run, the three in turns, on one engine. Needs the extra `durable`. Knows options only as servers.
"""

from __future__ import annotations

import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
from dbos import DBOS, SetWorkflowID
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from mrtr_options import weather
from mrtr_options.observe import MODES, agreeable
from mrtr_options.options import load, option_named
from mrtr_options.sdk import durable_engine
from mrtr_options.sdk.questions import request_for
from mrtr_options.server import TOOL, Context, Params, Result, Settings, location_of, text

CALLS = 60
"""Calls of each, taken in turns; each has two rounds."""
WARM_UP = 5
"""Calls of each before the first one counts."""


@dataclass(frozen=True)
class RoundTiming:
    """Time of one round in memory, the client's part included.

    Attributes:
        database: "sqlite" or "postgresql".
        what: "H", "L", or "raw": the same tool by hand on the engine.
        milliseconds: Median over all rounds.
        slowest: The slowest in a hundred.
        ratio: Median to the median of "raw".
    """

    database: str
    what: str
    milliseconds: float
    slowest: float
    ratio: float


@DBOS.workflow(name="raw-weather")
async def _raw(location: str) -> None:
    """The tool for an unambiguous place, with nothing but the engine."""
    ledger = weather.Desk(_raw_ledger)
    await DBOS.run_step_async({"name": "audit"}, ledger.audit, location)
    (place,) = weather.places_named(location)
    await DBOS.set_event_async("asked", place)
    content = await DBOS.recv_async("units", 600)
    units = weather.UnitsAnswer.model_validate(content)
    await DBOS.run_step_async({"name": "bill"}, ledger.bill, place)
    await DBOS.set_event_async("result", weather.report(place, units))


_raw_ledger = weather.MemoryLedger()


def raw_server() -> Server[None]:
    """The tool as one would write it on the engine by hand, its state sealed."""

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])

    async def call_tool(ctx: Context, params: Params) -> Result:
        call = params.request_state
        if call is None:
            call = secrets.token_urlsafe(16)
            with SetWorkflowID(call):
                await DBOS.start_workflow_async(_raw, location_of(params))
            place = await DBOS.get_event_async(call, "asked")
            question = request_for(weather.which_units(place))
            return types.InputRequiredResult(input_requests={"units": question}, request_state=call)
        given = (params.input_responses or {})["units"]
        assert isinstance(given, types.ElicitResult)
        await DBOS.send_async(call, given.content, "units", idempotency_key=call)
        return text(await DBOS.get_event_async(call, "result"))

    server: Server[Any] = Server("weather-raw", on_list_tools=list_tools, on_call_tool=call_tool)
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


async def time_per_round(url: str | None, progress: Callable[[], None]) -> list[RoundTiming]:
    """Time the rounds of H, of L and of the engine by hand.

    Args:
        url: The database; None for a SQLite file of this run's own.
        progress: Called `CALLS` times.
    """
    seconds: dict[str, list[float]] = {"H": [], "L": [], "raw": []}
    with tempfile.TemporaryDirectory(prefix="mrtr-cost-") as folder:
        url = url or f"sqlite:///{Path(folder) / 'calls.sqlite'}"
        async with _clients(url) as clients:
            for number in range(WARM_UP + CALLS):
                for name, client in clients.items():
                    took = await _call(client)
                    if number >= WARM_UP:
                        seconds[name] += took
                if number >= WARM_UP:
                    progress()
    raw = statistics.median(seconds["raw"])
    return [
        RoundTiming(
            url.partition(":")[0],
            name,
            statistics.median(took) * 1000,
            statistics.quantiles(took, n=100)[-1] * 1000,
            statistics.median(took) / raw,
        )
        for name, took in seconds.items()
    ]


@asynccontextmanager
async def _clients(url: str) -> AsyncGenerator[dict[str, Client]]:
    servers: dict[str, Server[Any] | MCPServer[Any]] = {
        letter: load(option_named(letter).path, Settings(weather.MemoryLedger(), database=url)).server
        for letter in "HL"
    }
    servers["raw"] = raw_server()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(durable_engine.opened(url, "cost", []))
        yield {
            name: await stack.enter_async_context(
                Client(server, mode=MODES["modern"], elicitation_callback=_declared)
            )
            for name, server in servers.items()
        }


async def _declared(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)


async def _call(client: Client) -> list[float]:
    """One call with one question; how long each of its rounds took."""
    took: list[float] = []
    asked: types.InputRequiredResult | None = None
    while True:
        start = time.perf_counter()
        result = await client.session.call_tool(
            TOOL,
            {"location": "Tokyo"},
            input_responses=asked and _UNITS,
            request_state=asked and asked.request_state,
            allow_input_required=True,
        )
        took.append(time.perf_counter() - start)
        if isinstance(result, types.CallToolResult):
            return took
        asked = result


_UNITS: types.InputResponses = {
    "units": types.ElicitResult(action="accept", content={"units": "metric"})
}
