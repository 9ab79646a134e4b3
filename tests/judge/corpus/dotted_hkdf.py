"""The weather tool with a state of three parts, each with a MAC of its own that also covers the part before."""

import base64
import binascii
import contextvars
import dataclasses
import hmac
import json
import os
import secrets
import sqlite3
import time
from datetime import datetime, timezone

import mcp_types as types
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

PARTS = ("stamp", "call", "answers")
MAX_AGE, MAX_LENGTH = 600, 16 * 1024
SPACE = " \t\n\r\f\v"
ROWS = [
    ("Lisbon", "Portugal", 24, "sunny"),
    ("Nairobi", "Kenya", 23, "light cloud"),
    ("Portland", "Maine", 14, "fog"),
    ("Portland", "Oregon", 16, "drizzle"),
    ("Reykjavik", "Iceland", 7, "windy"),
    ("Springfield", "Illinois", 22, "partly cloudy"),
    ("Springfield", "Massachusetts", 17, "rain"),
    ("Springfield", "Missouri", 26, "sunny"),
    ("Tokyo", "Japan", 19, "clear"),
]
given: contextvars.ContextVar[dict] = contextvars.ContextVar("given", default={})


def ring(secret):
    """One key for each part, derived from one secret."""
    return {
        part: HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"weather " + part.encode()).derive(secret)
        for part in PARTS
    }


RINGS = [ring(k.encode()) for k in os.environ.get("MRTR_STATE_KEYS", "").split(",") if k] or [ring(os.urandom(32))]


def invalid(message):
    return MCPError(types.INVALID_PARAMS, message)


def enc(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def dec(word):
    return base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)


def mac_of(key, before, body):
    return hmac.digest(key, before + body, "sha256")


def seal(call, answers):
    before, words = b"", []
    for part, value in zip(PARTS, ([time.time(), secrets.token_hex(8)], call, answers)):
        body = json.dumps(value).encode()
        before = mac_of(RINGS[0][part], before, body)
        words += [enc(body), enc(before)]
    return ".".join(words)


def check(token, keys):
    """The three values of a token that these keys protected; ValueError for any other token."""
    words = [dec(word) for word in token.split(".")]
    if len(words) != 2 * len(PARTS):
        raise ValueError("wrong number of parts")
    before, values = b"", []
    for part, body, mac in zip(PARTS, words[::2], words[1::2]):
        if not hmac.compare_digest(mac_of(keys[part], before, body), mac):
            raise ValueError(f"the {part} was changed")
        before = mac
        values.append(json.loads(body))
    return values


def unseal(token, call):
    if len(token) > MAX_LENGTH:
        raise invalid("The state is too long.")
    for keys in RINGS:
        try:
            (issued, _), bound, answers = check(token, keys)
        except (ValueError, binascii.Error):
            continue
        if bound != call:
            raise invalid("The state belongs to another call.")
        if time.time() - issued > MAX_AGE:
            raise invalid("The state has expired; call the tool again.")
        return answers
    raise invalid("The state is not one of this server's.")


def add_effect(kind, subject):
    try:
        db = sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=2)
        try:
            db.execute("CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                       " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)")
            db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
                       (kind, subject, datetime.now(timezone.utc).isoformat()))
            db.commit()
        finally:
            db.close()
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"The effect {kind} failed.") from None


def says(words, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=is_error)


def can_be_asked(ctx):
    declared = getattr(ctx.session.client_capabilities, "elicitation", None)
    if declared is None or (declared.form is None and declared.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


def form_of(name, choices):
    return {"type": "object", "properties": {name: {"type": "string", "enum": choices}}, "required": [name]}


async def pushed(ctx, name, message, choices):
    """The answer of a legacy client's user, in the shape that answers have on the wire."""
    try:
        result = await ctx.session.elicit_form(message, form_of(name, choices), related_request_id=ctx.request_id)
    except (MCPError, ValidationError):
        raise invalid(f"The answer to {name} is no elicitation result.") from None
    return result.model_dump()


def value_in(answer, name, choices):
    """`(value, None)` of an accepted answer that fits, `(None, word)` of a refusal."""
    if isinstance(answer, dict):
        action, content = answer.get("action"), answer.get("content")
        if action == "accept" and isinstance(content, dict) and content.get(name) in choices:
            return content[name], None
        if action == "decline" or action == "cancel":
            return None, "declined" if action == "decline" else "cancelled"
    raise invalid(f"The answer to {name} does not fit the form.")


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    location = arguments.get("location")
    if params.name != "weather" or set(arguments) != {"location"}:
        raise invalid("The tool is called weather and takes a location.")
    if not isinstance(location, str) or not 1 <= len(location) <= 100:
        raise invalid("The location is a string of 1 to 100 characters.")
    call = [location, ((ctx.params or {}).get("_meta") or {}).get("mrtr-options/principal")]
    known = {} if params.request_state is None else unseal(params.request_state, call)
    add_effect("audit", location)

    city = location.strip(SPACE)
    sky = {f"{c}, {r}": (celsius, words) for c, r, celsius, words in ROWS if city.lower() in (c.lower(), f"{c}, {r}".lower())}
    if not sky:
        return says(f"{city!r} is not a place that has weather here.", True)
    askable = can_be_asked(ctx)
    heard = given.get() if askable or params.request_state is not None else {}
    if len(sky) == 1:
        known["place"] = next(iter(sky))
    for name, choices in (("place", list(sky)), ("units", ["metric", "imperial"])):
        if name in known:
            continue
        message = f"Which {city}?" if name == "place" else f"Which units for {known['place']}?"
        if name in heard:
            answer = heard[name]
        elif not askable:
            if params.request_state is not None:
                raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This call needs elicitation.",
                               {"requiredCapabilities": {"elicitation": {"form": {}}}})
            if name == "place":
                return says(f"Several places are called {city!r}: name one of them in full.", True)
            break
        elif ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            form = types.ElicitRequestFormParams(message=message, requested_schema=form_of(name, choices))
            return types.InputRequiredResult(
                input_requests={name: types.ElicitRequest(params=form)}, request_state=seal(call, known)
            )
        else:
            answer = await pushed(ctx, name, message, choices)
        known[name], refusal = value_in(answer, name, choices)
        if refusal:
            return says(f"You {refusal} the question about the {name}.")

    place = known["place"]
    add_effect("bill", place)
    celsius, words = sky[place]
    if known.get("units") == "imperial":
        return says(f"{place}: {round(celsius * 1.8 + 32)} °F, {words}.")
    assumed = "" if "units" in known else " (metric assumed: this client cannot be asked)"
    return says(f"{place}: {celsius} °C, {words}.{assumed}")


async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}}}
    schema |= {"required": ["location"], "additionalProperties": False}
    return types.ListToolsResult(tools=[types.Tool(name="weather", input_schema=schema)])


async def take_answers(ctx, call_next):
    responses = (ctx.params or {}).get("inputResponses") if ctx.method == "tools/call" else None
    if isinstance(responses, dict):
        ctx = dataclasses.replace(ctx, params={**ctx.params, "inputResponses": {}})
    given.set(responses if isinstance(responses, dict) else {})
    return await call_next(ctx)


server = Server("weather-dotted", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(take_answers)
