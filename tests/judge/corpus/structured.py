"""Structured content beside the text, a second tool and a prompt; the SDK's own boundary seals the state."""

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone

import anyio
import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
KEYS = [hashlib.sha256(key.encode()).digest()
        for key in dict.fromkeys(os.environ.get("MRTR_STATE_KEYS", "").split(",")) if key] or [os.urandom(32)]
TABLE = {
    "Lisbon, Portugal": (24, "sunny"), "Nairobi, Kenya": (23, "light cloud"), "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"), "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"), "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"), "Tokyo, Japan": (19, "clear"),
}
REPORT = {"type": "object", "additionalProperties": False, "required": ["text"], "properties": {
    "text": {"type": "string"},
    "place": {"type": "string", "enum": list(TABLE)},
    "temperature": {"type": "integer"}, "unit": {"type": "string", "enum": ["°C", "°F"]}, "sky": {"type": "string"}}}
TOOLS = {tool.name: tool for tool in (
    types.Tool(name="weather", description="The weather of a place, now.", output_schema=REPORT, input_schema={
        "type": "object", "additionalProperties": False, "required": ["location"],
        "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100, "title": "Location"}}}),
    types.Tool(name="places", description="The places that weather knows.",
               input_schema={"type": "object", "properties": {}, "additionalProperties": False}))}

with closing(sqlite3.connect(LEDGER)) as db, db:
    db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
               " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")


def insert(kind, subject):
    with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
        db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                   (kind, subject, datetime.now(timezone.utc).isoformat()))


async def effect(kind, subject):
    try:
        await anyio.to_thread.run_sync(insert, kind, subject)
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"{kind}: not written, try again") from None


def result(words, is_error=False, **facts):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error,
                                structured_content={"text": words, **facts})


def refuse(message):
    raise MCPError(types.INVALID_PARAMS, message)


def elicitable(ctx):
    declared = ctx.session.client_capabilities
    match declared.elicitation if declared else None:
        case None:
            return False
        case types.ElicitationCapability(form=None, url=types.UrlElicitationCapability()):
            return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


async def ask(ctx, answers, name, message, choices, state):
    """A choice, None where no user can be asked, or a result for the client."""
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
    if name in answers:
        answer = answers[name]
    elif not elicitable(ctx):
        return None
    elif ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        request = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        return types.InputRequiredResult(input_requests={name: request}, request_state=json.dumps(state))
    else:
        try:
            reply = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        except (MCPError, ValueError):
            refuse(f"{name}: no answer that fits")
        answer = reply.model_dump(by_alias=True)
    match answer:
        case {"action": "decline"}:
            return result("The question was declined, so there is no report.")
        case {"action": "cancel"}:
            return result("The call was cancelled, so there is no report.")
        case {"action": "accept", "content": dict() as content} if content.get(name) in choices:
            return content[name]
    refuse(f"{name}: the answer does not fit")


async def weather(ctx, params):
    location = params.arguments["location"]
    if any("\ud800" <= character <= "\udfff" for character in location):
        refuse("location: no text")
    place = json.loads(params.request_state)["place"] if params.request_state is not None else None
    answers = ctx.meta["answers"] if params.request_state is not None else {}
    await effect("audit", location)
    name = location.strip(" \t\n\r\f\v")
    found = [known for known in TABLE if name.lower() in (known.lower(), known.split(", ")[0].lower())]
    if not found:
        return result(f"There is no place {name!r} here; the tool places lists them all.", is_error=True)
    if len(found) == 1:
        place = found[0]
    if place is None:
        place = await ask(ctx, answers, "place", f"Which {name}?", found, {"place": None})
        if place is None:
            return result(f"{name!r} is one of these, name the place: {'; '.join(found)}.", is_error=True)
        if not isinstance(place, str):
            return place
    units = await ask(ctx, answers, "units", f"Which units for {place}?", ["metric", "imperial"], {"place": place})
    if units is not None and not isinstance(units, str):
        return units
    await effect("bill", place)
    celsius, sky = TABLE[place]
    degrees, unit = (round(celsius * 1.8 + 32), "°F") if units == "imperial" else (celsius, "°C")
    words = f"{place}: {degrees} {unit}, {sky}."
    if units is None:
        words += " (metric assumed: this client cannot be asked)"
    return result(words, place=place, temperature=degrees, unit=unit, sky=sky)


async def call_tool(ctx, params):
    tool = TOOLS.get(params.name)
    if tool is None or not Draft202012Validator(tool.input_schema).is_valid(params.arguments or {}):
        refuse(f"no such tool, or arguments that do not fit: {', '.join(TOOLS)} are the tools")
    if tool.name == "weather":
        return await weather(ctx, params)
    return types.CallToolResult(content=[types.TextContent(type="text", text="\n".join(TABLE))])


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=list(TOOLS.values()))


async def list_prompts(ctx, params):
    return types.ListPromptsResult(prompts=[types.Prompt(name="trip", description="What to pack for a place.")])


async def get_prompt(ctx, params):
    if params.name != "trip":
        refuse("the one prompt is trip")
    words = types.TextContent(type="text", text="Look up the weather of my destination, and tell me what to pack.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=words)])


async def keep_answers(ctx, call_next):
    if ctx.method == "tools/call" and isinstance((ctx.params or {}).get("inputResponses") or {}, dict):
        params = dict(ctx.params or {})
        ctx = replace(ctx, meta={**(ctx.meta or {}), "answers": params.pop("inputResponses", None) or {}}, params=params)
    return await call_next(ctx)


def principal(ctx):
    meta = (ctx.params or {}).get("_meta") or {}
    return json.dumps(meta["mrtr-options/principal"]) if "mrtr-options/principal" in meta else None


server = Server("weather-structured", on_list_tools=list_tools, on_call_tool=call_tool,
                on_list_prompts=list_prompts, on_get_prompt=get_prompt)
server.middleware.append(RequestStateBoundary(
    RequestStateSecurity(keys=KEYS, ttl=600, bind_principal=principal), default_audience="weather-structured"))
server.middleware.append(keep_answers)
