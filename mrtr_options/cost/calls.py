"""What one call with one question costs in memory: every option beside the floor.

Knows options only as servers.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server

from mrtr_options.bench.client import MODES, agreeable
from mrtr_options.cost.chains import FASTMCP, answers_in, lowlevel_of
from mrtr_options.cost.floor import (
    FLOOR,
    RESOLVER,
    SHARED,
    floor_server,
    shared_server,
    which_units,
)
from mrtr_options.cost.timing import Progress, Spread, in_turns, ratio, spread
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, load
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings

AnyServer = Server[Any] | MCPServer[Any]

CALLS = 4
"""Calls of one option in one turn: so few that most turns are over before another process gets in."""
TURNS = 180
DURABLE_CALLS, DURABLE_TURNS = 3, 8
"""The same for an option that keeps its calls in a database, which takes far longer."""


@dataclass(frozen=True)
class CallCost:
    """Time of one call with one question, in memory, the client's part included.

    Attributes:
        option: A letter, "floor", "server" (see `floor`), or "FastMCP".
        milliseconds: Of one call.
        ratio: To the floor's time in the same turn.
        cpu_ratio: The same of the processor's time, which a busy machine disturbs less.
        resolver_ratio: To the time of the SDK's resolver (I) in the same turn; None where it had none.
    """

    option: str
    milliseconds: Spread
    ratio: Spread
    cpu_ratio: Spread
    resolver_ratio: Spread | None


def fastmcp_server() -> Any:
    """The tool in FastMCP's guard pattern: it returns the question where the answer is missing."""
    fastmcp: Any = importlib.import_module("fastmcp")
    context: Any = importlib.import_module("fastmcp.server.dependencies").get_context
    desk = weather.Desk(weather.MemoryLedger())

    async def call_weather(location: str) -> Any:
        ctx = context()
        await desk.audit(location)
        place: str = ctx.request_state or weather.only_place(location) or ""
        given = answers_in(ctx).get("units")
        if given is None:
            return types.InputRequiredResult(
                input_requests={"units": which_units(place)}, request_state=place
            )
        if given.action != "accept":
            return "No lookup was made."
        units = weather.UnitsAnswer.model_validate(given.content)
        await desk.bill(place)
        return weather.report(place, units)

    server = fastmcp.FastMCP("weather-fastmcp")
    server.tool(call_weather, name=TOOL, output_schema=None)
    return server


def servers_of(options: Sequence[Option], database: str | None = None) -> dict[str, AnyServer]:
    """The floor and a server of each option, by letter."""
    servers: dict[str, AnyServer] = {FLOOR: floor_server()}
    for option in options:
        settings = Settings(weather.MemoryLedger(), database=database)
        servers[option.letter] = load(option.path, settings)
    return servers


async def time_calls(options: Sequence[Option], progress: Progress) -> list[CallCost]:
    """Time one call of each option beside the floor.

    Those that keep their calls in a database have turns of their own, with fewer calls, and a floor of
    their own in them.

    Args:
        options: Which options.
        progress: Called `TURNS` times, and `DURABLE_TURNS` times if one keeps a database.
    """
    kept = [option for option in options if option.extra]
    servers = servers_of([option for option in options if not option.extra])
    servers[SHARED] = shared_server()
    if find_spec("fastmcp"):
        servers[FASTMCP] = lowlevel_of(fastmcp_server())
    costs = await _time(servers, CALLS, TURNS, progress)
    if kept:
        with tempfile.TemporaryDirectory(prefix="mrtr-cost-", ignore_cleanup_errors=True) as folder:
            servers = servers_of(kept, f"sqlite:///{Path(folder) / 'calls.sqlite'}")
            timed = await _time(servers, DURABLE_CALLS, DURABLE_TURNS, progress)
        costs += [each for each in timed if each.option != FLOOR]
    baselines = (FLOOR, SHARED)
    return sorted(costs, key=lambda each: (each.option not in baselines, len(each.option), each.option))


async def _time(
    servers: Mapping[str, AnyServer], calls: int, turns: int, progress: Progress
) -> list[CallCost]:
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(
                Client(server, mode=MODES["modern"], elicitation_callback=agree)
            )
            for name, server in servers.items()
        }
        work = {name: partial(_call, client, calls) for name, client in clients.items()}
        readings = await in_turns(work, turns, progress)
    floor, resolver = readings[FLOOR], readings.get(RESOLVER)
    return [
        CallCost(
            name,
            spread([seconds / calls * 1000 for seconds in own.wall]),
            ratio(own.wall, floor.wall),
            ratio(own.cpu, floor.cpu),
            resolver and ratio(own.wall, resolver.wall),
        )
        for name, own in readings.items()
    ]


async def _call(client: Client, calls: int) -> None:
    for _ in range(calls):
        await client.call_tool(TOOL, {"location": "Tokyo"})


async def agree(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """A client whose user answers every form."""
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)
