"""The weather tool over a signer of its own: payloads are JSON, compressed, stamped and signed."""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
import zlib
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone

import mcp_types as t
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError


def b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(word):
    return base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))


class BadSignature(ValueError):
    pass


class TimedSigner:
    """`payload.stamp.signature`; the salt says what a token is for, so tokens cannot change their purpose."""

    def __init__(self, keys, max_age):
        self.keys, self.max_age = keys, max_age

    def signature(self, key, salt, value):
        derived = hashlib.sha256(b"signer\0" + key).digest()
        return hmac.new(derived, json.dumps([salt, value]).encode(), hashlib.sha256).digest()

    def dumps(self, data, salt):
        value = b64(zlib.compress(json.dumps(data).encode())) + "." + str(int(time.time()))
        return value + "." + b64(self.signature(self.keys[0], salt, value))

    def loads(self, token, salt):
        value, _, signed = token.rpartition(".")
        try:
            given = unb64(signed)
        except ValueError:
            raise BadSignature("unreadable") from None
        if not any(hmac.compare_digest(given, self.signature(key, salt, value)) for key in self.keys):
            raise BadSignature("not ours")
        payload, stamp = value.split(".")
        if time.time() - int(stamp) > self.max_age:
            raise BadSignature("too old")
        return json.loads(zlib.decompress(unb64(payload)))


PLACES = {
    "Lisbon, Portugal": "24 sunny",
    "Nairobi, Kenya": "23 light cloud",
    "Portland, Maine": "14 fog",
    "Portland, Oregon": "16 drizzle",
    "Reykjavik, Iceland": "7 windy",
    "Springfield, Illinois": "22 partly cloudy",
    "Springfield, Massachusetts": "17 rain",
    "Springfield, Missouri": "26 sunny",
    "Tokyo, Japan": "19 clear",
}
UNITS = ["metric", "imperial"]
signer = TimedSigner([k.encode() for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [os.urandom(32)], 600)


def bare(location):
    return location.strip(" \t\n\r\f\v")


def find(location):
    wanted = bare(location).lower()
    return [name for name in PLACES if wanted == name.lower() or wanted == name.lower().split(",")[0]]


def report(place, units):
    degrees, sky = PLACES[place].split(" ", 1)
    if units == "imperial":
        return f"{place}: {round(int(degrees) * 1.8 + 32)} °F, {sky}."
    assumed = "" if units == "metric" else " (metric assumed: this client cannot be asked)"
    return f"{place}: {degrees} °C, {sky}.{assumed}"


def ledger(kind, subject):
    try:
        with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
                       "subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
    except sqlite3.Error:
        raise MCPError(t.INTERNAL_ERROR, f"{kind} failed; try again") from None


def say(words, is_error=False):
    content = [t.TextContent(type="text", text=words)]
    return t.CallToolResult(content=content, structured_content={"says": words}, is_error=is_error)


class Asker:
    def __init__(self, ctx, answers, salt):
        self.ctx, self.answers, self.salt = ctx, answers, salt
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        declared = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
        self.able = declared is not None and (declared.form is not None or declared.url is None)
        self.able = self.able and (self.modern or ctx.session.can_send_request)

    async def ask(self, name, message, choices, settled):
        """The chosen value, None if no user can be asked, or the result that ends this round."""
        answer = self.answers.get("q-" + name)
        schema = {"type": "object", "properties": {name: {"type": "string", "enum": choices}}, "required": [name]}
        if answer is None and not self.able:
            return None
        if answer is None and self.modern:
            form = t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))
            return t.InputRequiredResult(
                input_requests={"q-" + name: form}, request_state=signer.dumps(settled, self.salt)
            )
        if answer is None:
            try:
                result = await self.ctx.session.elicit_form(message, schema, related_request_id=self.ctx.request_id)
                answer = result.model_dump()
            except (MCPError, ValidationError):
                answer = {}
        action = answer.get("action")
        if action in ("decline", "cancel"):
            return say(f"The question about the {name} was {'declined' if action == 'decline' else 'cancelled'}.")
        content = answer.get("content")
        if action != "accept" or not isinstance(content, dict) or content.get(name) not in choices:
            raise MCPError(t.INVALID_PARAMS, f"The answer about the {name} does not fit.")
        return content[name]


async def call_tool(ctx, params):
    location = (params.arguments or {}).get("location")
    if params.name != "weather" or list(params.arguments or ()) != ["location"] or not isinstance(location, str):
        raise MCPError(t.INVALID_PARAMS, "Call weather with a location.")
    if not 0 < len(location) <= 100:
        raise MCPError(t.INVALID_PARAMS, "A location is 1 to 100 characters long.")
    meta = (ctx.params or {}).get("_meta") or {}
    salt = ["weather", location, meta.get("mrtr-options/principal")]
    state, answers = {}, {}
    if params.request_state is not None:
        if len(params.request_state) > 16384:
            raise MCPError(t.INVALID_PARAMS, "This requestState is too long.")
        try:
            state, answers = signer.loads(params.request_state, salt), meta.get("answers") or {}
        except BadSignature as why:
            raise MCPError(t.INVALID_PARAMS, f"This requestState is no good: {why}.") from None
    ledger("audit", location)
    names = find(location)
    if not names:
        return say("There is no such place.", is_error=True)
    asker = Asker(ctx, answers, salt)
    place = state.get("place") or (names[0] if len(names) == 1 else None)
    if place is None:
        place = await asker.ask("place", f"Which {bare(location)}?", names, {})
        if place is None:
            return say(f"Name the place: {' or '.join(names)}.", is_error=True)
        if not isinstance(place, str):
            return place
    units = await asker.ask("units", f"Which units for {place}?", UNITS, {"place": place})
    if not isinstance(units, str | None):
        return units
    ledger("bill", place)
    return say(report(place, units))


async def list_tools(ctx, params):
    location = {"type": "string", "minLength": 1, "maxLength": 100}
    schema = {"type": "object", "properties": {"location": location}, "required": ["location"],
              "additionalProperties": False}
    output = {"type": "object", "properties": {"says": {"type": "string"}}, "required": ["says"]}
    return t.ListToolsResult(tools=[t.Tool(name="weather", input_schema=schema, output_schema=output)])


async def answers_to_meta(ctx, call_next):
    if ctx.method == "tools/call" and isinstance((ctx.params or {}).get("_meta", {}), dict):
        params = dict(ctx.params or {})
        params["_meta"] = {k: v for k, v in params.get("_meta", {}).items() if k != "answers"}
        if isinstance(params.get("inputResponses"), dict):
            given = params.pop("inputResponses")
            params["_meta"]["answers"] = {k: v if isinstance(v, dict) else {} for k, v in given.items()}
        ctx = replace(ctx, params=params)
    return await call_next(ctx)


server = Server("weather-zsigner", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(answers_to_meta)
