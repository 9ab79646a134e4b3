"""The state is a Fernet token: encrypted, dated and signed, so that the rounds need nothing else."""

import hashlib
import json
import os
import secrets
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import anyio.to_thread
import mcp_types as types
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEDGER = os.environ.get("MRTR_LEDGER", "ledger.sqlite")
SECRETS = [secret for secret in os.environ.get("MRTR_STATE_KEYS", "").split(",") if secret] or [secrets.token_hex()]
BOX = MultiFernet([Fernet(urlsafe_b64encode(hashlib.sha256(secret.encode()).digest())) for secret in SECRETS])
TTL, LIMIT = 600, 16 * 1024
CELSIUS = {"Lisbon, Portugal": 24, "Nairobi, Kenya": 23, "Portland, Maine": 14, "Portland, Oregon": 16,
           "Reykjavik, Iceland": 7, "Springfield, Illinois": 22, "Springfield, Massachusetts": 17,
           "Springfield, Missouri": 26, "Tokyo, Japan": 19}
SKY = dict(zip(CELSIUS, ["sunny", "light cloud", "fog", "drizzle", "windy", "partly cloudy", "rain", "sunny", "clear"]))
BY_NAME = {}
for _place in CELSIUS:
    BY_NAME.setdefault(_place.lower(), []).append(_place)
    BY_NAME.setdefault(_place.split(",")[0].lower(), []).append(_place)

with closing(sqlite3.connect(LEDGER)) as db, db:
    db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
               " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")


@dataclass
class State:
    """What a round leaves for the next one, and whose it is."""

    principal: object
    location: str
    place: str | None = None

    def sealed(self):
        return BOX.encrypt(json.dumps([self.principal, self.location, self.place]).encode()).decode()

    def resume(self, token):
        try:
            if len(token) > LIMIT or urlsafe_b64encode(urlsafe_b64decode(token)) != token.encode():
                raise InvalidToken
            principal, location, self.place = json.loads(BOX.decrypt(token.encode("ascii"), ttl=TTL))
        except (InvalidToken, ValueError):
            raise MCPError(types.INVALID_PARAMS, "requestState is invalid or has expired") from None
        if json.dumps([principal, location]) != json.dumps([self.principal, self.location]):
            raise MCPError(types.INVALID_PARAMS, "requestState is of another call")


class Over(Exception):
    """The round ends here, with this result."""

    def __init__(self, result):
        self.result = result


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


async def record(kind, subject):
    def insert():
        with closing(sqlite3.connect(LEDGER, timeout=2)) as db, db:
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
    try:
        await anyio.to_thread.run_sync(insert)
    except sqlite3.Error:
        raise Over(text(f"The {kind} could not be recorded. Please try again.", is_error=True)) from None


def mute(ctx):
    declared = ctx.session.client_capabilities
    if declared is None or declared.elicitation is None:
        return True
    if declared.elicitation.url is not None and declared.elicitation.form is None:
        return True
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and not ctx.session.can_send_request


async def choose(ctx, answers, state, name, message, choices):
    """The choice of the user, or None if the client cannot be asked."""
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
    if name in answers:
        answer = answers[name]
    elif mute(ctx):
        return None
    elif ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        raise Over(types.InputRequiredResult(input_requests={name: types.ElicitRequest(params=form)},
                                             request_state=state.sealed()))
    else:
        try:
            answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        except (MCPError, ValueError):
            raise MCPError(types.INVALID_PARAMS, f"{name} was asked, and nothing that fits came back") from None
    if not isinstance(answer, types.ElicitResult):
        raise MCPError(types.INVALID_PARAMS, f"{name}: an elicitation result is needed here")
    if answer.action != "accept":
        raise Over(text({"decline": "The user declined to say.", "cancel": "The user cancelled."}[answer.action]))
    value = (answer.content or {}).get(name)
    if value not in choices:
        raise MCPError(types.INVALID_PARAMS, f"{name}: the answer is none of the choices")
    return value


async def weather(ctx, params, state):
    if params.request_state is not None:
        state.resume(params.request_state)
    await record("audit", state.location)
    answers = ctx.meta["typed"] if params.request_state is not None else {}
    words = state.location.strip(" \t\n\r\f\v")
    places = BY_NAME.get(words.lower(), [])
    if not places:
        return text(f"There is no place called {words!r}.", is_error=True)
    if state.place is None and len(places) == 1:
        state.place = places[0]
    if state.place is None:
        state.place = await choose(ctx, answers, state, "place", f"Which {words}?", places)
    if state.place is None:
        return text(f"Call again and name the place: {'; '.join(places)}.", is_error=True)
    units = await choose(ctx, answers, state, "units", f"Which units for {state.place}?", ["metric", "imperial"])
    await record("bill", state.place)
    celsius, note = CELSIUS[state.place], "" if units else " (metric assumed: this client cannot be asked)"
    degrees = f"{round(32 + 1.8 * celsius)} °F" if units == "imperial" else f"{celsius} °C"
    return text(f"{state.place}: {degrees}, {SKY[state.place]}.{note}")


async def call_tool(ctx, params):
    location = (params.arguments or {}).get("location")
    if params.name != "weather" or list(params.arguments or {}) != ["location"] or not isinstance(location, str):
        raise MCPError(types.INVALID_PARAMS, "the tool is weather, and it takes a location")
    if not 1 <= len(location) <= 100 or any("\ud800" <= c <= "\udfff" for c in location):
        raise MCPError(types.INVALID_PARAMS, "a location has 1 to 100 characters")
    principal = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    try:
        return await weather(ctx, params, State(principal, location))
    except Over as over:
        return over.result


async def typed_answers(ctx, call_next):
    """Type the answers one by one: what is no elicitation result is kept as it is, for its question to refuse."""
    params, typed = dict(ctx.params or {}), {}
    if ctx.method == "tools/call" and isinstance(params.get("inputResponses"), dict):
        for name, answer in params.pop("inputResponses").items():
            if isinstance(answer, dict) and answer.get("action") in ("decline", "cancel"):
                answer = {"action": answer["action"]}
            try:
                typed[name] = types.ElicitResult.model_validate(answer)
            except ValueError:
                typed[name] = answer
    return await call_next(replace(ctx, params=params, meta={**(ctx.meta or {}), "typed": typed}))


async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
              "required": ["location"], "additionalProperties": False}
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=schema)])


server = Server("weather-encrypted", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(typed_answers)
