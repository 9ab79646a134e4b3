"""Functions only: facts go in, and the handler of the first open question says what comes out."""

import hashlib
import hmac
import json
import os
import sqlite3
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from types import MappingProxyType

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
KEYS = tuple(filter(None, os.environ.get("MRTR_STATE_KEYS", "").encode().split(b","))) or (os.urandom(32),)
SENT = ContextVar("sent", default=MappingProxyType({}))
PLACES = (
    ("Lisbon, Portugal", 24, "sunny"), ("Nairobi, Kenya", 23, "light cloud"), ("Portland, Maine", 14, "fog"),
    ("Portland, Oregon", 16, "drizzle"), ("Reykjavik, Iceland", 7, "windy"), ("Springfield, Illinois", 22, "partly cloudy"),
    ("Springfield, Massachusetts", 17, "rain"), ("Springfield, Missouri", 26, "sunny"), ("Tokyo, Japan", 19, "clear"))
TEXT = {"decline": "The question was declined.", "cancel": "The question was cancelled."}

invalid = partial(MCPError, types.INVALID_PARAMS)
bare = lambda location: location.strip(" \t\n\r\f\v")
fahrenheit = lambda celsius: round(celsius * 1.8 + 32)


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


def matching(location):
    wanted = bare(location).lower()
    return [name for name, *_ in PLACES if wanted == name.lower() or wanted == name.lower().split(",")[0]]


def write(*effects):
    db = sqlite3.connect(LEDGER, timeout=2)
    try:
        with db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.executemany("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                           [(*effect, datetime.now(timezone.utc).isoformat()) for effect in effects])
    finally:
        db.close()


# The state: what is known so far, when, and a MAC over these and whose call it is.

def mac(key, call, payload):
    return hmac.new(key, json.dumps([call, payload]).encode(), hashlib.sha256).hexdigest()


def pack(call, facts):
    payload = urlsafe_b64encode(json.dumps({**facts, "at": time.time()}).encode()).decode()
    return f"{payload}.{mac(KEYS[0], call, payload)}"


def unpack(call, state):
    payload, _, given = state.partition(".")
    if len(state) > 16384 or not any(hmac.compare_digest(mac(key, call, payload).encode(), given.encode()) for key in KEYS):
        raise invalid("requestState: not of this call")
    facts = json.loads(urlsafe_b64decode(payload))
    if time.time() - facts.pop("at") > 600:
        raise invalid("requestState: older than ten minutes")
    return facts


# The questions, each with the facts it needs and its words; then what is left to say.

def about_place(location, facts):
    return f"Which {bare(location)}?", matching(location)


def about_units(location, facts):
    return f"Which units for {facts['place']}?", ["metric", "imperial"]


def unasked_place(location, facts):
    return text(f"{bare(location)} is ambiguous; name the place: {'; '.join(matching(location))}", is_error=True)


def unasked_units(location, facts):
    return {**facts, "units": "assumed"}


QUESTIONS = {"place": about_place, "units": about_units}
UNASKED = {"place": unasked_place, "units": unasked_units}
REPORTS = {
    "metric": "{place}: {celsius} °C, {sky}.", "imperial": "{place}: {fahrenheit} °F, {sky}.",
    "assumed": "{place}: {celsius} °C, {sky}. (metric assumed: this client cannot be asked)"}


def report(facts):
    celsius, sky = next(rest for name, *rest in PLACES if name == facts["place"])
    return text(REPORTS[facts["units"]].format(celsius=celsius, fahrenheit=fahrenheit(celsius), sky=sky, place=facts["place"]))


def settle(name, choices, facts, answer):
    """The facts with the answer in it, or the result of a call that the user ended."""
    action, content = (answer.get("action"), answer.get("content")) if isinstance(answer, dict) else (None, None)
    if action in ("decline", "cancel"):
        return text(TEXT[action])
    if action != "accept" or not isinstance(content, dict) or content.get(name) not in choices:
        raise invalid(f"{name}: this answer does not fit")
    return {**facts, name: content[name]}


def can_ask(ctx):
    declared = getattr(ctx.session.client_capabilities, "elicitation", None)
    forms = declared is not None and (declared.form is not None or declared.url is None)
    return forms and (is_modern(ctx) or ctx.session.can_send_request)


def is_modern(ctx):
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def step(ctx, call, location, sent, facts, name):
    message, choices = QUESTIONS[name](location, facts)
    if name in sent:
        return settle(name, choices, facts, sent[name])
    if not can_ask(ctx):
        return UNASKED[name](location, facts)
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
    if is_modern(ctx):
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        return types.InputRequiredResult(input_requests={name: form}, request_state=pack(call, facts))
    try:
        reply = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    except (MCPError, ValueError):
        raise invalid(f"{name}: no answer that fits") from None
    return settle(name, choices, facts, reply.model_dump())


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    location = arguments.get("location")
    if (params.name, tuple(arguments)) != ("weather", ("location",)) or not isinstance(location, str):
        raise invalid("weather, with a location: nothing else")
    if not 1 <= len(location) <= 100 or any("\ud800" <= c <= "\udfff" for c in location):
        raise invalid("location: 1 to 100 characters")
    call = [((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal"), location]
    known = {} if params.request_state is None else unpack(call, params.request_state)
    sent = SENT.get() if params.request_state is not None else {}
    places = matching(location)
    if not places:
        return text(f"{bare(location)}: no such place", is_error=True)
    facts = {"place": places[0], **known} if len(places) == 1 else known
    for name in QUESTIONS:
        if name not in facts:
            facts = await step(ctx, call, location, sent, facts, name)
            if not isinstance(facts, dict):
                return facts
    try:  # as late as the page allows, and both or none
        await anyio.to_thread.run_sync(write, ("audit", location), ("bill", facts["place"]))
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, "The bill was not written. Please try again.") from None
    return report(facts)


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema={
        "type": "object", "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
        "required": ["location"], "additionalProperties": False})])


async def set_answers_aside(ctx, call_next):
    if ctx.method != "tools/call" or not isinstance((ctx.params or {}).get("inputResponses") or {}, dict):
        return await call_next(ctx)
    params = dict(ctx.params or {})
    SENT.set(MappingProxyType(params.pop("inputResponses", None) or {}))
    return await call_next(replace(ctx, params=params))


write()
server = Server("weather-functional", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(set_answers_aside)
