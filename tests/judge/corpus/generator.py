"""The call as a generator: it yields its effects and questions, and a small loop replays what was answered."""

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
from typing import NamedTuple

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
KEYS = [hashlib.blake2b(key.encode()).digest()
        for key in os.environ.get("MRTR_STATE_KEYS", "").split(",") if key] or [os.urandom(64)]
SCHEMA = {"type": "object", "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
          "required": ["location"], "additionalProperties": False}
QUESTIONS, ANSWERS, MUTE = ("place", "units"), "generator/answers", object()
PLACES = dict([
    ("Lisbon, Portugal", (24, "sunny")), ("Nairobi, Kenya", (23, "light cloud")), ("Portland, Maine", (14, "fog")),
    ("Portland, Oregon", (16, "drizzle")), ("Reykjavik, Iceland", (7, "windy")),
    ("Springfield, Illinois", (22, "partly cloudy")), ("Springfield, Massachusetts", (17, "rain")),
    ("Springfield, Missouri", (26, "sunny")), ("Tokyo, Japan", (19, "clear"))])
with closing(sqlite3.connect(LEDGER)) as db, db:
    db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
               " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")


class Do(NamedTuple):
    kind: str
    subject: str


class Ask(NamedTuple):
    name: str
    message: str
    choices: list


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


def weather(location):
    """The whole call. `yield Do` comes back when it is done, `yield Ask` with the choice, or None from a mute client."""
    yield Do("audit", location)
    name = location.strip(" \t\n\r\f\v")
    places = [place for place in PLACES if name.lower() in (place.lower(), place[:place.index(",")].lower())]
    if not places:
        return text(f"I know no place {name!r}.", is_error=True)
    place = places[0]
    if len(places) > 1:
        place = yield Ask("place", f"Which {name}?", places)
    if place is None:
        return text(f"There are several: {' | '.join(places)}. Name the place.", is_error=True)
    units = yield Ask("units", f"Which units for {place}?", ["metric", "imperial"])
    yield Do("bill", place)
    celsius, sky = PLACES[place]
    if units is None:
        return text(f"{place}: {celsius} °C, {sky}. (metric assumed: this client cannot be asked)")
    return text(f"{place}: {celsius} °C, {sky}." if units == "metric" else f"{place}: {celsius * 1.8 + 32:.0f} °F, {sky}.")


def insert(kind, subject):
    with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
        db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                   (kind, subject, datetime.now(timezone.utc).isoformat()))


def tag(key, owner, body):
    return hashlib.blake2b(body, key=key, person=b"weather", salt=owner).hexdigest()


def freeze(recorded, owner):
    body = json.dumps({"said": recorded, "at": time.time()}, separators=(",", ":")).encode()
    return f"{tag(KEYS[0], owner, body)}~{base64.urlsafe_b64encode(body).decode()}"


def thaw(state, owner):
    signature, _, body = state.partition("~")
    try:
        body = base64.b64decode(body.encode("ascii"), b"-_", validate=True)
    except ValueError:
        body = b""
    if len(state) <= 16384 and any(hmac.compare_digest(tag(key, owner, body).encode(), signature.encode()) for key in KEYS):
        frozen = json.loads(body)
        if time.time() <= frozen["at"] + 600:
            return frozen["said"]
    raise MCPError(types.INVALID_PARAMS, "This requestState is none of this call's.")


async def answer_to(ask, ctx, recorded, owner, answers):
    """The raw answer, MUTE from a client that cannot be asked, or the result that asks."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    if modern and ask.name in answers:
        return answers[ask.name]
    client = ctx.session.client_capabilities
    form = client.elicitation if client else None
    if form is None or (form.form is None and form.url is not None):
        return MUTE
    schema = {"type": "object", "required": [ask.name],
              "properties": {ask.name: {"type": "string", "enum": ask.choices}}}
    if modern:
        question = types.ElicitRequest(params=types.ElicitRequestFormParams(message=ask.message, requested_schema=schema))
        return types.InputRequiredResult(input_requests={f"ask-{ask.name}": question}, request_state=freeze(recorded, owner))
    if not ctx.session.can_send_request:
        return MUTE
    try:
        return (await ctx.session.elicit_form(ask.message, schema, related_request_id=ctx.request_id)).model_dump()
    except (MCPError, ValueError):
        return "nothing that fits"


async def drive(talk, ctx, recorded, owner, answers):
    replay, value = list(recorded), None
    while True:
        try:
            step = talk.send(value)
        except StopIteration as end:
            return end.value
        value = None
        if isinstance(step, Do):
            try:
                await anyio.to_thread.run_sync(insert, *step)
            except sqlite3.Error:
                raise MCPError(types.INTERNAL_ERROR, f"The {step.kind} is not done. Please retry.") from None
        elif replay:
            value = replay.pop(0)
        else:
            answer = await answer_to(step, ctx, recorded, owner, answers)
            match answer:
                case types.InputRequiredResult():
                    return answer
                case {"action": "decline" | "cancel" as action}:
                    return text("The call ends here: " + {"decline": "declined.", "cancel": "cancelled."}[action])
                case {"action": "accept", "content": dict(content)} if content.get(step.name) in step.choices:
                    value = content[step.name]
                    recorded = [*recorded, value]
                case _ if answer is MUTE:
                    pass
                case _:
                    raise MCPError(types.INVALID_PARAMS, f"{step.name}: the answer does not fit the form.")


async def call_tool(ctx, params):
    match params:
        case types.CallToolRequestParams(name="weather", arguments={"location": str(location), **rest}) if not rest:
            pass
        case _:
            raise MCPError(types.INVALID_PARAMS, "weather(location) is all there is.")
    if not 1 <= len(location) <= 100 or any(0xD800 <= ord(c) < 0xE000 for c in location):
        raise MCPError(types.INVALID_PARAMS, "A location has 1 to 100 characters.")
    principal = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    owner = hashlib.sha256(json.dumps([principal, location]).encode()).digest()[:16]
    state = params.request_state
    recorded = [] if state is None else thaw(state, owner)
    return await drive(weather(location), ctx, recorded, owner, {} if state is None else ctx.meta[ANSWERS])


async def take_answers(ctx, call_next):
    params, answers = dict(ctx.params or {}), {}
    if ctx.method == "tools/call" and isinstance(params.get("inputResponses"), dict):
        sent = params.pop("inputResponses")
        answers = {name: sent[f"ask-{name}"] for name in QUESTIONS if f"ask-{name}" in sent}
    if ctx.method == "tools/call":
        ctx = replace(ctx, params=params, meta={**(ctx.meta or {}), ANSWERS: answers})
    return await call_next(ctx)


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=SCHEMA)])


server = Server("weather-generator", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(take_answers)
