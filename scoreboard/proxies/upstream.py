"""What happens on the wire between a proxy under test and the instances of a server.

One response breaks; each delivery of the last round is recorded. Knows JSON-RPC; nothing of proxies
or options.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as types

from scoreboard.wire import Board, Fault, Request, message_in

Name = Literal["reset-before", "reset-after", "503", "502", "no-response", "cut", "gone"]

FAULTS: dict[Name, str] = {
    "gone": "one instance does not listen",
    "reset-before": "reset, not processed",
    "503": "503, not processed",
    "reset-after": "processed, reset",
    "502": "processed, 502",
    "no-response": "processed, no response in 2 s",
    "cut": "processed, cut in the middle",
}
"""The faults of the last round of a call, in the words of the table. A fault happens once."""

CALLS = "tools/call"

_ON_THE_WIRE: dict[Name, Fault] = {
    "reset-before": Fault("before", "reset"),
    "503": Fault("before", 503),
    "reset-after": Fault("after", "reset"),
    "502": Fault("after", 502),
    "no-response": Fault("after", "silence", seconds=30.0),
    "cut": Fault("during", "reset"),
}


@dataclass(frozen=True)
class Delivery:
    """A delivery of the last round.

    Attributes:
        instance: The instance that got it.
        same: The content of the round, and its state.
    """

    instance: str
    same: str


@dataclass(frozen=True)
class Round:
    """The parts of a round that a proxy must not change.

    Attributes:
        content: The digest of `Mcp-Method`, the arguments and the answers.
        state: The state.
        version: The protocol version in its header; empty without one.
    """

    content: str
    state: str | None
    version: str = ""


@dataclass
class Breaking:
    """The data that the instances of one call share.

    Attributes:
        fault: The fault of the first delivery of the last round; None for a call without a fault.
        rounds: The rounds that have arrived, in order.
        issued: The states in responses of the instances.
        can_ask: Whether a request has declared that its client can be asked.
        deliveries: The deliveries of the last round, in order.
        happened: Whether the fault has happened.
        due: The fault that the response to the present delivery meets.
    """

    fault: Name | None
    rounds: list[Round] = field(default_factory=list[Round])
    issued: list[str] = field(default_factory=list[str])
    can_ask: bool = False
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    happened: bool = False
    due: Fault | None = None


@dataclass
class Instance(Board):
    """An instance of a server.

    Args:
        name: Its name.
        shared: The data that the instances of the call share.
    """

    name: str
    shared: Breaking

    def takes(self, request: Request) -> Fault | None:
        """Record a delivery of a round."""
        shared = self.shared
        message = request.message
        shared.can_ask = shared.can_ask or "elicitation" in capabilities_in(message)
        arrived = arrived_in(request)
        if arrived is not None:
            shared.rounds.append(arrived)
        if arrived is None or not is_last_round(message):
            return None
        shared.deliveries.append(Delivery(self.name, f"{arrived.content} {arrived.state}"))
        if shared.happened or shared.fault not in _ON_THE_WIRE:
            return None
        shared.happened = True
        fault = _ON_THE_WIRE[shared.fault]
        if fault.where == "before":
            return fault
        shared.due = fault
        return None

    def sends(self, request: Request, message: bytes) -> Fault | None:
        """Record the state that a response has."""
        result: dict[str, Any] = message_in(message).get("result") or {}
        if "requestState" in result:
            self.shared.issued.append(result["requestState"])
        if not is_last_round(request.message):
            return None
        fault, self.shared.due = self.shared.due, None
        return fault


def _params(message: dict[str, Any]) -> dict[str, Any]:
    return message.get("params") or {}


def is_last_round(message: dict[str, Any]) -> bool:
    """Return whether a message answers the last question of the weather tool."""
    return "units" in (_params(message).get("inputResponses") or {})


def capabilities_in(message: dict[str, Any]) -> dict[str, Any]:
    """Return the client's capabilities that a message declares, in either era."""
    params = _params(message)
    meta: dict[str, Any] = params.get("_meta") or {}
    return meta.get(types.CLIENT_CAPABILITIES_META_KEY) or params.get("capabilities") or {}


def arrived_in(request: Request) -> Round | None:
    """Return the round in a request; None if the request calls no tool."""
    message = request.message
    if message.get("method") != CALLS:
        return None
    params = _params(message)
    return Round(
        digest(
            request.headers.get("mcp-method", ""), params["arguments"], params.get("inputResponses")
        ),
        params.get("requestState"),
        request.headers.get("mcp-protocol-version", ""),
    )


def digest(method: str, arguments: Any, answers: Any) -> str:
    """Return a digest of the content of a round."""
    parts = [method, arguments, answers]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
