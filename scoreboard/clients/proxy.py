"""What happens on the wire between a client and a server: one response breaks, or is made up.

It stands between any client and any MCP server over streamable HTTP, and records the client's
requests. Knows JSON-RPC; nothing of options or SDKs.

The *messages of a call* are its questions and its result. A modern client gets one message with
each response; a legacy client gets all messages on one stream. A fault happens at the first, at a
later (interim) or at the last message. A call that became a task has its messages in the responses
to polls; a question counts when it is first shown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from mrtr_options.sdk.handler import JsonObject
from scoreboard.clients.hostile import Answer
from scoreboard.clients.refusals import REFUSALS, Refusal, sign_in
from scoreboard.wire import (
    JSON,
    STREAM,
    Board,
    MadeUp,
    Request,
    WireFault,
    busy,
    event,
    message_in,
    wire,
)

How = Literal[
    "cut",
    "reset",
    "half-json",
    "empty",
    "stream-cut",
    "stream-end",
    "stream-id-cut",
    "half-event",
    "slow",
    "502",
    "503",
]
"""The kinds of faults, by name."""

CONNECTING = ("initialize", "server/discover")
"""The methods with which a connection begins."""

CALL, POLL, ANSWER = "tools/call", "tasks/get", "tasks/update"
"""The methods of a call; one that became a task is polled and answered."""

TASK_SHOWS = {"input_required": "question", "completed": "result", "failed": "error"}
"""What a client finds in a task, by the task's status."""

SLOW_SECONDS = 75.0
"""The delay of a slow response."""

FAULTS: Mapping[str, tuple[WireFault | Callable[[Request], MadeUp], str]] = {
    "cut": (WireFault("after", "cut"), "the connection is closed before the response"),
    "reset": (WireFault("after", "reset"), "the connection is reset before the response"),
    "half-json": (
        WireFault("during", "cut"),
        "the connection is closed in the middle of the response",
    ),
    "empty": (WireFault("after", MadeUp(JSON, b"")), "the response has an empty body"),
    "stream-cut": (
        WireFault("during", "cut", as_stream=True, begins=b": open\n\n"),
        "the event stream is cut off before the response",
    ),
    "stream-end": (
        WireFault("during", "end", as_stream=True, begins=b": open\n\n"),
        "the event stream ends before the response",
    ),
    "stream-id-cut": (
        WireFault("during", "cut", as_stream=True, begins=b"id: 1\ndata: \n\n"),
        "the event stream, which has event ids, is cut off before the response",
    ),
    "half-event": (
        WireFault("during", "cut", as_stream=True),
        "the event stream is cut off in the middle of the response",
    ),
    "slow": (
        WireFault("after", "silence", seconds=SLOW_SECONDS),
        f"the response is {SLOW_SECONDS:.0f} s late",
    ),
    "502": (WireFault("after", busy(502)), "a gateway answers 502; the server did the work"),
    "503": (WireFault("before", busy(503)), "a gateway answers 503; the server was not reached"),
    **REFUSALS,
}
"""Each fault, or what answers after the work in the server's place; and what a history says."""


@dataclass(frozen=True)
class Break:
    """A fault that breaks one response.

    Attributes:
        how: The kind of the fault.
        at: The number of the broken message of the call, counted from 1.
    """

    how: How | Refusal
    at: int


@dataclass(frozen=True)
class Sent:
    """A `tools/call` as the client sent it.

    Attributes:
        id: The id of the request.
        connection: The number of the connection that it belongs to; ids begin anew with each.
        params: The params without `_meta`, which may differ every time.
        version: The protocol version that its header names.
    """

    id: Any
    params: JsonObject
    version: str = ""
    connection: int = 0

    @property
    def begins(self) -> bool:
        """Return whether it is the first round of a call."""
        return self.params.keys().isdisjoint(("requestState", "inputResponses"))


@dataclass
class Proxy(Board):
    """A proxy for one call. Enter `running` to use it.

    Args:
        upstream: The server's origin, as in "http://127.0.0.1:8000".
        fault: The fault, which happens once.
        answer: Makes up the results of `tools/call`; the requests then do not reach the server.
        as_stream: Whether made-up results are sent as event streams.
        signs_in: Whether the client needs a token, which it gets here.

    Attributes:
        sent: The `tools/call` requests of the client.
        resumed: How often the client asked for the rest of a broken event stream.
        happened: Whether the fault has happened.
        history: The requests and the responses of the call, in words.
    """

    upstream: str
    fault: Break | None = None
    answer: Answer | None = None
    as_stream: bool = False
    signs_in: bool = False
    sent: list[Sent] = field(default_factory=list[Sent])
    resumed: int = 0
    happened: bool = False
    history: list[str] = field(default_factory=list[str])
    _asked: set[str] = field(default_factory=set[str])
    _messages: int = 0
    _connections: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Listen on a free port, and yield the origin. All connections close with the block."""
        async with wire(self.upstream, self) as port:
            yield f"http://127.0.0.1:{port}"

    def takes(self, request: Request) -> WireFault | None:
        if request.method == "GET" and "last-event-id" in request.headers:
            self.resumed += 1
            self.history.append("the client asks for the rest of the event stream")
        signing_in = sign_in(request) if self.signs_in else None
        message = request.message
        method = message.get("method")
        if method in CONNECTING:
            self._connections += 1
        if signing_in is not None:
            return WireFault("before", signing_in)
        if method not in (CALL, POLL, ANSWER):
            return None
        if method == ANSWER:
            self.history.append(
                f"the client answers {', '.join(message['params']['inputResponses'])}"
            )
        if method != CALL:
            return self._next_fault(request, "before") if method == POLL else None
        params = {name: value for name, value in message["params"].items() if name != "_meta"}
        version = request.headers.get("mcp-protocol-version", "")
        sent = Sent(message["id"], params, version, self._connections)
        self.sent.append(sent)
        self._asked = set()
        self.history.append(f"request {len(self.sent)}: {_round(sent)}")
        if self.answer is not None:
            return WireFault("before", self._made_up(self.answer, message["id"]))
        return self._next_fault(request, "before")

    def _made_up(self, answer: Answer, request: Any) -> MadeUp:
        result = answer(len(self.sent))
        message = json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode()
        return MadeUp(STREAM, event(message)) if self.as_stream else MadeUp(JSON, message)

    def sends(self, request: Request, message: bytes) -> WireFault | None:
        """Count the next message of the call; if the fault is due, it happens here."""
        method = request.message.get("method", "")
        kind, keys = _kind(method, message_in(message))
        if not kind or (method == POLL and kind == "question" and keys <= self._asked):
            return None
        if kind == "task":  # its questions and its result come with the polls
            self.history.append(f"response: {kind}")
            return None
        fault = self._next_fault(request, "during", "after")
        if fault is None:
            self.history.append(f"response: {kind}")
            self._messages += 1
            self._asked |= keys
        return fault

    def _next_fault(self, request: Request, *where: str) -> WireFault | None:
        """Return the fault if it is due at the next message, and happens there."""
        if self.fault is None or self.happened or self._messages + 1 != self.fault.at:
            return None
        found, says = FAULTS[self.fault.how]
        fault = found if isinstance(found, WireFault) else WireFault("after", found(request))
        if fault.where not in where:
            return None
        self.happened = True
        self.history.append(says)
        return fault


def _round(sent: Sent) -> str:
    """Return which round of a call a request is, in words."""
    if sent.begins:
        return "begins a call"
    answers: JsonObject = sent.params.get("inputResponses") or {}
    return f"goes on, answers {', '.join(answers)}" if answers else "goes on, with a state alone"


def _kind(method: str, found: JsonObject) -> tuple[str, set[str]]:
    """Return what a message of a call is, in a word, and the keys of its questions.

    The word is empty for a message that is not of the call.
    """
    if method not in (CALL, POLL) or not found:
        return "", set()
    if "method" in found:
        return ("question" if found["method"] == "elicitation/create" else ""), set()
    if "error" in found:
        return f"error {found['error'].get('code')}", set()
    result = found.get("result", {})
    keys = {*result.get("inputRequests", {})}
    if method == POLL:
        return TASK_SHOWS.get(result["status"], ""), keys
    if result.get("isError"):
        return "result that is an error", keys
    kinds = {"input_required": "question", "task": "task"}
    return kinds.get(result.get("resultType"), "result"), keys
