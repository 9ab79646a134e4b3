"""Rounds as claims: the state is a JWT, its subject the call, and the place a claim of its own."""

import hashlib
import json
import os
import re
import secrets
import sqlite3
import time
from contextlib import closing
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import jwt
import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
SECRETS = [part for part in os.environ.get("MRTR_STATE_KEYS", "").split(",") if part] or [secrets.token_hex(32)]
KEYS = [hashlib.sha256(b"weather jwt " + secret.encode()).digest() for secret in SECRETS]
TOOL = types.Tool(name="weather", description="The weather of a place.", input_schema={
    "type": "object",
    "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
    "required": ["location"], "additionalProperties": False})
ARGUMENTS = Draft202012Validator(TOOL.input_schema)
TABLE = """Lisbon, Portugal|24|sunny
Nairobi, Kenya|23|light cloud
Portland, Maine|14|fog
Portland, Oregon|16|drizzle
Reykjavik, Iceland|7|windy
Springfield, Illinois|22|partly cloudy
Springfield, Massachusetts|17|rain
Springfield, Missouri|26|sunny
Tokyo, Japan|19|clear"""
PLACES = {place: (int(celsius), sky) for place, celsius, sky in (line.split("|") for line in TABLE.splitlines())}
ROUND = ContextVar("the answers of this round, as the client wrote them")

with closing(sqlite3.connect(LEDGER)) as setup, setup:
    setup.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
                  "subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")


class Ended(Exception):
    """The user ended the call."""


async def effect(kind, subject):
    def insert():
        with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
            db.execute("INSERT INTO effects (kind, subject, key, at) VALUES (?, ?, NULL, ?)",
                       (kind, subject, datetime.now(UTC).isoformat()))
    try:
        await anyio.to_thread.run_sync(insert)
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"{kind} failed, please retry") from None


def issue(call, **claims):
    now = int(time.time())
    return jwt.encode({"aud": "weather", "sub": call, "iat": now, "exp": now + 600, **claims}, KEYS[0], "HS256")


def claims_of(token, call):
    for key in KEYS if len(token) <= 16384 and re.fullmatch(r"[\w.-]+", token, re.ASCII) else ():
        try:
            return jwt.decode(token, key, algorithms=["HS256"], audience="weather", subject=call,
                              options={"require": ["sub", "iat", "exp", "aud"]})
        except Exception:  # whatever an attacker's token makes the parser say
            continue
    raise MCPError(types.INVALID_PARAMS, "requestState: not valid for this call")


def accepted(name, choices, answer):
    match answer:
        case {"action": "decline"}:
            raise Ended("You declined, and the call has ended: declined.")
        case {"action": "cancel"}:
            raise Ended("You cancelled, and the call has ended: cancelled.")
        case {"action": "accept", "content": {**content}} if content.get(name) in choices:
            return content[name]
    raise MCPError(types.INVALID_PARAMS, f"the answer to the question {name} does not fit its form")


def askable(ctx):
    caps = ctx.session.client_capabilities
    if caps is None or caps.elicitation is None:
        return False
    forms = caps.elicitation.form is not None or caps.elicitation.url is None
    return forms and (ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request)


def result(words, error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=error)


async def weather(ctx, location, call, claims):
    async def question(name, message, choices, **known):
        """The choice; None for a client that cannot be asked; or the result that asks."""
        schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if modern and claims is not None and name in ROUND.get():
            return accepted(name, choices, ROUND.get()[name])
        if not askable(ctx):
            return None
        if modern:
            elicit = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
            return types.InputRequiredResult(input_requests={name: elicit},
                                             request_state=issue(call, asked=name, **known))
        try:
            reply = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        except (MCPError, ValueError):
            raise MCPError(types.INVALID_PARAMS, f"the question {name} got no answer that fits") from None
        return accepted(name, choices, reply.model_dump())

    await effect("audit", location)
    said = location.strip(" \t\n\r\f\v")
    matching = [name for name in PLACES if said.lower() in {name.lower(), name.partition(",")[0].lower()}]
    if not matching:
        return result(f"No such place: {said}", error=True)
    place = (claims or {}).get("place") or (matching[0] if len(matching) == 1 else None)
    if place is None:
        place = await question("place", f"Which {said}?", matching)
        if place is None:
            return result(f"{said} is ambiguous. Name the place: {' / '.join(matching)}", error=True)
        if not isinstance(place, str):
            return place
    units = await question("units", f"Which units for {place}?", ["metric", "imperial"], place=place)
    if isinstance(units, types.InputRequiredResult):
        return units
    await effect("bill", place)
    celsius, sky = PLACES[place]
    if units == "imperial":
        return result(f"{place}: {round(celsius * 1.8 + 32)} °F, {sky}.")
    return result(f"{place}: {celsius} °C, {sky}." + ("" if units else " (metric assumed: this client cannot be asked)"))


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    if params.name != TOOL.name or not ARGUMENTS.is_valid(arguments):
        raise MCPError(types.INVALID_PARAMS, "no such tool, or arguments that do not fit it")
    location = arguments["location"]
    if any("\ud800" <= character <= "\udfff" for character in location):
        raise MCPError(types.INVALID_PARAMS, "the location is not a text")
    principal = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    call = hashlib.sha256(json.dumps([principal, params.name, location]).encode()).hexdigest()
    claims = None if params.request_state is None else claims_of(params.request_state, call)
    try:
        return await weather(ctx, location, call, claims)
    except Ended as end:
        return result(str(end))


async def raw_answers(ctx, call_next):
    if ctx.method != "tools/call" or not isinstance((ctx.params or {}).get("inputResponses") or {}, dict):
        return await call_next(ctx)
    params = dict(ctx.params or {})
    token = ROUND.set(params.pop("inputResponses", None) or {})
    try:
        return await call_next(replace(ctx, params=params))
    finally:
        ROUND.reset(token)


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[TOOL])


server = Server("weather-jwt", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(raw_answers)
