"""The weather tool on the Python SDK's lowlevel server, as its page on multi-round trips has it."""

import json
import os
import sys

import uvicorn
import weather
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

WEATHER = Tool(
    name="weather",
    description="Today's weather.",
    input_schema={
        "type": "object",
        "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
        "required": ["location"],
        "additionalProperties": False,
    },
)


VARIANT = sys.argv[1] if len(sys.argv) > 1 else "default"
MODERN = "2026-07-28"


def schema_of(key: str, choices: list[str]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {key: {"type": "string", "enum": choices}},
        "required": [key],
    }


def ask(
    key: str, message: str, choices: list[str], state: str | None = None
) -> InputRequiredResult:
    form = ElicitRequestFormParams(message=message, requested_schema=schema_of(key, choices))
    return InputRequiredResult(
        input_requests={key: ElicitRequest(params=form)}, request_state=state
    )


def text(words: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=words)], is_error=is_error)


def location_in(params: CallToolRequestParams) -> str:
    """Check the arguments, which nothing else does on this tier. Return the location."""
    match params:
        case CallToolRequestParams(name="weather", arguments={"location": str(location), **rest}):
            if not rest and 1 <= len(location) <= 100:
                return location
    raise MCPError(INVALID_PARAMS, "weather takes a location of 1 to 100 characters")


def place_in(state: str | None, names: list[str]) -> str | None:
    """Return the place, one of these, that an earlier round settled; None if there was none."""
    if state is None:
        return None
    try:
        place = json.loads(state)["place"]
    except (ValueError, TypeError, KeyError):
        place = None
    if place not in names:
        raise MCPError(INVALID_PARAMS, "this state names no place")
    return place


def value(answer: object, key: str, choices: list[str]) -> str:
    """Return the choice that was made in a form."""
    chosen = (answer.content or {}).get(key) if isinstance(answer, ElicitResult) else None
    if not isinstance(chosen, str) or chosen not in choices:
        raise MCPError(INVALID_PARAMS, f"{key}: not one of the choices")
    return chosen


def said_no(answer: object, key: str) -> CallToolResult | None:
    """Return the result of a call that its user declined or cancelled; None for an answer."""
    if not isinstance(answer, ElicitResult) or answer.action == "accept":
        return None
    what = "declined" if answer.action == "decline" else "cancelled"
    return text(f"No lookup: {key} was {what}.")


def pushes(ctx: ServerRequestContext) -> bool:
    """Return whether this client is asked over its session; it knows no `InputRequiredResult`."""
    return ctx.protocol_version < MODERN and VARIANT == "hardened"


def can_ask(ctx: ServerRequestContext) -> bool:
    """Return whether to ask this client. The page asks every client, and so does the default."""
    if VARIANT == "default":
        return True
    declared = ctx.session.client_capabilities
    elicitation = declared.elicitation if declared else None
    forms = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    return forms and (ctx.protocol_version >= MODERN or pushes(ctx))


async def answer_to(
    ctx: ServerRequestContext,
    answers: InputResponses,
    key: str,
    message: str,
    choices: list[str],
) -> object:
    """Return the answer of the request; ask an old client's user over its session."""
    if not pushes(ctx):
        return answers.get(key)
    schema = schema_of(key, choices)
    return await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)


async def list_tools(
    ctx: ServerRequestContext, params: PaginatedRequestParams | None
) -> ListToolsResult:
    return ListToolsResult(tools=[WEATHER])


async def call_tool(
    ctx: ServerRequestContext, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    location = location_in(params)
    names = weather.places(location)
    place = place_in(params.request_state, names)
    answers = params.input_responses or {}

    await weather.audit(location)

    if not names:
        return text(f"There is no {location!r}.", is_error=True)
    if len(names) == 1:
        place = names[0]
    if place is None:
        if not can_ask(ctx):
            return text(f"Name the place: {'; '.join(names)}.", is_error=True)
        message = f"Which {location.strip()}?"
        answer = await answer_to(ctx, answers, "place", message, names)
        if answer is None:
            return ask("place", message, names)
        if (no := said_no(answer, "place")) is not None:
            return no
        place = value(answer, "place", names)

    units = None
    if can_ask(ctx):
        message, choices = f"Which units for {place}?", ["metric", "imperial"]
        answer = await answer_to(ctx, answers, "units", message, choices)
        if answer is None:
            return ask("units", message, choices, json.dumps({"place": place}))
        if (no := said_no(answer, "units")) is not None:
            return no
        units = value(answer, "units", choices)

    await weather.bill(place)
    return text(weather.report(place, units))


def build() -> Server:
    server = Server("weather", on_list_tools=list_tools, on_call_tool=call_tool)
    if VARIANT == "hardened":
        security = RequestStateSecurity(keys=[os.environ["STATE_SECRET"]])
        server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


if __name__ == "__main__":
    app = build().streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
