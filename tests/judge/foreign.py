"""The weather tool on JSON-RPC over HTTP by hand: a server with the habits of another SDK.

Its calls are those of a correct file of the corpus. Knows nothing of this package, but how to
listen on a free port, and the name of a JSON object.
"""

import importlib.util
import os
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import anyio
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.serving import PATH, listen

INVALID = types.INVALID_PARAMS
KEY = "0123456789abcdef0123456789abcdef"
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

    def check_state(self, state: str, answers: JsonObject) -> None:
        """Look at a state before the call goes on."""

    def call(self, params: JsonObject, era: str) -> JsonObject:
        """Return the tool's result."""
        state = params.get("requestState")
        answers: JsonObject = params.get("inputResponses") or {}
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
        found: JsonObject = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"resultType": "input_required" if "inputRequests" in found else "complete", **found}

    def answer(self, method: str, params: JsonObject, era: str) -> JsonObject:
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
    """Serve it from a thread of its own, and yield its URL."""

    async def post(request: Request) -> Response:
        asked: JsonObject = await request.json()
        method: str = asked["method"]
        params: JsonObject = asked.get("params") or {}
        era = request.headers.get("mcp-protocol-version", "2025-11-25")
        found: JsonObject = {"jsonrpc": "2.0", "id": asked.get("id")}
        try:
            found["result"] = await anyio.to_thread.run_sync(server.answer, method, params, era)
        except Error as error:
            found["error"] = {"code": error.code, "message": str(error)}
        begins = method == "initialize" and server.closing != 405
        headers = {"Mcp-Session-Id": "1"} if begins else {}
        is_request = "id" in asked
        return JSONResponse(found, headers=headers) if is_request else Response(status_code=202)

    async def delete(request: Request) -> Response:
        return Response(status_code=server.closing)

    routes = [Route(PATH, post, methods=["POST"]), Route(PATH, delete, methods=["DELETE"])]
    web = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
    with closing(listen(0)) as listener:
        thread = Thread(target=web.run, args=[[listener]])
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}"
        finally:
            web.should_exit = True
            thread.join()
