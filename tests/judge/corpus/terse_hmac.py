"""The weather tool in one handler: early returns, a keyed MAC over everything the state stands for."""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone

import mcp_types as t
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

SKY = {
    "Lisbon, Portugal": (24, "sunny"), "Nairobi, Kenya": (23, "light cloud"), "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"), "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"), "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"), "Tokyo, Japan": (19, "clear"),
}
SCHEMA = {
    "type": "object", "required": ["location"], "additionalProperties": False,
    "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
}
KEYS = [k.encode() for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [os.urandom(32)]
LEDGER = os.environ["MRTR_LEDGER"]
BAD = t.INVALID_PARAMS


def effect(kind, subject):
    try:
        with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
    except sqlite3.Error:
        raise MCPError(t.INTERNAL_ERROR, f"The {kind} could not be recorded.") from None


def mac(key, location, who, body):
    return hmac.digest(key, json.dumps(["weather", location, who, body]).encode(), hashlib.sha256)


def seal(location, who, place):
    body = json.dumps([place, time.time()])
    return base64.urlsafe_b64encode(mac(KEYS[0], location, who, body) + body.encode()).decode()


def unseal(token, location, who):
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
        tag, body = raw[:32], raw[32:].decode()
    except ValueError:
        raise MCPError(BAD, "This requestState is not one of ours.") from None
    good = [hmac.compare_digest(tag, mac(key, location, who, body)) for key in KEYS]
    if len(token) > 16384 or not any(good):
        raise MCPError(BAD, "This requestState is not one of ours.")
    place, issued = json.loads(body)
    if time.time() - issued > 600:
        raise MCPError(BAD, "This requestState has expired.")
    return place


async def tidy(ctx, call_next):
    """The SDK refuses a malformed answer without naming its question; make it one that fits no form."""
    raw = (ctx.params or {}).get("inputResponses")
    if ctx.method == "tools/call" and isinstance(raw, dict):
        clean = {}
        for key in {"place", "units"} & raw.keys():
            entry = raw[key] if isinstance(raw[key], dict) else {}
            value = entry["content"].get(key) if isinstance(entry.get("content"), dict) else None
            clean[key] = {"action": "accept", "content": {key: value} if isinstance(value, str) else {}}
            if entry.get("action") in ("decline", "cancel"):
                clean[key] = {"action": entry["action"]}
            elif entry.get("action") != "accept":
                clean[key] = {"action": "accept", "content": {}}
        ctx = replace(ctx, params={**ctx.params, "inputResponses": clean})
    return await call_next(ctx)


def says(words, is_error=False):
    return t.CallToolResult(content=[t.TextContent(type="text", text=words)], is_error=is_error)


async def call_tool(ctx, params):
    args = params.arguments or {}
    location = args.get("location")
    if params.name != "weather" or list(args) != ["location"] or not isinstance(location, str):
        raise MCPError(BAD, "There is one tool, weather, and it takes a location.")
    if not 1 <= len(location) <= 100:
        raise MCPError(BAD, "A location has 1 to 100 characters.")
    who = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    place, answers = None, {}
    if params.request_state is not None:
        place, answers = unseal(params.request_state, location, who), params.input_responses or {}
    effect("audit", location)

    shown = location.strip(" \t\n\r\f\v")
    names = [n for n in SKY if shown.lower() in (n.lower(), n.split(",")[0].lower())]
    if not names:
        return says(f"No weather for {shown!r}.", True)
    form = getattr(ctx.session.client_capabilities, "elicitation", None)
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    askable = form is not None and (form.form is not None or form.url is None)
    askable = askable and (modern or ctx.session.can_send_request)

    if len(names) == 1:
        place = names[0]
    units = None
    for key in ("place", "units"):
        if key == "place" and place:
            continue
        choices = names if key == "place" else ["metric", "imperial"]
        message = f"Which {shown}?" if key == "place" else f"Which units for {place}?"
        schema = {"type": "object", "required": [key], "properties": {key: {"type": "string", "enum": choices}}}
        answer = answers.get(key)
        if answer is None and not askable:
            if key == "place":
                return says(f"{shown!r} is ambiguous: name the place, for example {names[0]!r}.", True)
            break
        if answer is None and modern:
            ask = t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))
            return t.InputRequiredResult(input_requests={key: ask}, request_state=seal(location, who, place))
        if answer is None:
            try:
                answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
            except (MCPError, ValidationError):
                raise MCPError(BAD, f"The answer to {key} is no elicitation result.") from None
        if answer.action != "accept":
            return says("You declined to answer." if answer.action == "decline" else "The question was cancelled.")
        value = (answer.content or {}).get(key)
        if value not in choices:
            raise MCPError(BAD, f"The answer to {key} is none of its choices.")
        place, units = (value, units) if key == "place" else (place, value)

    effect("bill", place)
    celsius, sky = SKY[place]
    if units == "imperial":
        return says(f"{place}: {round(celsius * 1.8 + 32)} °F, {sky}.")
    assumed = "" if units else " (metric assumed: this client cannot be asked)"
    return says(f"{place}: {celsius} °C, {sky}.{assumed}")


async def list_tools(ctx, params):
    return t.ListToolsResult(tools=[t.Tool(name="weather", description="The weather now.", input_schema=SCHEMA)])


server = Server("weather-terse", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(tidy)
