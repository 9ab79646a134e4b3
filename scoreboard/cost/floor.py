"""The floor: the cost of a tool that is written by hand with nothing but the SDK, its state sealed.

The floor is the baseline of most figures. It does what the protocol and the tool ask for, and
nothing more: no stand-in, no log, no argument check beyond its own. Knows the SDK, the domain and
the shared server.
"""

from __future__ import annotations

import json
from contextlib import nullcontext

import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL, Context, Params, Result, build_server
from mrtr_options.tool.settings import Settings, configured


async def by_hand(ctx: Context, params: Params) -> Result:
    """Handle a call of the weather tool by hand."""
    location = (params.arguments or {}).get("location")
    if not isinstance(location, str):
        raise MCPError(types.INVALID_PARAMS, "location: a text is needed")
    desk = ctx.lifespan_context
    await desk.audit(location)
    state: dict[str, str] = json.loads(params.request_state) if params.request_state else {}
    place = state.get("place") or weather.only_place(location)
    if place is None:
        raise MCPError(types.INVALID_PARAMS, "location: ambiguous")
    given = (params.input_responses or {}).get("units")
    if given is None:
        return types.InputRequiredResult(
            input_requests={"units": which_units(place)}, request_state=json.dumps({"place": place})
        )
    if not isinstance(given, types.ElicitResult) or given.action != "accept":
        return types.CallToolResult(content=[types.TextContent(text="No lookup was made.")])
    units = weather.UnitsAnswer.model_validate(given.content)
    await desk.bill(place)
    return types.CallToolResult(content=[types.TextContent(text=weather.report(place, units))])


async def list_one_tool(
    ctx: object, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List the tool, which takes any object."""
    return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])


def floor_server() -> Server[weather.Desk]:
    """Build a bare server with the tool by hand."""
    own_desk = weather.Desk(weather.MemoryLedger())

    server = Server(
        "weather-floor",
        on_list_tools=list_one_tool,
        on_call_tool=by_hand,
        lifespan=lambda _: nullcontext(own_desk),
    )
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


def shared_server() -> Server[weather.Desk]:
    """Build the server that every option runs on, with the tool by hand."""
    with configured(Settings(weather.MemoryLedger())):
        return build_server("weather-by-hand", by_hand)


def which_units(place: str) -> types.ElicitRequest:
    """Return the question about units, as an author would write it by hand."""
    schema = {
        "type": "object",
        "properties": {"units": {"type": "string", "enum": ["metric", "imperial"]}},
        "required": ["units"],
    }
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=f"Which units for {place}?", requested_schema=schema
        )
    )
