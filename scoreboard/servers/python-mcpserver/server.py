"""The weather tool on the Python SDK's MCPServer, as its page on dependencies has it."""

import os
import sys
from typing import Annotated, Literal

import weather
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, RequestStateSecurity, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field, create_model

VARIANT = sys.argv[1] if len(sys.argv) > 1 else "default"
SECURITY = (
    RequestStateSecurity(keys=[os.environ["STATE_SECRET"]]) if VARIANT == "hardened" else None
)

mcp = MCPServer("weather", request_state_security=SECURITY)


class Place(BaseModel):
    place: str


class Units(BaseModel):
    units: Literal["metric", "imperial"]


async def which_place(location: str) -> Place | Elicit[Place]:
    names = weather.places(location)
    if not names:
        raise ToolError(f"There is no {location!r}.")
    if len(names) == 1:
        return Place(place=names[0])
    choices = create_model("Choices", __base__=Place, place=(Literal[tuple(names)], ...))
    return Elicit(f"Which {location.strip()}?", choices)


async def which_units(place: Annotated[Place, Resolve(which_place)]) -> Elicit[Units]:
    return Elicit(f"Which units for {place.place}?", Units)


@mcp.tool(name="weather", structured_output=False)
async def forecast(
    location: Annotated[str, Field(min_length=1, max_length=100)],
    place: Annotated[Place, Resolve(which_place)],
    units: Annotated[Units, Resolve(which_units)],
) -> str:
    """Today's weather."""
    await weather.audit(location)
    await weather.bill(place.place)
    return weather.report(place.place, units.units)


if __name__ == "__main__":
    mcp.run(transport="streamable-http", host="127.0.0.1", port=int(os.environ["PORT"]))
