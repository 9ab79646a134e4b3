"""The weather tool with exceptions for everything that is not the straight way to a report."""

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import sqlite3
import time
from datetime import datetime, timezone

import mcp_types as t
import pydantic
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

FORECAST = {
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
KEYS = [k.encode() for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [os.urandom(32)]


class Ask(Exception):
    """This question has no answer yet."""

    def __init__(self, name, message, choices):
        self.name, self.message = name, message
        self.schema = {"type": "object", "properties": {name: {"type": "string", "enum": choices}}}
        self.schema["required"] = [name]


class End(Exception):
    """The call ends here, with these words."""

    is_error = False


class Fail(End):
    is_error = True


class Invalid(MCPError):
    def __init__(self, message):
        super().__init__(t.INVALID_PARAMS, message)


@contextlib.contextmanager
def ledger():
    try:
        with contextlib.closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            yield db
    except sqlite3.Error:
        raise MCPError(t.INTERNAL_ERROR, "The ledger failed; the call may be retried.") from None


def effect(kind, subject):
    with ledger() as db:
        values = kind, subject, datetime.now(timezone.utc).isoformat()
        db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)", values)


class State(dict):
    """Answers by question, for one location of one caller."""

    def __init__(self, location, caller, answers=()):
        super().__init__(answers)
        self.owner = json.dumps([location, caller])

    def mac(self, key, body):
        owner = hashlib.sha256(self.owner.encode()).digest()
        return hmac.digest(key, b"weather state" + owner + body, "sha512")

    def seal(self):
        body = json.dumps({"answers": self, "issued": time.time()}).encode()
        return base64.urlsafe_b64encode(body + self.mac(KEYS[0], body)).decode()

    def load(self, token):
        try:
            raw = base64.urlsafe_b64decode(token) if len(token) <= 16384 else b""
        except ValueError:
            raise Invalid("requestState: not ours") from None
        body, mac = raw[:-64], raw[-64:]
        if not any(hmac.compare_digest(mac, self.mac(key, body)) for key in KEYS):
            raise Invalid("requestState: not ours, or of another call")
        content = json.loads(body)
        if time.time() - content["issued"] > 600:
            raise Invalid("requestState: expired")
        self.update(content["answers"])


def settle(state, answers, can_ask, name, message, choices):
    """The value of a question, from the state or from this round's answers; or raise what happens instead."""
    if name in state:
        return state[name]
    try:
        answer = answers.pop(name)
    except KeyError:
        if can_ask:
            raise Ask(name, message, choices) from None
        raise LookupError(name) from None
    try:
        action = answer["action"]
        value = answer["content"][name] if action == "accept" else None
    except (TypeError, KeyError):
        raise Invalid(f"{name}: this is no answer to it") from None
    if action in ("decline", "cancel"):
        raise End(f"{name}: {'declined' if action == 'decline' else 'cancelled'}")
    if action != "accept" or value not in choices:
        raise Invalid(f"{name}: the answer does not fit")
    state[name] = value
    return value


def weather(location, state, answers, can_ask):
    name = location.strip(" \t\n\r\f\v")
    choices = [p for p in FORECAST if name.lower() in (p.lower(), p.split(",")[0].lower())]
    if not choices:
        raise Fail(f"{name}: no such place")
    try:
        place = choices[0] if len(choices) == 1 else settle(
            state, answers, can_ask, "place", f"Which {name}?", choices)
    except LookupError:
        raise Fail(f"{name}: name the place, as in {choices[-1]!r}") from None
    celsius, sky = FORECAST[place]
    try:
        units = settle(state, answers, can_ask, "units", f"Which units for {place}?", ["metric", "imperial"])
    except LookupError:
        report = f"{place}: {celsius} °C, {sky}. (metric assumed: this client cannot be asked)"
    else:
        degrees = {"metric": f"{celsius} °C", "imperial": f"{round(celsius * 1.8 + 32)} °F"}[units]
        report = f"{place}: {degrees}, {sky}."
    effect("bill", place)
    raise End(report)


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    if params.name != "weather" or arguments.keys() != {"location"}:
        raise Invalid("weather, with a location")
    location = arguments["location"]
    if not isinstance(location, str) or not 1 <= len(location) <= 100:
        raise Invalid("location: a string of 1 to 100 characters")
    meta = (ctx.params or {}).get("_meta") or {}
    state, answers = State(location, meta.get("mrtr-options/principal")), {}
    if params.request_state is not None:
        state.load(params.request_state)
        answers = dict(meta.get("weather/raw", {}))
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    try:
        forms = ctx.session.client_capabilities.elicitation
        can_ask = (forms.form is not None or forms.url is None) and (modern or ctx.session.can_send_request)
    except AttributeError:
        can_ask = False
    effect("audit", location)
    while True:
        try:
            weather(location, state, answers, can_ask)
        except End as end:
            return t.CallToolResult(content=[t.TextContent(type="text", text=str(end))], is_error=end.is_error)
        except Ask as ask:
            if modern:
                form = t.ElicitRequestFormParams(message=ask.message, requested_schema=ask.schema)
                requests = {ask.name: t.ElicitRequest(params=form)}
                return t.InputRequiredResult(input_requests=requests, request_state=state.seal())
            try:
                said = await ctx.session.elicit_form(ask.message, ask.schema, related_request_id=ctx.request_id)
            except (MCPError, pydantic.ValidationError):
                raise Invalid(f"{ask.name}: this is no answer to it") from None
            answers[ask.name] = said.model_dump()


async def list_tools(ctx, params):
    location = {"type": "string", "minLength": 1, "maxLength": 100, "description": "A place or a city"}
    schema = {"type": "object", "properties": {"location": location}, "required": ["location"]}
    schema["additionalProperties"] = False
    return t.ListToolsResult(tools=[t.Tool(name="weather", input_schema=schema)])


async def raw_answers(ctx, call_next):
    """The SDK would refuse a malformed answer before anybody can say which question it was for."""
    try:
        params = dict(ctx.params or {}) if ctx.method == "tools/call" else {}
        meta = {**params["_meta"], "weather/raw": {}}
    except (KeyError, TypeError):
        return await call_next(ctx)
    if isinstance(params.get("inputResponses"), dict):
        meta["weather/raw"] = params.pop("inputResponses")
    return await call_next(dataclasses.replace(ctx, params={**params, "_meta": meta}))


server = Server("weather-raising", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(raw_answers)
