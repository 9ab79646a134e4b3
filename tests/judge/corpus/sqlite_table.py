"""What the server knows of a call stays in a table that all instances on a ledger share; an id goes over the wire.

The last round is done once: the state that led to it keeps its answer and its report.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS as MODERN

LEDGER = Path(os.environ.get("MRTR_LEDGER", "ledger.sqlite")).resolve()
FOLDER = Path(tempfile.gettempdir()) / f"weather-{hashlib.sha256(str(LEDGER).encode()).hexdigest()[:24]}"
FOLDER.mkdir(mode=0o700, exist_ok=True)
AGE, LEASE = 600, 5
SCHEMA = {"type": "object", "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
          "required": ["location"], "additionalProperties": False}
PLACES = {"Lisbon, Portugal": "24 sunny", "Nairobi, Kenya": "23 light cloud", "Portland, Maine": "14 fog",
          "Portland, Oregon": "16 drizzle", "Reykjavik, Iceland": "7 windy", "Springfield, Illinois": "22 partly cloudy",
          "Springfield, Massachusetts": "17 rain", "Springfield, Missouri": "26 sunny", "Tokyo, Japan": "19 clear"}
REFUSED = "This requestState is not one that you can use for this call now."


@contextmanager
def open_db(path):
    with closing(sqlite3.connect(path, timeout=3, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


with open_db(LEDGER) as db:
    db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
               " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
with open_db(FOLDER / "rounds.sqlite") as db:
    db.execute("CREATE TABLE IF NOT EXISTS rounds (id TEXT PRIMARY KEY, owner TEXT, place TEXT, born REAL)")
    db.execute("CREATE TABLE IF NOT EXISTS ends (id TEXT PRIMARY KEY, answer TEXT, report TEXT, until REAL)")


def effect(kind, subject, key=None):
    try:
        with open_db(LEDGER) as db:
            db.execute("INSERT INTO effects (kind, subject, key, at) VALUES (?, ?, ?, ?)",
                       (kind, subject, key, datetime.now(timezone.utc).isoformat()))
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"There is no {kind} at the moment. Please retry.") from None


def remember(owner, place):
    name, now = secrets.token_urlsafe(24), time.time()
    with open_db(FOLDER / "rounds.sqlite") as db:
        db.execute("DELETE FROM rounds WHERE born < ?", (now - 2 * AGE,))
        db.execute("DELETE FROM ends WHERE until < ?", (now - 2 * AGE,))
        db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", (name, owner, place, now))
    return name


def recall(name, owner):
    with open_db(FOLDER / "rounds.sqlite") as db:
        row = db.execute("SELECT place, born FROM rounds WHERE id = ? AND owner = ?", (name, owner)).fetchone()
    if row is None or time.time() - row[1] > AGE:
        raise MCPError(types.INVALID_PARAMS, REFUSED)
    return row[0]


def finish(name, answer, place, report):
    """Bill and keep the report, once for each state; None while another delivery is at it."""
    with open_db(FOLDER / "rounds.sqlite") as db:
        row = db.execute("SELECT answer, report, until FROM ends WHERE id = ?", (name,)).fetchone()
        mine = row is None or (row[1] is None and row[2] < time.time())
        if mine:
            db.execute("INSERT OR REPLACE INTO ends VALUES (?, ?, NULL, ?)", (name, answer, time.time() + LEASE))
    if not mine:
        if row[0] != answer:
            raise MCPError(types.INVALID_PARAMS, REFUSED)
        return row[1]
    try:
        effect("bill", place, name)
    except MCPError:
        with open_db(FOLDER / "rounds.sqlite") as db:
            db.execute("DELETE FROM ends WHERE id = ?", (name,))
        raise
    with open_db(FOLDER / "rounds.sqlite") as db:
        db.execute("UPDATE ends SET report = ? WHERE id = ?", (report, name))
    return report


def text(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


def chosen(name, choices, answer):
    if isinstance(answer, dict) and answer.get("action") in ("decline", "cancel"):
        return text({"decline": "It was declined.", "cancel": "It was cancelled."}[answer["action"]])
    content = answer.get("content") if isinstance(answer, dict) and answer.get("action") == "accept" else None
    if isinstance(content, dict) and content.get(name) in choices:
        return content[name]
    raise MCPError(types.INVALID_PARAMS, f"What came for {name} does not fit the question.")


async def question(ctx, owner, place, name, message, choices):
    """A choice, a result that ends the round, or None if no user can be asked."""
    modern, answers = ctx.protocol_version in MODERN, ctx.meta["answers"]
    if modern and name in answers:
        return chosen(name, choices, answers[name])
    can = ctx.session.client_capabilities and ctx.session.client_capabilities.elicitation
    if can is None or (can.url is not None and can.form is None) or not (modern or ctx.session.can_send_request):
        return None
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
    if modern:
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        state = await anyio.to_thread.run_sync(remember, owner, place)
        return types.InputRequiredResult(input_requests={name: form}, request_state=state)
    try:
        reply = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    except (MCPError, ValueError):
        raise MCPError(types.INVALID_PARAMS, f"No answer that fits came for {name}.") from None
    return chosen(name, choices, reply.model_dump())


async def call_tool(ctx, params):
    match params.name, params.arguments:
        case "weather", {"location": str(location), **rest} if not rest and 1 <= len(location) <= 100:
            pass
        case _:
            raise MCPError(types.INVALID_PARAMS, "weather takes one location of 1 to 100 characters.")
    if location.encode(errors="replace") != location.encode(errors="ignore"):
        raise MCPError(types.INVALID_PARAMS, "The location holds half a character.")
    run, state, place = anyio.to_thread.run_sync, params.request_state, None
    principal = ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")
    owner = hashlib.sha256(json.dumps([principal, location]).encode()).hexdigest()
    if state is not None:
        place = await run(recall, state, owner)
    await run(effect, "audit", location)
    asked = location.strip(" \t\n\r\f\v")
    found = [p for p in PLACES if asked.lower() in (p.lower(), p.lower().split(",")[0])]
    if not found:
        return text(f"{asked}: unknown.", is_error=True)
    if place is None and len(found) > 1:
        place = await question(ctx, owner, None, "place", f"Which {asked}?", found)
        if not isinstance(place, str):
            return place or text(f"Please name the place: {' or '.join(found)}.", is_error=True)
    place = place or found[0]
    units = await question(ctx, owner, place, "units", f"Which units for {place}?", ["metric", "imperial"])
    if not isinstance(units, str | None):
        return units
    celsius, _, sky = PLACES[place].partition(" ")
    degrees = f"{round(int(celsius) * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
    report = f"{place}: {degrees}, {sky}." + ("" if units else " (metric assumed: this client cannot be asked)")
    if state is None:
        await run(effect, "bill", place)
        return text(report)
    while (done := await run(finish, state, f"{place} in {units}", place, report)) is None:
        await anyio.sleep(0.05)
    return text(done)


async def with_answers(ctx, call_next):
    params = dict(ctx.params or {})
    if ctx.method == "tools/call" and isinstance(params.get("inputResponses") or {}, dict):
        answers = params.pop("inputResponses", None) or {}
        ctx = replace(ctx, params=params, meta={**(ctx.meta or {}), "answers": answers if params.get("requestState") is not None else {}})
    return await call_next(ctx)


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=SCHEMA)])


server = Server("weather-table", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(with_answers)
