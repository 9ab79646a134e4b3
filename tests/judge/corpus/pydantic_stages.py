"""Pydantic throughout: the state is a union of stages in an envelope, and a round goes from one to the next."""

import base64
import hashlib
import hmac
import os
import secrets
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
KEYS = [k.encode() for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [secrets.token_bytes(32)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Arguments(Strict):
    location: Annotated[str, Field(min_length=1, max_length=100)]

    @property
    def bare(self):
        return self.location.strip(" \t\n\r\f\v")


class Place(Strict):
    name: str
    celsius: int
    sky: str

    def has_name(self, words):
        return words.lower() in (self.name.lower(), self.name.lower().partition(",")[0])

    def report(self, units):
        degrees = f"{round(self.celsius * 1.8 + 32)} °F" if units == "imperial" else f"{self.celsius} °C"
        note = " (metric assumed: this client cannot be asked)" if units is None else ""
        return f"{self.name}: {degrees}, {self.sky}.{note}"


class PlaceStage(Strict):
    stage: Literal["place"] = "place"


class UnitsStage(Strict):
    stage: Literal["units"] = "units"
    place: str


class Envelope(Strict):
    caller: JsonValue
    location: str
    at: float
    now: Annotated[PlaceStage | UnitsStage, Field(discriminator="stage")]


class Declined(BaseModel):
    action: Literal["decline"]


class Cancelled(BaseModel):
    action: Literal["cancel"]


class Answer(BaseModel):
    """Any elicitation result; what an accept has to hold depends on the question."""

    given: Annotated[Declined | Cancelled | types.ElicitResult, Field(union_mode="left_to_right")]


PLACES = [Place(name=name, celsius=celsius, sky=sky) for name, celsius, sky in [
    ("Lisbon, Portugal", 24, "sunny"), ("Nairobi, Kenya", 23, "light cloud"), ("Portland, Maine", 14, "fog"),
    ("Portland, Oregon", 16, "drizzle"), ("Reykjavik, Iceland", 7, "windy"),
    ("Springfield, Illinois", 22, "partly cloudy"), ("Springfield, Massachusetts", 17, "rain"),
    ("Springfield, Missouri", 26, "sunny"), ("Tokyo, Japan", 19, "clear")]]


def invalid(message):
    return MCPError(types.INVALID_PARAMS, message)


def close(envelope):
    body = envelope.model_dump_json().encode()
    return base64.b64encode(body + hmac.digest(KEYS[0], body, hashlib.sha512)).decode()


def open_envelope(state, caller, location):
    try:
        raw = base64.b64decode(state, validate=True) if len(state) <= 16384 else b""
        body, tag = raw[:-64], raw[-64:]
        if not any(hmac.compare_digest(tag, hmac.digest(key, body, hashlib.sha512)) for key in KEYS):
            raise ValueError
        envelope = Envelope.model_validate_json(body)
    except ValueError:
        raise invalid("The requestState is not ours.") from None
    if (type(envelope.caller), envelope.caller, envelope.location) != (type(caller), caller, location):
        raise invalid("The requestState is of another call.")
    if time.time() - envelope.at > 600:
        raise invalid("The requestState has expired.")
    return envelope.now


async def effect(kind, subject):
    def insert():
        with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
    try:
        await anyio.to_thread.run_sync(insert)
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"No {kind} could be written. Please try again.") from None


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


async def ask(ctx, envelope, message, choices):
    """The choice; None where no user can be asked; or what the round ends in."""
    name, answers = envelope.now.stage, ctx.meta["raw"]
    elicitation = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
    if not modern or name not in answers:
        if not elicitation or (elicitation.url and not elicitation.form):
            return None
        if not modern and not ctx.session.can_send_request:
            return None
    if modern and name not in answers:
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        return types.InputRequiredResult(input_requests={name: form}, request_state=close(envelope))
    try:
        given = Answer(given=answers[name]).given if modern else await ctx.session.elicit_form(
            message, schema, related_request_id=ctx.request_id)
    except (MCPError, ValidationError):
        raise invalid(f"What came back for {name} is no elicitation result.") from None
    if given.action != "accept":
        return text("The call ended: " + {"decline": "declined.", "cancel": "cancelled."}[given.action])
    if not given.content or given.content.get(name) not in choices:
        raise invalid(f"The answer to {name} is not among the choices.")
    return given.content[name]


async def weather(ctx, caller, arguments, now):
    def envelope():
        return Envelope(caller=caller, location=arguments.location, at=time.time(), now=now)

    await effect("audit", arguments.location)
    found = [place for place in PLACES if place.has_name(arguments.bare)]
    if not found:
        return text(f"No place is called {arguments.bare!r}.", is_error=True)
    if now is None:
        now = PlaceStage() if len(found) > 1 else UnitsStage(place=found[0].name)
    if isinstance(now, PlaceStage):
        choice = await ask(ctx, envelope(), f"Which {arguments.bare}?", [place.name for place in found])
        if choice is None:
            return text(f"Name the place, one of {'; '.join(place.name for place in found)}.", is_error=True)
        if not isinstance(choice, str):
            return choice
        now = UnitsStage(place=choice)
    units = await ask(ctx, envelope(), f"Which units for {now.place}?", ["metric", "imperial"])
    if not isinstance(units, str | None):
        return units
    await effect("bill", now.place)
    return text(next(place for place in found if place.name == now.place).report(units))


async def call_tool(ctx, params):
    try:
        if params.name != "weather":
            raise ValueError
        arguments = Arguments.model_validate(params.arguments or {})
    except ValueError:
        raise invalid("The tool is weather, and its argument a location of 1 to 100 characters.") from None
    caller = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    state = params.request_state
    now = None if state is None else open_envelope(state, caller, arguments.location)
    return await weather(ctx, caller, arguments, now)


async def list_tools(ctx, params):
    schema = {"type": "object", "additionalProperties": False, **Arguments.model_json_schema()}
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=schema)])


async def raw(ctx, call_next):
    params: dict[str, Any] = dict(ctx.params or {})
    if ctx.method == "tools/call" and isinstance(params.get("inputResponses") or {}, dict):
        answers = params.pop("inputResponses", None) or {}
        ctx = replace(ctx, params=params, meta={**(ctx.meta or {}), "raw": answers if params.get("requestState") is not None else {}})
    return await call_next(ctx)


def build_server():
    with closing(sqlite3.connect(LEDGER)) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                   " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
    server = Server("weather-pydantic", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(raw)
    return server
