"""The weather tool on FastMCP, as its page on multi-round tools has it, with the branch for old
clients that this page names.
"""

import json
import os
import sys
from types import SimpleNamespace
from typing import Annotated, Literal

import weather
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp.server.request_state import RequestStateSecurity
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import Field, create_model

VARIANT = sys.argv[1] if len(sys.argv) > 1 else "default"
MODERN = "2026-07-28"
KEYS = [os.environ["STATE_SECRET"].encode()]
HARDENED = {"request_state_security": RequestStateSecurity(keys=KEYS), "mask_error_details": True}

mcp = FastMCP("weather", **(HARDENED if VARIANT == "hardened" else {}))


def check_can_ask(ctx: Context, key: str) -> None:
    """Raise if the client has declared no form. The default does not look, as the page does not."""
    if VARIANT == "default":
        return
    declared = ctx.session.client_capabilities
    elicitation = declared.elicitation if declared else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        raise ToolError(f"{key}: this client cannot be asked.")


def ask(
    ctx: Context, key: str, message: str, choices: list[str], state: str | None = None
) -> InputRequiredResult:
    check_can_ask(ctx, key)
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


async def elicited(ctx: Context, key: str, message: str, choices: list[str]) -> SimpleNamespace:
    """Ask the user of an old client by push. Return the answer."""
    check_can_ask(ctx, key)
    form = create_model(key.title(), **{key: (Literal[tuple(choices)], ...)})
    answer = await ctx.elicit(message, response_type=form)
    content = answer.data.model_dump() if answer.action == "accept" else None
    return SimpleNamespace(action=answer.action, content=content)


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

    pushes = ctx.request_context.protocol_version < MODERN  # 4.2.3 has no `ctx.protocol_version`
    responses = {} if pushes else ctx.input_responses or {}
    names = weather.places(location)
    if not names:
        raise ToolError(f"There is no {location!r}.")
    place = names[0] if len(names) == 1 else None
    if not pushes and ctx.request_state is not None:
        place = json.loads(ctx.request_state)["place"]
    if place is None:
        message = f"Which {location.strip()}?"
        if pushes:
            responses["place"] = await elicited(ctx, "place", message, names)
        if "place" not in responses:
            return ask(ctx, "place", message, names)
        place = value(responses["place"], "place", names)

    message = f"Which units for {place}?"
    if pushes:
        responses["units"] = await elicited(ctx, "units", message, ["metric", "imperial"])
    if "units" not in responses:
        state = json.dumps({"place": place})
        return ask(ctx, "units", message, ["metric", "imperial"], state)
    units = value(responses["units"], "units", ["metric", "imperial"])

    await weather.bill(place)
    return weather.report(place, units)


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(os.environ["PORT"]), show_banner=False)
