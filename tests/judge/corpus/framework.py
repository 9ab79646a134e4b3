"""The weather tool on a small framework: a tool is a list of steps behind a chain of checks, with an outbox."""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

RAW = "framework/answers"
MAX_AGE = 600


def invalid(message):
    return MCPError(types.INVALID_PARAMS, message)


@dataclass
class Call:
    """One round of one call: what the checks found out, what the steps decided, what is still to be done."""

    ctx: Any
    params: Any
    location: str = ""
    caller: Any = None
    askable: bool = False
    resumed: bool = False
    answers: dict = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    outbox: list = field(default_factory=list)
    result: Any = None

    def effect(self, kind, subject):
        self.outbox.append((kind, subject))

    def finish(self, words, is_error=False):
        self.result = types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)

    @property
    def modern(self):
        return self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


class Tool:
    def __init__(self, name, schema, keys):
        self.name, self.schema, self.keys = name, schema, keys
        self.steps, self.checks = [], []

    def step(self, function):
        self.steps.append(function)
        return function

    def check(self, function):
        self.checks.append(function)
        return function

    async def __call__(self, ctx, params):
        chain = self.run
        for check in reversed(self.checks):
            chain = partial(check, self, chain)
        return await chain(Call(ctx, params))

    async def run(self, call):
        for step in self.steps:
            await step(self, call)
            if call.result is not None:
                break
        self.flush(call)
        return call.result

    def flush(self, call):
        """All effects of a round happen together, before its response; or none does and the round fails."""
        try:
            with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
                db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                           " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
                at = datetime.now(timezone.utc).isoformat()
                rows = [(kind, subject, at) for kind, subject in call.outbox]
                db.executemany("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)", rows)
        except sqlite3.Error:
            raise MCPError(types.INTERNAL_ERROR, "Nothing was done, because the ledger failed.") from None

    def sign(self, key, call, body):
        bound = json.dumps([self.name, call.params.arguments, call.caller], sort_keys=True).encode()
        return hmac.digest(key, hashlib.sha256(bound).digest() + body, "sha256")

    def seal(self, call):
        body = json.dumps({"facts": call.facts, "at": time.time()}).encode()
        return ".".join(base64.b64encode(raw).decode() for raw in (body, self.sign(self.keys[0], call, body)))

    def unseal(self, call, token):
        try:
            body, tag = (base64.b64decode(word, validate=True) for word in token.split("."))
        except ValueError:
            raise invalid("requestState: malformed") from None
        if len(token) > 16384 or not any(hmac.compare_digest(tag, self.sign(key, call, body)) for key in self.keys):
            raise invalid("requestState: not from here, or not for this")
        state = json.loads(body)
        if time.time() - state["at"] > MAX_AGE:
            raise invalid("requestState: too old")
        return state["facts"]

    async def ask(self, call, name, message, choices):
        """Settle the fact `name`, or end the round. Without an answer and without a way to ask, do neither."""
        schema = {"type": "object", "properties": {name: {"type": "string", "enum": choices}}, "required": [name]}
        if name not in call.answers:
            if not call.askable:
                return
            if call.modern:
                form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
                call.result = types.InputRequiredResult(
                    input_requests={f"{self.name}-{name}": types.ElicitRequest(params=form)},
                    request_state=self.seal(call),
                )
                return
            try:
                said = await call.ctx.session.elicit_form(message, schema, related_request_id=call.ctx.request_id)
            except (MCPError, ValidationError):
                raise invalid(f"{name}: not an elicitation result") from None
            call.answers[name] = said.model_dump(exclude_none=True)
        answer = call.answers[name] if isinstance(call.answers[name], dict) else {}
        match answer.get("action"):
            case "decline" | "cancel" as action:
                call.finish(f"The {name} question was {dict(decline='declined', cancel='cancelled')[action]}.")
            case "accept" if Draft202012Validator(schema).is_valid(answer.get("content")):
                call.facts[name] = answer["content"][name]
            case _:
                raise invalid(f"{name}: the answer does not fit its form")


weather = Tool(
    "weather",
    {
        "type": "object",
        "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
        "required": ["location"],
        "additionalProperties": False,
    },
    [key.encode() for key in os.environ.get("MRTR_STATE_KEYS", "").split(",") if key] or [os.urandom(32)],
)
PLACES = {
    "Lisbon, Portugal": (24, "sunny"), "Nairobi, Kenya": (23, "light cloud"), "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"), "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"), "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"), "Tokyo, Japan": (19, "clear"),
}


@weather.check
async def arguments(tool, chain, call):
    if call.params.name != tool.name or not Draft202012Validator(tool.schema).is_valid(call.params.arguments or {}):
        raise invalid("unknown tool, or arguments that do not fit it")
    call.location = call.params.arguments["location"]
    return await chain(call)


@weather.check
async def state(tool, chain, call):
    meta = (call.ctx.params or {}).get("_meta") or {}
    call.caller = meta.get("mrtr-options/principal")
    if call.params.request_state is not None:
        call.facts, call.resumed = tool.unseal(call, call.params.request_state), True
    prefix = f"{tool.name}-"
    call.answers = {k.removeprefix(prefix): v for k, v in meta.get(RAW, {}).items() if k.startswith(prefix)}
    return await chain(call)


@weather.check
async def client(tool, chain, call):
    declared = call.ctx.session.client_capabilities and call.ctx.session.client_capabilities.elicitation
    if declared is not None and (declared.form is not None or declared.url is None):
        call.askable = call.modern or call.ctx.session.can_send_request
    if not call.askable and not call.resumed:
        call.answers = {}
    return await chain(call)


@weather.step
async def audit(tool, call):
    call.effect("audit", call.location)


@weather.step
async def which_place(tool, call):
    name = call.location.strip(" \t\n\r\f\v")
    found = [place for place in PLACES if name.lower() in (place.lower(), place.split(",")[0].lower())]
    if not found:
        call.finish(f"{name}: unknown place", is_error=True)
    elif len(found) == 1:
        call.facts["place"] = found[0]
    elif "place" not in call.facts:
        await tool.ask(call, "place", f"Which {name}?", found)
        if call.result is None and "place" not in call.facts:
            call.finish(f"{name}: several places, name the place with its state", is_error=True)


@weather.step
async def which_units(tool, call):
    await tool.ask(call, "units", f"Which units for {call.facts['place']}?", ["metric", "imperial"])


@weather.step
async def report(tool, call):
    place, units = call.facts["place"], call.facts.get("units")
    call.effect("bill", place)
    celsius, sky = PLACES[place]
    degrees = f"{round(celsius * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
    call.finish(f"{place}: {degrees}, {sky}." + ("" if units else " (metric assumed: this client cannot be asked)"))


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name=weather.name, input_schema=weather.schema)])


async def keep_raw(ctx, call_next):
    if ctx.method == "tools/call" and isinstance((ctx.params or {}).get("_meta", {}), dict):
        params = dict(ctx.params or {})
        raw = params.pop("inputResponses") if isinstance(params.get("inputResponses"), dict) else {}
        ctx = replace(ctx, params={**params, "_meta": {**params.get("_meta", {}), RAW: raw}})
    return await call_next(ctx)


server = Server("weather-framework", on_list_tools=list_tools, on_call_tool=weather)
server.middleware.append(keep_raw)
