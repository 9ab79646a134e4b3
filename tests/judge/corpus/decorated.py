"""The weather tool in layers: each decorator adds one question to a function that knows nothing of rounds."""

import functools
import hashlib
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import jwt
import mcp_types as t
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

WEATHER = {
    "Lisbon, Portugal": (24, "sunny"),
    "Nairobi, Kenya": (23, "light cloud"),
    "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"),
    "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"),
    "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"),
    "Tokyo, Japan": (19, "clear"),
}
KEYS = [key for key in os.environ.get("MRTR_STATE_KEYS", "").split(",") if key] or [os.urandom(16).hex()]
SECRETS = [hashlib.sha256(b"jwt:" + key.encode()).digest() for key in KEYS]
KEPT_AS = "weather/answers"


def effect(kind, subject):
    row = (kind, subject, datetime.now(timezone.utc).isoformat())
    try:
        with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
                       "subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)", row)
    except sqlite3.Error:
        raise MCPError(t.INTERNAL_ERROR, f"the {kind} failed") from None


def refuse(message):
    return MCPError(t.INVALID_PARAMS, message)


def text(words, **more):
    return t.CallToolResult(content=[t.TextContent(type="text", text=words)], **more)


def seal(call):
    claims = {"loc": call.location, "sub": call.who, "place": call.place, "exp": int(time.time()) + 595}
    return jwt.encode({"c": claims, "exp": claims["exp"]}, SECRETS[0], algorithm="HS256")


def unseal(token, location, who):
    if len(token) <= 16 * 1024:
        for secret in SECRETS:
            try:
                claims = jwt.decode(token, secret, algorithms=["HS256"], options={"require": ["exp"]})["c"]
            except (jwt.InvalidTokenError, ValueError):
                continue
            if claims["loc"] == location and claims["sub"] == who and type(claims["sub"]) is type(who):
                return claims["place"]
    raise refuse("requestState is not valid for this call")


def asks(name, message, choices):
    """Add the question `name`: the function below gets its answer as `call.<name>`."""

    def decorate(function):
        @functools.wraps(function)
        async def asking(call):
            options = choices(call)
            if getattr(call, name) is None and len(options) == 1:
                setattr(call, name, options[0])
            if getattr(call, name) is not None:
                return await function(call)
            answer = call.answers.get(name)
            if answer is None:
                if not call.askable:
                    return await function(call)
                schema = {
                    "type": "object",
                    "properties": {name: {"type": "string", "enum": options}},
                    "required": [name],
                }
                if call.modern:
                    form = t.ElicitRequestFormParams(message=message(call), requested_schema=schema)
                    request = t.ElicitRequest(params=form)
                    return t.InputRequiredResult(input_requests={name: request}, request_state=seal(call))
                try:
                    result = await call.session.elicit_form(message(call), schema, related_request_id=call.id)
                except (MCPError, ValidationError):
                    raise refuse(f"the answer to {name} is no elicitation result") from None
                answer = result.model_dump()
            action = answer.get("action") if isinstance(answer, dict) else None
            if action in ("decline", "cancel"):
                return text(f"{name}: {'declined' if action == 'decline' else 'cancelled'} by the user.")
            content = answer.get("content") if action == "accept" else None
            if not isinstance(content, dict) or content.get(name) not in options:
                raise refuse(f"the answer to {name} does not fit its form")
            setattr(call, name, content[name])
            return await function(call)

        return asking

    return decorate


@asks("place", lambda call: f"Which {call.city}?", lambda call: call.matches)
@asks("units", lambda call: f"Which units for {call.place}?", lambda call: ["metric", "imperial"])
async def weather(call):
    if call.place is None:
        return text(f"Several places are called {call.city}: name the place.", is_error=True)
    effect("bill", call.place)
    celsius, sky = WEATHER[call.place]
    degrees = f"{round(celsius * 9 / 5 + 32)} °F" if call.units == "imperial" else f"{celsius} °C"
    note = "" if call.units else " (metric assumed: this client cannot be asked)"
    return text(f"{call.place}: {degrees}, {sky}.{note}")


async def call_tool(ctx, params):
    args = params.arguments or {}
    location = args.get("location")
    if params.name != "weather" or len(args) != 1 or not isinstance(location, str) or not 0 < len(location) < 101:
        raise refuse("weather takes one location, a string of 1 to 100 characters")
    meta = (ctx.params or {}).get("_meta") or {}
    who = meta.get("mrtr-options/principal")
    call = SimpleNamespace(location=location, who=who, place=None, units=None, answers={}, id=ctx.request_id)
    if params.request_state is not None:
        call.place = unseal(params.request_state, location, who)
        call.answers = meta.get(KEPT_AS) or {}
    effect("audit", location)
    call.city, call.session = location.strip(" \t\n\r\f\v"), ctx.session
    call.matches = [p for p in WEATHER if call.city.lower() in (p.lower(), p[: p.index(",")].lower())]
    if not call.matches:
        return text(f"{call.city!r} is no place of ours.", is_error=True)
    call.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    caps = ctx.session.client_capabilities
    forms = caps is not None and caps.elicitation is not None
    forms = forms and (caps.elicitation.form is not None or caps.elicitation.url is None)
    call.askable = forms and (call.modern or ctx.session.can_send_request)
    return await weather(call)


async def list_tools(ctx, params):
    schema = {
        "type": "object",
        "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
        "required": ["location"],
        "additionalProperties": False,
    }
    return t.ListToolsResult(tools=[t.Tool(name="weather", description="Weather by place.", input_schema=schema)])


async def move_answers(ctx, call_next):
    """Carry the answers in `_meta`, where only the decorators look at their form."""
    params = dict(ctx.params or {})
    if ctx.method == "tools/call" and isinstance(params.get("_meta") or {}, dict):
        answers = params.get("inputResponses")
        meta = {k: v for k, v in (params.get("_meta") or {}).items() if k != KEPT_AS}
        if isinstance(answers, dict):
            params.pop("inputResponses")
            meta[KEPT_AS] = {key: {} if value is None else value for key, value in answers.items()}
        ctx = replace(ctx, params={**params, "_meta": meta})
    return await call_next(ctx)


server = Server("weather-decorated", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(move_answers)
