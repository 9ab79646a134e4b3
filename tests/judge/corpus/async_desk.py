"""The weather tool, asynchronous throughout: calls are kept here, the client carries only their names."""

import os
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

TABLE = """Lisbon, Portugal|24|sunny
Nairobi, Kenya|23|light cloud
Portland, Maine|14|fog
Portland, Oregon|16|drizzle
Reykjavik, Iceland|7|windy
Springfield, Illinois|22|partly cloudy
Springfield, Massachusetts|17|rain
Springfield, Missouri|26|sunny
Tokyo, Japan|19|clear"""
PLACES = {name: (int(celsius), sky) for name, celsius, sky in (line.split("|") for line in TABLE.splitlines())}
MAX_AGE = 600
raw_answers: ContextVar[dict[str, Any]] = ContextVar("raw_answers", default={})


@dataclass
class Call:
    location: str
    caller: Any
    place: str | None
    issued: float
    done: dict[tuple[str, str | None], str] = field(default_factory=dict)
    lock: anyio.Lock = field(default_factory=anyio.Lock)


calls: dict[str, Call] = {}
calls_lock = anyio.Lock()


async def keep(location: str, caller: Any, place: str | None) -> str:
    async with calls_lock:
        now = time.time()
        for name in [name for name, call in calls.items() if now - call.issued > MAX_AGE]:
            del calls[name]
        name = secrets.token_urlsafe(24)
        calls[name] = Call(location, caller, place, now)
        return name


async def find(name: str | None, location: str, caller: Any) -> Call | None:
    if name is None:
        return None
    async with calls_lock:
        call = calls.get(name)
    if call is None or time.time() - call.issued > MAX_AGE or (call.location, call.caller) != (location, caller):
        raise MCPError(types.INVALID_PARAMS, "Unknown or expired requestState: call the tool afresh.")
    return call


def write(kind: str, subject: str) -> None:
    with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)) as db, db:
        db.execute("""CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,
                      subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)""")
        at = datetime.now(timezone.utc).isoformat()
        db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)", (kind, subject, at))


async def effect(kind: str, subject: str) -> None:
    try:
        await anyio.to_thread.run_sync(write, kind, subject)
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"{kind} failed, please retry") from None


async def together(*jobs: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Run the jobs at once; the first job that failed, in the order given, speaks for all."""
    results: list[Any] = [None] * len(jobs)
    errors: dict[int, MCPError] = {}

    async def run(index: int, job: Callable[[], Awaitable[Any]]) -> None:
        try:
            results[index] = await job()
        except MCPError as error:
            errors[index] = error

    async with anyio.create_task_group() as group:
        for index, job in enumerate(jobs):
            group.start_soon(run, index, job)
    if errors:
        raise errors[min(errors)]
    return results


def text(words: str, error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=error)


class Ended(Exception):
    """The user does not want to answer."""


def value_of(question: str, choices: list[str], answer: Any) -> str:
    match answer:
        case {"action": "decline"}:
            raise Ended("The question was declined.")
        case {"action": "cancel"}:
            raise Ended("The question was cancelled.")
        case {"action": "accept", "content": {**content}} if content.get(question) in choices:
            return content[question]
    raise MCPError(types.INVALID_PARAMS, f"The answer to {question!r} does not fit.")


async def weather(ctx: Any, location: str, state: str | None) -> Any:
    caller = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    call, _ = await together(lambda: find(state, location, caller), lambda: effect("audit", location))
    spoken = location.strip(" \t\n\r\f\v")
    matches = [p for p in PLACES if spoken.lower() in (p.lower(), p.partition(",")[0].lower())]
    if not matches:
        return text(f"There is no weather for {spoken!r}.", error=True)
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    declared = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
    can_ask = bool(declared) and (declared.form is not None or declared.url is None)
    can_ask = can_ask and (modern or ctx.session.can_send_request)

    async def ask(question: str, message: str, choices: list[str]) -> Any:
        schema: Any = {"type": "object", "properties": {question: {"type": "string", "enum": choices}}}
        schema["required"] = [question]
        if not modern:
            try:
                answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
            except (ValidationError, MCPError):
                raise MCPError(types.INVALID_PARAMS, f"The answer to {question!r} is unusable.") from None
            return value_of(question, choices, answer.model_dump())
        form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        token = await keep(location, caller, place)
        return types.InputRequiredResult(
            input_requests={f"the {question}": types.ElicitRequest(params=form)}, request_state=token
        )

    answers = raw_answers.get() if call else {}
    place = call.place if call else None
    if place is None and len(matches) == 1:
        place = matches[0]
    if place is None:
        if "the place" in answers:
            place = value_of("place", matches, answers["the place"])
        elif not can_ask:
            return text(f"{spoken!r} names several places: give one of {'; '.join(matches)}.", error=True)
        elif isinstance(place := await ask("place", f"Which {spoken}?", matches), types.InputRequiredResult):
            return place
    units = None
    if "the units" in answers:
        units = value_of("units", ["metric", "imperial"], answers["the units"])
    elif can_ask:
        units = await ask("units", f"Which units for {place}?", ["metric", "imperial"])
        if isinstance(units, types.InputRequiredResult):
            return units

    call = call or Call(location, caller, place, time.time())
    async with call.lock:  # a repeated delivery waits here, and finds what the first one did
        if (place, units) not in call.done:
            await effect("bill", place)
            celsius, sky = PLACES[place]
            degrees = f"{celsius * 1.8 + 32:.0f} °F" if units == "imperial" else f"{celsius} °C"
            note = "" if units else " (metric assumed: this client cannot be asked)"
            call.done[place, units] = f"{place}: {degrees}, {sky}.{note}"
    return text(call.done[place, units])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    match params.name, params.arguments:
        case "weather", {"location": str(location), **rest} if not rest and 0 < len(location) <= 100:
            try:
                return await weather(ctx, location, params.request_state)
            except Ended as ended:
                return text(str(ended))
    raise MCPError(types.INVALID_PARAMS, "weather takes one location of 1 to 100 characters")


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    location = {"type": "string", "minLength": 1, "maxLength": 100}
    schema = {"type": "object", "properties": {"location": location}, "required": ["location"]}
    return types.ListToolsResult(
        tools=[types.Tool(name="weather", input_schema={**schema, "additionalProperties": False})]
    )


async def set_aside(ctx: Any, call_next: Any) -> Any:
    """The answers are checked here, against their questions, and not by the SDK."""
    answers = (ctx.params or {}).get("inputResponses")
    raw_answers.set(answers if isinstance(answers, dict) else {})
    if ctx.method == "tools/call" and isinstance(answers, dict):
        ctx = replace(ctx, params={k: v for k, v in ctx.params.items() if k != "inputResponses"})
    return await call_next(ctx)


server = Server("weather-async", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(set_aside)
