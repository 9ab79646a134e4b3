"""A call is an object with one method for each step; the state is its step and its place, sealed."""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
from dataclasses import replace
from datetime import datetime, timezone

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
KEYS = [k.encode() for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [os.urandom(32)]
SKIES = {
    ("Lisbon", "Portugal"): (24, "sunny"), ("Nairobi", "Kenya"): (23, "light cloud"), ("Portland", "Maine"): (14, "fog"),
    ("Portland", "Oregon"): (16, "drizzle"), ("Reykjavik", "Iceland"): (7, "windy"),
    ("Springfield", "Illinois"): (22, "partly cloudy"), ("Springfield", "Massachusetts"): (17, "rain"),
    ("Springfield", "Missouri"): (26, "sunny"), ("Tokyo", "Japan"): (19, "clear"),
}
WEATHER = types.Tool(name="weather", title="Weather", input_schema={
    "type": "object", "required": ["location"], "additionalProperties": False,
    "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100, "description": "A city."}}})


def connect():
    return sqlite3.connect(LEDGER, timeout=2)


def done(kind, subject):
    try:
        db = connect()
        try:
            with db:
                db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                           (kind, subject, datetime.now(tz=timezone.utc).isoformat(timespec="milliseconds")))
        finally:
            db.close()
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"The {kind} has failed; the call may be retried.") from None


def fail(why):
    return MCPError(types.INVALID_PARAMS, why)


class Call:
    """One delivery: it starts at the step that the state names, and goes on until a step has a result."""

    def __init__(self, ctx, location, state):
        self.ctx, self.location, self.asked = ctx, location, location.strip(" \t\n\r\f\v")
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        meta = (ctx.params or {}).get("_meta") or {}
        self.binding = json.dumps([meta.get("mrtr-options/principal"), location]).encode()
        self.answers = ctx.meta["call/answers"]
        wanted = self.asked.lower()
        self.places = [f"{c}, {r}" for c, r in SKIES if wanted in (c.lower(), f"{c}, {r}".lower())]
        self.place, self.units, self.resumed = None, None, state is not None
        self.step = self.look_up
        if state is not None:
            name, self.place = self.opened(state)
            self.step = {"place": self.ask_place, "units": self.ask_units}[name]

    def mac(self, key, body):
        return hmac.digest(key, hashlib.sha256(self.binding).digest() + body, "sha256")

    def sealed(self, *what):
        body = json.dumps([*what, round(time.time())]).encode()
        return base64.urlsafe_b64encode(self.mac(KEYS[0], body) + body).decode()

    def opened(self, state):
        try:
            raw = base64.b64decode(state[:16385].encode("ascii"), altchars=b"-_", validate=True)
        except ValueError:
            raise fail("The requestState is damaged.") from None
        if len(state) > 16384 or not any(hmac.compare_digest(raw[:32], self.mac(key, raw[32:])) for key in KEYS):
            raise fail("The requestState is not of this call.")
        step, place, at = json.loads(raw[32:])
        if time.time() - at > 600:
            raise fail("The requestState is too old.")
        return step, place

    async def run(self):
        await anyio.to_thread.run_sync(done, "audit", self.location)
        result = None
        while result is None:
            result = await self.step()
        return result

    async def look_up(self):
        if not self.places:
            return self.say(f"Nothing is known of {self.asked}.", error=True)
        if len(self.places) == 1:
            self.place = self.places[0]
        self.step = self.ask_units if self.place else self.ask_place

    async def ask_place(self):
        result = await self.ask("place", f"Which {self.asked}?", self.places)
        if result is None and self.place is None:
            return self.say(f"Name the place, one of: {'; '.join(self.places)}.", error=True)
        self.step = self.ask_units
        return result

    async def ask_units(self):
        result = await self.ask("units", f"Which units for {self.place}?", ["metric", "imperial"])
        self.step = self.report
        return result

    async def report(self):
        await anyio.to_thread.run_sync(done, "bill", self.place)
        celsius, sky = SKIES[tuple(self.place.split(", "))]
        shown = f"{celsius} °C" if self.units != "imperial" else f"{round(celsius * 9 / 5 + 32)} °F"
        assumed = " (metric assumed: this client cannot be asked)" if self.units is None else ""
        return self.say(f"{self.place}: {shown}, {sky}.{assumed}")

    async def ask(self, name, message, choices):
        """Set the attribute of that name, and return nothing; or return what ends the round."""
        form = {"type": "object", "properties": {name: {"type": "string", "enum": choices}}, "required": [name]}
        capabilities = self.ctx.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities else None
        if self.modern and self.resumed and name in self.answers:
            answer = self.answers[name]
        elif elicitation is None or (elicitation.form is None and elicitation.url is not None):
            return None
        elif self.modern:
            params = types.ElicitRequestFormParams(message=message, requested_schema=form)
            return types.InputRequiredResult(input_requests={name: types.ElicitRequest(params=params)},
                                             request_state=self.sealed(name, self.place))
        elif not self.ctx.session.can_send_request:
            return None
        else:
            try:
                reply = await self.ctx.session.elicit_form(message, form, related_request_id=self.ctx.request_id)
            except (MCPError, ValueError):
                raise fail(f"No fitting answer for {name}.") from None
            answer = reply.model_dump()
        action = answer.get("action") if isinstance(answer, dict) else None
        if action == "decline" or action == "cancel":
            return self.say("You declined." if action == "decline" else "You cancelled.")
        content = answer.get("content") if action == "accept" else None
        if not isinstance(content, dict) or content.get(name) not in choices:
            raise fail(f"This is no answer to the question {name}.")
        setattr(self, name, content[name])

    def say(self, words, error=False):
        return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=error)


async def call_tool(ctx, params):
    given = params.arguments or {}
    location = given.get("location")
    if params.name != "weather" or len(given) != 1 or not isinstance(location, str) or not 0 < len(location) <= 100:
        raise fail("There is one tool, weather, for one location of at most 100 characters.")
    try:
        location.encode()
    except UnicodeEncodeError:
        raise fail("The location is not Unicode.") from None
    return await Call(ctx, location, params.request_state).run()


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[WEATHER])


async def unread(ctx, call_next):
    """Hand the answers to the call as they came."""
    if ctx.method == "tools/call":
        params, answers = dict(ctx.params or {}), {}
        if isinstance(params.get("inputResponses"), dict):
            answers = params.pop("inputResponses")
        ctx = replace(ctx, params=params, meta={**(ctx.meta or {}), "call/answers": answers})
    return await call_next(ctx)


def build_server():
    db = connect()
    db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
               " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
    db.close()
    server = Server("weather-steps", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(unread)
    return server
