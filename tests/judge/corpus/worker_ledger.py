"""A ledger of its own: every effect opens a new connection in a worker thread, and the loop never waits for it."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS


@dataclass(frozen=True)
class Ledger:
    path: str
    threads: anyio.CapacityLimiter

    def insert(self, kind, subject):
        with closing(sqlite3.connect(self.path, timeout=1.5, isolation_level="IMMEDIATE")) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            if kind:
                db.execute("INSERT INTO effects (kind, subject, key, at) VALUES (?, ?, ?, ?)",
                           (kind, subject, secrets.token_hex(8), datetime.now(timezone.utc).isoformat()))

    async def add(self, kind, subject):
        try:
            await anyio.to_thread.run_sync(self.insert, kind, subject, limiter=self.threads)
        except sqlite3.Error:
            raise MCPError(types.INTERNAL_ERROR, f"The ledger does not take the {kind}. Try again.") from None


@dataclass(frozen=True)
class Keeper:
    """Seals the place for one caller and one location, for ten minutes."""

    keys: tuple[bytes, ...]
    age: int = 600

    def sign(self, key, body, context):
        return hmac.digest(key, len(body).to_bytes(4, "big") + body + context, "sha256")

    def seal(self, place, context):
        body = json.dumps({"place": place, "at": int(time.time())}).encode()
        return base64.b85encode(self.sign(self.keys[0], body, context) + body).decode()

    def open(self, token, context):
        if len(token) <= 16384:
            try:
                raw = base64.b85decode(token.encode("ascii"))
            except ValueError:
                raw = b""
            tag, body = raw[:32], raw[32:]
            genuine = any(hmac.compare_digest(tag, self.sign(key, body, context)) for key in self.keys)
            if genuine and base64.b85encode(raw).decode() == token:
                state = json.loads(body)
                if int(time.time()) - state["at"] <= self.age:
                    return state["place"]
        raise MCPError(types.INVALID_PARAMS, "The requestState does not belong to this call, or has run out.")


LEDGER = Ledger(os.environ.get("MRTR_LEDGER", "ledger.sqlite"), anyio.CapacityLimiter(8))
KEEPER = Keeper(tuple(k.encode() for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k) or (os.urandom(32),))
LEDGER.insert(None, None)
ROWS = [("Lisbon", "Portugal", 24, "sunny"), ("Nairobi", "Kenya", 23, "light cloud"), ("Portland", "Maine", 14, "fog"),
        ("Portland", "Oregon", 16, "drizzle"), ("Reykjavik", "Iceland", 7, "windy"),
        ("Springfield", "Illinois", 22, "partly cloudy"), ("Springfield", "Massachusetts", 17, "rain"),
        ("Springfield", "Missouri", 26, "sunny"), ("Tokyo", "Japan", 19, "clear")]
PLACES = {f"{city}, {region}": (city, celsius, sky) for city, region, celsius, sky in ROWS}
CHOICES = {"units": ["metric", "imperial"]}


def normal(words):
    return words.strip(" \t\n\r\f\v").lower()


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


def tidy(name, answer):
    """The answer as the form has it; one that fits no form becomes an accept without content."""
    action = answer.get("action") if isinstance(answer, dict) else None
    if action in ("decline", "cancel"):
        return {"action": action}
    content = answer.get("content") if action == "accept" else None
    value = content.get(name) if isinstance(content, dict) else None
    return {"action": "accept", "content": {name: value} if isinstance(value, str) and value.isascii() else {}}


async def only_our_answers(ctx, call_next):
    params = ctx.params or {}
    if ctx.method == "tools/call" and isinstance(params.get("inputResponses"), dict):
        sent = params["inputResponses"]
        known = {name: tidy(name, sent[name]) for name in ("place", "units") if name in sent}
        ctx = replace(ctx, params={**params, "inputResponses": known})
    return await call_next(ctx)


class Asker:
    def __init__(self, ctx, params, context):
        declared = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
        self.ctx, self.context = ctx, context
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.can = bool(declared) and (declared.form is not None or declared.url is None)
        self.can = self.can and (self.modern or ctx.session.can_send_request)
        self.answers = (params.input_responses or {}) if self.modern and (params.request_state or self.can) else {}

    async def ask(self, name, message, choices, place=None):
        """A pair: the choice, and what ends the round instead."""
        answer = self.answers.get(name)
        if answer is None and not self.can:
            return None, None
        schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
        if answer is None and self.modern:
            form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
            return None, types.InputRequiredResult(input_requests={name: form},
                                                   request_state=KEEPER.seal(place, self.context))
        if answer is None:
            try:
                answer = await self.ctx.session.elicit_form(message, schema, related_request_id=self.ctx.request_id)
            except (MCPError, ValueError):
                return None, text(f"No answer to {name} that fits.", is_error=True)
        if answer.action != "accept":
            return None, text("Ended: " + ("declined." if answer.action == "decline" else "cancelled."))
        if (answer.content or {}).get(name) not in choices:
            raise MCPError(types.INVALID_PARAMS, f"The answer to {name} is not one of its choices.")
        return answer.content[name], None


async def call_tool(ctx, params):
    if params.name != "weather" or (params.arguments or {}).keys() != {"location"}:
        raise MCPError(types.INVALID_PARAMS, "Call weather with a location.")
    location = params.arguments["location"]
    if not isinstance(location, str) or not 1 <= len(location) <= 100 or any("\ud800" <= c <= "\udfff" for c in location):
        raise MCPError(types.INVALID_PARAMS, "The location has to be a text of 1 to 100 characters.")
    caller = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    context = hashlib.sha256(json.dumps([caller, location]).encode()).digest()
    place = KEEPER.open(params.request_state, context) if params.request_state is not None else None
    asker = Asker(ctx, params, context)
    await LEDGER.add("audit", location)
    found = [p for p in PLACES if normal(location) in (p.lower(), PLACES[p][0].lower())]
    if not found:
        return text("There is no weather for this location.", is_error=True)
    if place is None and len(found) == 1:
        place = found[0]
    if place is None:
        bare = location.strip(" \t\n\r\f\v")
        place, instead = await asker.ask("place", f"Which {bare}?", found)
        if place is None:
            return instead or text(f"Which one? Name the place: {' - '.join(found)}.", is_error=True)
    units, instead = await asker.ask("units", f"Which units for {place}?", CHOICES["units"], place)
    if instead:
        return instead
    await LEDGER.add("bill", place)
    _, celsius, sky = PLACES[place]
    degrees = f"{round(celsius * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
    return text(f"{place}: {degrees}, {sky}." + ("" if units else " (metric assumed: this client cannot be asked)"))


async def list_tools(ctx, params):
    location = {"type": "string", "minLength": 1, "maxLength": 100}
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema={
        "type": "object", "properties": {"location": location}, "required": ["location"], "additionalProperties": False})])


server = Server("weather-worker", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(only_our_answers)
