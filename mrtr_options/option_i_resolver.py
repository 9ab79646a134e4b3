"""Option I, resolver: what the Python SDK v2 shipped. Questions are the tool's parameters.

What the author writes: one resolver per question, and a tool with parameters that name them. A
resolver returns its question, or the value that makes it needless.

What the SDK does: runs the resolvers before the tool, asks what they return, keeps the answers in
the state, and runs every resolver again in each round. An old client is asked by push, in one go.

When to reach for it: `MCPServer`, and questions that stand before the work. The tool's body runs
once, after the last answer, so an effect in it needs no guard.

When not: something must be recorded before the user answers. In the body it comes after all
questions, so a call that is abandoned leaves no trace; in a resolver it happens once per round.
And a refusal's words are the SDK's: an answer that does not fit is an `isError` result, for good.
"""

from __future__ import annotations

from typing import Annotated

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import Field

from mrtr_options.tool import weather
from mrtr_options.tool.server import build_high_tier, elicit
from mrtr_options.tool.weather import Desk, PlaceAnswer, UnitsAnswer


async def which_place(ctx: Context[Desk], location: str) -> Elicit[PlaceAnswer] | PlaceAnswer:
    """Which place is meant; no question if there is only one."""
    # No effects in a resolver: this line runs again in every round.
    place = weather.only_place(location)
    return PlaceAnswer(place=place) if place else elicit(weather.which_place(location))


Place = Annotated[ElicitationResult[PlaceAnswer], Resolve(which_place)]


async def which_units(ctx: Context[Desk], place: Place) -> Elicit[UnitsAnswer] | None:
    """Which units to report in; no question if there is no place."""
    if not isinstance(place, AcceptedElicitation):
        return None
    return elicit(weather.which_units(place.data.place))


Units = Annotated[ElicitationResult[UnitsAnswer], Resolve(which_units)]
Location = Annotated[str, Field(min_length=1, max_length=100)]


def no_lookup(key: str, action: str) -> str:
    """Return the result where the user said no; the SDK's own would be an error."""
    return weather.declined(key) if action == "decline" else weather.cancelled(key)


async def call_weather(ctx: Context[Desk], location: Location, place: Place, units: Units) -> str:
    """Report the weather, once there is nothing left to ask."""
    desk = ctx.request_context.lifespan_context

    # No hazard: but an abandoned call is never audited.
    await desk.audit(location)

    if not isinstance(place, AcceptedElicitation):
        return no_lookup("place", place.action)
    if not isinstance(units, AcceptedElicitation):
        return no_lookup("units", units.action)

    await desk.bill(place.data.place)
    return weather.report(place.data.place, units.data)


server = build_high_tier("weather-i", call_weather)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
