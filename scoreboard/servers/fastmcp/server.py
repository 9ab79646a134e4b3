"""The weather tool on FastMCP, as its page on multi-round tools has it."""

import json
import os
import sys
from typing import Annotated

import weather
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp.server.request_state import RequestStateSecurity
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import Field

VARIANT = sys.argv[1] if len(sys.argv) > 1 else "default"
KEYS = [os.environ["STATE_SECRET"].encode()]
SECURITY = RequestStateSecurity(keys=KEYS) if VARIANT == "hardened" else None

mcp = FastMCP("weather", request_state_security=SECURITY)


def ask(
    ctx: Context, key: str, message: str, choices: list[str], state: str | None = None
) -> InputRequiredResult:
    declared = ctx.session.client_capabilities
    elicitation = declared.elicitation if declared else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        raise ToolError(f"{key}: this client cannot be asked.")
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "enum": choices}},
        "required": [key],
    }
    form = ElicitRequestFormParams(message=message, requested_schema=schema)
    elicitation = ElicitRequest(method="elicitation/create", params=form)
    return InputRequiredResult(
        result_type="input_required", input_requests={key: elicitation}, request_state=state
    )


def value(answer: object, key: str, choices: list[str]) -> str:
    action = getattr(answer, "action", None)
    if action in ("decline", "cancel"):
        raise ToolError(
            f"No lookup: {key} was {'declined' if action == 'decline' else 'cancelled'}."
        )
    chosen = (getattr(answer, "content", None) or {}).get(key)
    if chosen not in choices:
        raise ToolError(f"{key}: not one of the choices")
    return chosen


@mcp.tool(name="weather", output_schema=None)
async def forecast(
    location: Annotated[str, Field(min_length=1, max_length=100)], ctx: Context
) -> str | InputRequiredResult:
    """Today's weather."""
    await weather.audit(location)

    responses = ctx.input_responses or {}
    names = weather.places(location)
    if not names:
        raise ToolError(f"There is no {location!r}.")
    place = names[0] if len(names) == 1 else None
    if ctx.request_state is not None:
        place = json.loads(ctx.request_state)["place"]
    if place is None:
        if "place" not in responses:
            return ask(ctx, "place", f"Which {location.strip()}?", names)
        place = value(responses["place"], "place", names)

    if "units" not in responses:
        state = json.dumps({"place": place})
        return ask(ctx, "units", f"Which units for {place}?", ["metric", "imperial"], state)
    units = value(responses["units"], "units", ["metric", "imperial"])

    await weather.bill(place)
    return weather.report(place, units)


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(os.environ["PORT"]), show_banner=False)
