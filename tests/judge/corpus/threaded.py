"""The weather tool as blocking code: a plain object thinks in a worker thread, the event loop only carries."""

import base64
import hashlib
import json
import os
import sqlite3
import threading
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timezone

import anyio
import anyio.to_thread
import mcp_types as types
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

SKY = {
    "Lisbon, Portugal": (24, "sunny"), "Nairobi, Kenya": (23, "light cloud"), "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"), "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"), "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"), "Tokyo, Japan": (19, "clear"),
}
SECRETS = [s for s in os.environ.get("MRTR_STATE_KEYS", "").split(",") if s] or [os.urandom(32).hex()]
CIPHERS = [AESGCM(hashlib.sha256(s.encode()).digest()) for s in SECRETS]
WORKERS = 4
waiting = ContextVar("waiting", default={})


class Ledger:
    """One connection per thread: SQLite's are not to be shared."""

    def __init__(self, path):
        self.path, self.local = path, threading.local()

    def add(self, kind, subject):
        try:
            if not hasattr(self.local, "db"):
                self.local.db = sqlite3.connect(self.path, timeout=2)
            with self.local.db as db:
                db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                           " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
                db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                           (kind, subject, datetime.now(timezone.utc).isoformat()))
        except sqlite3.Error:
            raise MCPError(types.INTERNAL_ERROR, f"The {kind} failed.") from None


ledger = Ledger(os.environ["MRTR_LEDGER"])


def reply(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


class Question:
    def __init__(self, name, message, choices):
        self.name, self.message, self.choices = name, message, choices
        self.schema = {
            "type": "object",
            "properties": {name: {"type": "string", "enum": choices}},
            "required": [name],
        }

    def misfit(self):
        return MCPError(types.INVALID_PARAMS, f"No fitting answer to the question {self.name}.")


class Job:
    """One request. `step` blocks, and returns a result or the question that it cannot go on without."""

    def __init__(self, params, raw, answers, askable):
        args = params.arguments or {}
        self.location = args.get("location")
        if params.name != "weather" or len(args) != 1 or not isinstance(self.location, str):
            raise MCPError(types.INVALID_PARAMS, "weather takes exactly a location.")
        if not 1 <= len(self.location) <= 100:
            raise MCPError(types.INVALID_PARAMS, "A location has 1 to 100 characters.")
        who = ((raw or {}).get("_meta") or {}).get("mrtr-options/principal")
        self.aad = json.dumps(["weather/1", self.location, who]).encode()
        self.token, self.answers, self.askable = params.request_state, answers, askable
        self.place, self.audited = None, False

    def seal(self):
        nonce, body = os.urandom(12), json.dumps({"place": self.place, "at": time.time()}).encode()
        return base64.urlsafe_b64encode(nonce + CIPHERS[0].encrypt(nonce, body, self.aad)).decode()

    def unseal(self):
        if len(self.token) > 16384:
            raise MCPError(types.INVALID_PARAMS, "The requestState is too long.")
        for cipher in CIPHERS:
            try:
                raw = base64.urlsafe_b64decode(self.token)
                state = json.loads(cipher.decrypt(raw[:12], raw[12:], self.aad))
            except (InvalidTag, ValueError):
                continue
            if time.time() - state["at"] <= 600:
                return state["place"]
        raise MCPError(types.INVALID_PARAMS, "The requestState is not valid for this call, or no longer.")

    def choose(self, question):
        answer = self.answers[question.name]
        action = answer.get("action") if isinstance(answer, dict) else None
        if action in ("decline", "cancel"):
            return reply("The user declined." if action == "decline" else "The user cancelled.")
        content = answer.get("content") if action == "accept" else None
        if not isinstance(content, dict) or content.get(question.name) not in question.choices:
            raise question.misfit()
        return content[question.name]

    def step(self):
        if self.token is not None and not self.audited:
            self.place = self.unseal()
        if not self.audited:
            ledger.add("audit", self.location)
            self.audited = True
        city = self.location.strip(" \t\n\r\f\v")
        names = [n for n in SKY if city.lower() in (n.lower(), n.split(",")[0].lower())]
        if not names:
            return reply(f"I know no place called {city!r}.", is_error=True)
        self.place = names[0] if len(names) == 1 else self.place
        if self.place is None:
            question = Question("place", f"Which {city}?", names)
            if "place" in self.answers:
                place = self.choose(question)
                if not isinstance(place, str):
                    return place
                self.place = place
            elif self.askable:
                return question
            else:
                return reply(f"There is more than one {city}: name the place.", is_error=True)
        question, units = Question("units", f"Which units for {self.place}?", ["metric", "imperial"]), "assumed"
        if "units" in self.answers:
            units = self.choose(question)
            if not isinstance(units, str):
                return units
        elif self.askable:
            return question
        ledger.add("bill", self.place)
        celsius, sky = SKY[self.place]
        degrees = f"{round(celsius * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
        note = " (metric assumed: this client cannot be asked)" if units == "assumed" else ""
        return reply(f"{self.place}: {degrees}, {sky}.{note}")


def can_be_asked(ctx):
    declared = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
    if declared is None or (declared.form is None and declared.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


async def call_tool(ctx, params):
    # Cold answers are not used: before there is a state, nothing was asked.
    answers = dict(waiting.get()) if params.request_state is not None else {}
    job = Job(params, ctx.params, answers, can_be_asked(ctx))
    limiter = ctx.lifespan_context
    while isinstance(need := await anyio.to_thread.run_sync(job.step, limiter=limiter), Question):
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            form = types.ElicitRequestFormParams(message=need.message, requested_schema=need.schema)
            return types.InputRequiredResult(
                input_requests={need.name: types.ElicitRequest(params=form)}, request_state=job.seal()
            )
        # No thread is held while a user thinks.
        try:
            said = await ctx.session.elicit_form(need.message, need.schema, related_request_id=ctx.request_id)
        except (MCPError, ValidationError):
            raise need.misfit() from None
        job.answers[need.name] = said.model_dump()
    return need


async def list_tools(ctx, params):
    location = {"type": "string", "minLength": 1, "maxLength": 100}
    schema = {"type": "object", "properties": {"location": location}, "required": ["location"]}
    schema["additionalProperties"] = False
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=schema)])


@asynccontextmanager
async def workers(server):
    yield anyio.CapacityLimiter(WORKERS)


async def take_answers(ctx, call_next):
    answers = (ctx.params or {}).get("inputResponses")
    if ctx.method != "tools/call" or not isinstance(answers, dict):
        waiting.set({})
        return await call_next(ctx)
    waiting.set(answers)
    return await call_next(replace(ctx, params={**ctx.params, "inputResponses": {}}))


server = Server("weather-threaded", lifespan=workers, on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(take_answers)
