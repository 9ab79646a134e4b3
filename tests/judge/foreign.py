"""The weather tool on JSON-RPC over HTTP by hand: a server with the habits of another SDK.

Its calls are those of a correct file of the corpus. Knows nothing of this package.
"""

import importlib.util
import json
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import anyio
import mcp_types as types
from mcp import MCPError

INVALID = types.INVALID_PARAMS
KEY = "0123456789abcdef0123456789abcdef"
JSON = {"Content-Type": "application/json"}
TOOL = importlib.util.spec_from_file_location(
    "corpus_tool", Path(__file__).parent / "corpus" / "hmac_json.py"
)
DECLARED = "io.modelcontextprotocol/clientCapabilities"


class Error(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


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

    def __init__(self, ledger: Path, key: str = KEY) -> None:
        assert TOOL is not None
        assert TOOL.loader is not None
        self.spent = set[tuple[str, str]]()
        self.tool: Any = importlib.util.module_from_spec(TOOL)
        with patch.dict(os.environ, MRTR_LEDGER=str(ledger), MRTR_STATE_KEYS=key):
            TOOL.loader.exec_module(self.tool)

    def check_state(self, state: str, answers: dict[str, Any]) -> None:
        """Look at a state before the call goes on."""

    def call(self, params: dict[str, Any], era: str) -> dict[str, Any]:
        """Return the tool's result."""
        state = params.get("requestState")
        answers: dict[str, Any] = params.get("inputResponses") or {}
        if state is not None:
            self.check_state(state, answers)
        declared = params.get("_meta", {}).get(DECLARED, {})
        session = SimpleNamespace(
            client_capabilities=types.ClientCapabilities.model_validate(declared),
            can_send_request=False,
        )
        ctx = SimpleNamespace(
            protocol_version=era, params=params, meta={self.tool.ANSWERS: answers}, session=session
        )
        asked = SimpleNamespace(
            name=params.get("name"), arguments=params.get("arguments"), request_state=state
        )
        try:
            result = anyio.run(self.tool.call_tool, ctx, asked)
        except MCPError as error:
            raise Error(error.code, error.message) from None
        found: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"resultType": "input_required" if "inputRequests" in found else "complete", **found}

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
                tool = {"name": "weather", "inputSchema": self.tool.SCHEMA}
                caching = {"ttlMs": 0, "cacheScope": "private"}
                return {"resultType": "complete", "tools": [tool], **caching}
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
