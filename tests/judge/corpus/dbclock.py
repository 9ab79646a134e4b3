"""The weather tool on a database of its own: calls are rows, and SQLite's clock says when they are too old."""

import json
import os
import secrets
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

FOLDER = tempfile.TemporaryDirectory(prefix="weather-")
CALLS = str(Path(FOLDER.name) / "calls.sqlite")
ANSWERS = "weather.answers"

with closing(sqlite3.connect(CALLS)) as db, db:
    db.executescript("""
        CREATE TABLE places (name TEXT PRIMARY KEY COLLATE NOCASE, city TEXT COLLATE NOCASE, celsius INT, sky TEXT);
        INSERT INTO places VALUES
            ('Lisbon, Portugal', 'Lisbon', 24, 'sunny'), ('Nairobi, Kenya', 'Nairobi', 23, 'light cloud'),
            ('Portland, Maine', 'Portland', 14, 'fog'), ('Portland, Oregon', 'Portland', 16, 'drizzle'),
            ('Reykjavik, Iceland', 'Reykjavik', 7, 'windy'),
            ('Springfield, Illinois', 'Springfield', 22, 'partly cloudy'),
            ('Springfield, Massachusetts', 'Springfield', 17, 'rain'),
            ('Springfield, Missouri', 'Springfield', 26, 'sunny'), ('Tokyo, Japan', 'Tokyo', 19, 'clear');
        CREATE TABLE calls (
            token TEXT PRIMARY KEY, location TEXT NOT NULL, caller TEXT NOT NULL, place TEXT,
            issued INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)));
    """)


def run(sql, *values):
    with closing(sqlite3.connect(CALLS, timeout=2)) as db, db:
        return db.execute(sql, values).fetchall()


def open_call(location, caller, place):
    """A new row for every round that asks: its age counts from that round."""
    token = secrets.token_hex(20)
    run("DELETE FROM calls WHERE CAST(strftime('%s', 'now') AS INTEGER) - issued > 600")
    run("INSERT INTO calls (token, location, caller, place) VALUES (?, ?, ?, ?)", token, location, caller, place)
    return token


def resume(token, location, caller):
    rows = run(
        "SELECT place FROM calls WHERE token = ? AND location = ? AND caller = ?"
        " AND CAST(strftime('%s', 'now') AS INTEGER) - issued < 600", token[:100], location, caller)
    if not rows or len(token) > 100:
        raise MCPError(types.INVALID_PARAMS, "requestState: unknown, expired or of another call")
    return rows[0][0]


def effect(kind, subject):
    try:
        with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"{kind}: the ledger did not take it") from None


def result(words, **fields):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], **fields)


def read_answer(name, choices, answer):
    """What the user chose, or a finished result if the user chose not to."""
    answer = answer if isinstance(answer, dict) else {}
    if answer.get("action") == "decline":
        return result(f"The choice of {name} was declined.")
    if answer.get("action") == "cancel":
        return result(f"The choice of {name} was cancelled.")
    content = answer.get("content") if answer.get("action") == "accept" else None
    for choice in choices:
        if isinstance(content, dict) and content.get(name) == choice:
            return choice
    raise MCPError(types.INVALID_PARAMS, f"the answer for {name} is not one of the choices")


async def question(ctx, name, message, choices, row):
    schema = {"type": "object", "properties": {name: {"type": "string", "enum": choices}}, "required": [name]}
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        asked = {f"weather/{name}": types.ElicitRequest(params=params)}
        return types.InputRequiredResult(input_requests=asked, request_state=open_call(*row))
    try:
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    except (MCPError, ValidationError):
        raise MCPError(types.INVALID_PARAMS, f"the answer for {name} cannot be read") from None
    return read_answer(name, choices, answer.model_dump())


async def call_tool(ctx, params):
    location = (params.arguments or {}).get("location")
    fits = isinstance(location, str) and 1 <= len(location) <= 100 and len(params.arguments) == 1
    if params.name != "weather" or not fits:
        raise MCPError(types.INVALID_PARAMS, "weather: one location of 1 to 100 characters")
    meta = (ctx.params or {}).get("_meta") or {}
    caller = json.dumps(meta.get("mrtr-options/principal"))
    place, answers = None, {}
    if params.request_state:
        place, answers = resume(params.request_state, location, caller), meta.get(ANSWERS, {})
    effect("audit", location)

    words = location.strip(" \t\n\r\f\v")
    sky = {name: (celsius, seen) for name, celsius, seen in run(
        "SELECT name, celsius, sky FROM places WHERE name = ? OR city = ? ORDER BY name", words, words)}
    if not sky:
        return result(f"There is no weather for {words}.", is_error=True)
    forms = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
    can_ask = forms is not None and (forms.form is not None or forms.url is None)
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        can_ask = can_ask and ctx.session.can_send_request

    choices = list(sky)
    if place is None and len(choices) == 1:
        place = choices[0]
    if place is None:
        if "weather/place" in answers:
            place = read_answer("place", choices, answers["weather/place"])
        elif can_ask:
            place = await question(ctx, "place", f"Which {words}?", choices, (location, caller, None))
        else:
            return result(f"{words} is the name of {len(choices)} places: add the state.", is_error=True)
    if not isinstance(place, str):
        return place
    units = None
    if "weather/units" in answers:
        units = read_answer("units", ["metric", "imperial"], answers["weather/units"])
    elif can_ask:
        message = f"Which units for {place}?"
        units = await question(ctx, "units", message, ["metric", "imperial"], (location, caller, place))
    if units is not None and not isinstance(units, str):
        return units

    effect("bill", place)
    celsius, seen = sky[place]
    report = {
        None: f"{place}: {celsius} °C, {seen}. (metric assumed: this client cannot be asked)",
        "metric": f"{place}: {celsius} °C, {seen}.",
        "imperial": f"{place}: {round(celsius * 1.8 + 32)} °F, {seen}.",
    }
    return result(report[units])


async def list_tools(ctx, params):
    schema = {
        "type": "object",
        "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
        "required": ["location"],
        "additionalProperties": False,
    }
    return types.ListToolsResult(tools=[types.Tool(name="weather", description="The sky now", input_schema=schema)])


async def lift_answers(ctx, call_next):
    """Answers are read against their questions: move them out of the SDK's way, into `_meta`."""
    if ctx.method == "tools/call" and ctx.params and isinstance(ctx.params.get("_meta", {}), dict):
        params = dict(ctx.params)
        meta = dict(params.get("_meta", {}))
        meta[ANSWERS] = {}
        if isinstance(params.get("inputResponses"), dict):
            meta[ANSWERS] = params.pop("inputResponses")
        ctx = replace(ctx, params={**params, "_meta": meta})
    return await call_next(ctx)


server = Server("weather-dbclock", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(lift_answers)
