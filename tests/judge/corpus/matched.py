"""The weather tool as data: dataclasses for what can come and go, match statements for what follows."""

import json
import os
import sqlite3
from base64 import urlsafe_b64encode
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import mcp_types as mt
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError


@dataclass(frozen=True)
class Place:
    name: str
    celsius: int
    sky: str

    @property
    def city(self) -> str:
        return self.name.split(", ")[0]


@dataclass(frozen=True)
class Question:
    name: str
    message: str
    choices: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        field = {"type": "string", "enum": list(self.choices)}
        return {"type": "object", "properties": {self.name: field}, "required": [self.name]}


@dataclass(frozen=True)
class Given:
    value: str


@dataclass(frozen=True)
class Refused:
    word: str


@dataclass(frozen=True)
class Pending:
    result: mt.InputRequiredResult | None


PLACES = [
    Place("Lisbon, Portugal", 24, "sunny"), Place("Nairobi, Kenya", 23, "light cloud"),
    Place("Portland, Maine", 14, "fog"), Place("Portland, Oregon", 16, "drizzle"),
    Place("Reykjavik, Iceland", 7, "windy"), Place("Springfield, Illinois", 22, "partly cloudy"),
    Place("Springfield, Massachusetts", 17, "rain"), Place("Springfield, Missouri", 26, "sunny"),
    Place("Tokyo, Japan", 19, "clear"),
]
keys = [k for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [os.urandom(32).hex()]
box = MultiFernet([Fernet(urlsafe_b64encode(blake2b(k.encode(), digest_size=32).digest())) for k in keys])
incoming: ContextVar[dict[str, Any]] = ContextVar("incoming")


def bad(message: str) -> MCPError:
    return MCPError(mt.INVALID_PARAMS, message)


def text(words: str, is_error: bool = False) -> mt.CallToolResult:
    return mt.CallToolResult(content=[mt.TextContent(type="text", text=words)], is_error=is_error)


def effect(kind: str, subject: str) -> None:
    now = datetime.now(UTC).isoformat()
    try:
        with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)", (kind, subject, now))
    except sqlite3.Error:
        raise MCPError(mt.INTERNAL_ERROR, f"effect {kind} failed") from None


@dataclass(frozen=True)
class Round:
    ctx: Any
    location: str
    caller: str | None
    settled: str | None
    answers: dict[str, Any]
    can_ask: bool

    async def answer(self, question: Question) -> Given | Refused | Pending:
        heard = self.answers.get(question.name)
        if heard is None and self.can_ask:
            if self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return Pending(self.asking(question))
            try:
                said = await self.ctx.session.elicit_form(
                    question.message, question.schema, related_request_id=self.ctx.request_id
                )
            except (MCPError, ValidationError):
                raise bad(f"no usable answer to {question.name}") from None
            heard = said.model_dump(exclude_none=True)
        match heard:
            case None:
                return Pending(None)
            case {"action": "accept", "content": dict(content)}:
                match content.get(question.name):
                    case str(value) if value in question.choices:
                        return Given(value)
            case {"action": "decline"}:
                return Refused("declined")
            case {"action": "cancel"}:
                return Refused("cancelled")
        raise bad(f"the answer to {question.name} has to be one of {', '.join(question.choices)}")

    def asking(self, question: Question) -> mt.InputRequiredResult:
        form = mt.ElicitRequestFormParams(message=question.message, requested_schema=question.schema)
        place = question.message[len("Which units for "):-1] if question.name == "units" else None
        state = box.encrypt(json.dumps([self.location, self.caller, place]).encode()).decode()
        return mt.InputRequiredResult(
            input_requests={question.name: mt.ElicitRequest(params=form)}, request_state=state
        )

    async def run(self) -> mt.CallToolResult | mt.InputRequiredResult:
        effect("audit", self.location)
        wanted = self.location.strip(" \t\n\r\f\v")
        match [p for p in PLACES if wanted.lower() in (p.name.lower(), p.city.lower())]:
            case []:
                return text(f"There is no weather station in {wanted!r}.", is_error=True)
            case [place]:
                pass
            case several if self.settled:
                place = next(p for p in several if p.name == self.settled)
            case several:
                match await self.answer(Question("place", f"Which {wanted}?", tuple(p.name for p in several))):
                    case Given(name):
                        place = next(p for p in several if p.name == name)
                    case Refused(word):
                        return text(f"Which place it is was {word}.")
                    case Pending(None):
                        return text(f"There are {len(several)} of {wanted!r}; name the place in full.", is_error=True)
                    case Pending(result):
                        return result
        match await self.answer(Question("units", f"Which units for {place.name}?", ("metric", "imperial"))):
            case Given("imperial"):
                report = f"{place.name}: {round(place.celsius * 1.8 + 32)} °F, {place.sky}."
            case Given():
                report = f"{place.name}: {place.celsius} °C, {place.sky}."
            case Refused(word):
                return text(f"The choice of units was {word}.")
            case Pending(None):
                assumed = "(metric assumed: this client cannot be asked)"
                report = f"{place.name}: {place.celsius} °C, {place.sky}. {assumed}"
            case Pending(result):
                return result
        effect("bill", place.name)
        return text(report)


async def call_tool(ctx: Any, params: mt.CallToolRequestParams) -> Any:
    match params:
        case mt.CallToolRequestParams(name="weather", arguments={"location": str(location), **rest}):
            if rest or not 1 <= len(location) <= 100:
                raise bad("weather takes a location of 1 to 100 characters and nothing else")
        case _:
            raise bad("weather takes a location")
    caller = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    settled, answers = None, {}
    if (token := params.request_state) is not None:
        try:
            if len(token) > 16384:
                raise InvalidToken
            sealed = json.loads(box.decrypt(token, ttl=595))
        except (InvalidToken, ValueError):
            raise bad("requestState is not valid (any more)") from None
        if sealed[:2] != [location, caller]:
            raise bad("requestState belongs to another call")
        settled, answers = sealed[2], incoming.get()
    match ctx.session.client_capabilities:
        case mt.ClientCapabilities(elicitation=mt.ElicitationCapability(form=None, url=None)):
            can_ask = True
        case mt.ClientCapabilities(elicitation=mt.ElicitationCapability(form=form)):
            can_ask = form is not None
        case _:
            can_ask = False
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        can_ask = can_ask and ctx.session.can_send_request
    return await Round(ctx, location, caller, settled, answers, can_ask).run()


async def list_tools(ctx: Any, params: Any) -> mt.ListToolsResult:
    location = {"type": "string", "title": "A place or a city", "minLength": 1, "maxLength": 100}
    schema = {"type": "object", "properties": {"location": location}, "required": ["location"]}
    return mt.ListToolsResult(
        tools=[mt.Tool(name="weather", input_schema={**schema, "additionalProperties": False})]
    )


async def unpack(ctx: Any, call_next: Any) -> Any:
    match ctx.method, ctx.params:
        case "tools/call", {"inputResponses": dict(answers), **rest}:
            # An answer of null is there, and fits no form.
            incoming.set({k: {} if v is None else v for k, v in answers.items()})
            ctx = replace(ctx, params=rest)
        case _:
            incoming.set({})
    return await call_next(ctx)


server = Server("weather-matched", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(unpack)
