"""The weather tool by hand, on JSON-RPC over HTTP: a server with the habits of another SDK.

Knows the contract page and the domain of the servers in Python; nothing of this package.
"""

import json
import sqlite3
import threading
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from itsdangerous import BadSignature, Signer

from scoreboard.servers.domain.weather import places, report

UNITS = ["metric", "imperial"]
INVALID = -32602
KEY = b"0123456789abcdef0123456789abcdef"
JSON = {"Content-Type": "application/json"}
SCHEMA = {
    "type": "object",
    "properties": {"location": {"type": "string", "minLength": 1, "maxLength": 100}},
    "required": ["location"],
    "additionalProperties": False,
}


class Error(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def text(words: str, *, is_error: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    return {"resultType": "complete", "content": content, "isError": is_error}


def location_of(params: dict[str, Any]) -> str:
    """Return the location of a call; raise an error if the name or the arguments do not fit."""
    arguments = params.get("arguments", {})
    location = arguments.get("location")
    if params.get("name") != "weather":
        raise Error(INVALID, "no such tool")
    if (
        [*arguments] != ["location"]
        or not isinstance(location, str)
        or not 1 <= len(location) <= 100
    ):
        raise Error(INVALID, "these arguments do not fit")
    return location


def can_be_asked(params: dict[str, Any], era: str) -> bool:
    """Return whether the client takes a form in a response."""
    declared = params["_meta"].get("io.modelcontextprotocol/clientCapabilities", {})
    modes = declared.get("elicitation", {"url": {}})
    return era == "2026-07-28" and ("form" in modes or "url" not in modes)


class Ended(Exception):
    """A call that the user has declined or cancelled."""


def chosen(name: str, answer: dict[str, Any], choices: list[str]) -> str:
    """Return the choice in an answer; raise an error if the answer is none.

    Raises:
        Ended: The user has declined or cancelled.
    """
    action = answer.get("action")
    if action in ("decline", "cancel"):
        raise Ended("declined" if action == "decline" else "cancelled")
    content: Any = answer.get("content")
    value: Any = content.get(name) if hasattr(content, "get") else None
    if action != "accept" or value not in choices:
        raise Error(INVALID, f"the answer to {name} does not fit")
    return value


class Foreign:
    """A server that keeps the contract. A test overrides the habits of another SDK.

    Args:
        ledger: The file in which it counts effects.
        key: The key that signs its states.
    """

    eras = ("2026-07-28", "2025-11-25")
    closing = 405
    """The status of the response to DELETE. With any other than 405, the server opens a session for
    a client of 2025-11-25.
    """

    def __init__(self, ledger: Path, key: bytes = KEY) -> None:
        self.ledger = ledger
        self.key = key
        self.spent = set[tuple[str, str]]()
        self.numbers = count(1)

    def effect(self, kind: str, subject: str) -> None:
        row = "INSERT INTO effects (kind, subject, at) VALUES (?, ?, '')"
        try:
            with closing(sqlite3.connect(self.ledger, timeout=5)) as db, db:
                db.execute(row, (kind, subject))
        except sqlite3.Error as error:
            raise Error(-32603, f"the {kind} failed") from error

    def seal(self, location: str, place: str | None) -> str:
        return Signer(self.key).sign(json.dumps([location, place, next(self.numbers)])).decode()

    def unseal(self, state: str, location: str) -> str | None:
        try:
            of, place, _ = json.loads(Signer(self.key).unsign(state))
        except (BadSignature, UnicodeError):
            raise Error(INVALID, "not a state of this server") from None
        if of != location:
            raise Error(INVALID, "a state of another call")
        return place

    def asking(self, name: str, message: str, choices: list[str], state: str) -> dict[str, Any]:
        choice = {name: {"type": "string", "enum": choices}}
        schema = {"type": "object", "required": [name], "properties": choice}
        form = {"mode": "form", "message": message, "requestedSchema": schema}
        asked = {name: {"method": "elicitation/create", "params": form}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    def reported(self, words: str) -> dict[str, Any]:
        return text(words)

    def check_state(self, state: str, answers: dict[str, Any]) -> None:
        """Look at a genuine state before the call goes on."""

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        location = location_of(params)
        state: str | None = params.get("requestState")
        answers: dict[str, dict[str, Any]] = {}
        place: str | None = None
        if state is not None:
            answers = params.get("inputResponses") or {}
            place = self.unseal(state, location)
            self.check_state(state, answers)
        self.effect("audit", location)
        names = places(location)
        if not names:
            return text(f"No weather for {location!r}.", is_error=True)
        if len(names) == 1:
            place = names[0]
        try:
            return self.asked(location, place, answers, can_ask=can_be_asked(params, era))
        except Ended as how:
            return text(f"The question was {how}.")

    def asked(
        self,
        location: str,
        place: str | None,
        answers: dict[str, dict[str, Any]],
        *,
        can_ask: bool,
    ) -> dict[str, Any]:
        """Ask the next question, or report the weather if nothing is left to ask."""
        if not place:
            names = places(location)
            answer = answers.get("place")
            if answer is not None:
                place = chosen("place", answer, names)
            elif can_ask:
                which = f"Which {location.strip()}?"
                return self.asking("place", which, names, self.seal(location, place))
            else:
                return text(f"{location!r} is ambiguous: name the place.", is_error=True)
        units: str | None = None
        answer = answers.get("units")
        if answer is not None:
            units = chosen("units", answer, UNITS)
        elif can_ask:
            which = f"Which units for {place}?"
            return self.asking("units", which, UNITS, self.seal(location, place))
        self.effect("bill", place)
        return self.reported(report(place, units))

    def answer(self, method: str, params: dict[str, Any], era: str) -> dict[str, Any]:
        match method:
            case "initialize":
                if "2025-11-25" not in self.eras:
                    raise Error(-32022, "Unsupported protocol version")
                about = {"name": "foreign", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": about}
            case _ if era not in self.eras:
                raise Error(-32022, "Unsupported protocol version")
            case "tools/list":
                tool = {"name": "weather", "inputSchema": SCHEMA}
                return {
                    "resultType": "complete",
                    "tools": [tool],
                    "ttlMs": 0,
                    "cacheScope": "private",
                }
            case "tools/call":
                return self.call(params, era)
            case _:
                raise Error(-32601, "no such method")


@contextmanager
def served(server: Foreign) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def log_message(self, format: str, *args: Any) -> None:
            return

        def reply(self, status: int, data: bytes = b"", headers: Mapping[str, str] = JSON) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply(405)

        def do_DELETE(self) -> None:
            self.reply(server.closing)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
            era = self.headers.get("mcp-protocol-version", "2025-11-25")
            try:
                found["result"] = server.answer(asked["method"], asked.get("params") or {}, era)
            except Error as error:
                found["error"] = {"code": error.code, "message": str(error)}
            begins = asked["method"] == "initialize" and server.closing != 405
            headers = JSON | ({"Mcp-Session-Id": "1"} if begins else {})
            data = json.dumps(found).encode() if "id" in asked else b""
            self.reply(200 if data else 202, data, headers)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/mcp"
        finally:
            http.shutdown()
            thread.join()
