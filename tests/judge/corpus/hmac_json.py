"""The lowlevel server with nothing around it: a JSON state that a MAC protects, and the rounds by hand."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
KEYS = [key.encode() for key in os.environ.get("MRTR_STATE_KEYS", "").split(",") if key] or [secrets.token_bytes(32)]
MAX_AGE, MAX_STATE = 600, 16 * 1024
ANSWERS, PRINCIPAL = "hmac-json/answers", "mrtr-options/principal"
SCHEMA = {"type": "object", "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
          "required": ["location"], "additionalProperties": False}
WEATHER = {
    "Lisbon, Portugal": (24, "sunny"), "Nairobi, Kenya": (23, "light cloud"), "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"), "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"), "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"), "Tokyo, Japan": (19, "clear"),
}
with closing(sqlite3.connect(LEDGER)) as db, db:
    db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
               " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")


def invalid(message):
    return MCPError(types.INVALID_PARAMS, message)


def write(kind, subject):
    try:
        with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"The {kind} could not be written. Try again.") from None


def mac(key, body):
    return hmac.new(key, b"weather state:" + body, hashlib.sha256).digest()


def seal(owner, place):
    body = json.dumps({"owner": owner, "place": place, "at": time.time()}).encode()
    return ".".join(base64.urlsafe_b64encode(part).decode() for part in (body, mac(KEYS[0], body)))


def unseal(token, owner):
    try:
        if len(token) > MAX_STATE:
            raise ValueError("too long")
        body, tag = (base64.b64decode(part.encode("ascii"), b"-_", validate=True) for part in token.split("."))
        if not any(hmac.compare_digest(tag, mac(key, body)) for key in KEYS):
            raise ValueError("not ours")
        state = json.loads(body)
        if state["owner"] != owner or time.time() - state["at"] > MAX_AGE:
            raise ValueError("not this call, or too old")
    except ValueError:
        raise invalid("This requestState is not valid here.") from None
    return state


def can_be_asked(ctx):
    declared = ctx.session.client_capabilities
    form = declared.elicitation if declared else None
    if form is None or (form.url is not None and form.form is None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


def fits(name, choices, answer):
    """The choice, or None for a decline or a cancel."""
    action = answer.get("action") if isinstance(answer, dict) else None
    if action in ("decline", "cancel"):
        return None
    content = answer.get("content") if action == "accept" else None
    if not isinstance(content, dict) or content.get(name) not in choices:
        raise invalid(f"The answer to {name} does not fit.")
    return content[name]


async def pushed(ctx, name, message, schema):
    try:
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    except (MCPError, ValueError):
        raise invalid(f"There is no answer to {name} that fits.") from None
    return answer.model_dump()


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


async def call_tool(ctx, params):
    location = (params.arguments or {}).get("location")
    if params.name != "weather" or set(params.arguments or {}) != {"location"}:
        raise invalid("The one tool is weather, and its one argument location.")
    if not isinstance(location, str) or not 1 <= len(location) <= 100 or not location.isprintable() and any(
            "\ud800" <= letter <= "\udfff" for letter in location):
        raise invalid("location is a string of 1 to 100 characters.")
    modern, meta = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS, (ctx.params or {}).get("_meta") or {}
    owner = hashlib.sha256(json.dumps([meta.get(PRINCIPAL), location]).encode()).hexdigest()
    state = unseal(params.request_state, owner) if params.request_state is not None else {}
    answers = ctx.meta[ANSWERS] if modern and state else {}
    await anyio.to_thread.run_sync(write, "audit", location)

    bare = location.strip(" \t\n\r\f\v")
    found = [place for place in WEATHER if bare.lower() in (place.lower(), place.lower().split(", ")[0])]
    if not found:
        return text(f"There is no weather for {bare!r}.", is_error=True)
    place, units = state.get("place") or (found[0] if len(found) == 1 else None), None
    for name, choices in (("place", found), ("units", ["metric", "imperial"])):
        if name == "place" and place:
            continue
        message = f"Which units for {place}?" if place else f"Which {bare}?"
        schema = {"type": "object", "required": [name],
                  "properties": {name: {"type": "string", "enum": choices}}}
        answer = answers.get(name, ...)
        if answer is ...:
            if not can_be_asked(ctx):
                break
            if modern:
                form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
                return types.InputRequiredResult(input_requests={name: types.ElicitRequest(params=form)},
                                                 request_state=seal(owner, place))
            answer = await pushed(ctx, name, message, schema)
        choice = fits(name, choices, answer)
        if choice is None:
            return text("The question was declined." if answer["action"] == "decline" else "The call was cancelled.")
        place, units = (choice, None) if name == "place" else (place, choice)
    if place is None:
        return text(f"{bare!r} is ambiguous: name the place, one of {'; '.join(found)}.", is_error=True)
    await anyio.to_thread.run_sync(write, "bill", place)
    celsius, sky = WEATHER[place]
    degrees = f"{round(celsius * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
    assumed = "" if units else " (metric assumed: this client cannot be asked)"
    return text(f"{place}: {degrees}, {sky}.{assumed}")


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=SCHEMA)])


async def answers_as_sent(ctx, call_next):
    """The SDK refuses a malformed answer without naming the question: the tool looks at them itself."""
    if ctx.method == "tools/call" and ctx.params:
        sent = ctx.params.get("inputResponses")
        kept = {name: value for name, value in ctx.params.items() if name != "inputResponses" or not isinstance(sent, dict)}
        ctx = replace(ctx, params=kept, meta={**(ctx.meta or {}), ANSWERS: sent if isinstance(sent, dict) else {}})
    return await call_next(ctx)


server = Server("weather-hmac", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(answers_as_sent)
