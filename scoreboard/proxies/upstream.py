"""What happens on the wire between a proxy under test and the instances of a server.

One response breaks; each delivery of the last round is recorded. Knows JSON-RPC; nothing of proxies
or options.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
from mcp import Client

from mrtr_options.demo.call import converse
from mrtr_options.review.bench.deployments.processes import LEDGER
from mrtr_options.review.bench.steps import accept
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import SqliteLedger
from scoreboard.wire import Board, Request, WireFault, busy, message_in

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

ARGUMENTS = {"location": "Springfield"}

ANSWERS = {"place": "Springfield, Missouri", "units": "imperial"}
"""What the user answers to each question."""

_ON_THE_WIRE: dict[Name, WireFault] = {
    "reset-before": WireFault("before", "reset"),
    "503": WireFault("before", busy(503)),
    "reset-after": WireFault("after", "reset"),
    "502": WireFault("after", busy(502)),
    "no-response": WireFault("after", "silence", seconds=30.0),
    "cut": WireFault("during", "reset"),
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
        content: `Mcp-Method`, the arguments and the answers.
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
    due: WireFault | None = None


@dataclass
class Instance(Board):
    """An instance of a server.

    Args:
        name: Its name.
        shared: The data that the instances of the call share.
    """

    name: str
    shared: Breaking

    def takes(self, request: Request) -> WireFault | None:
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

    def sends(self, request: Request, message: bytes) -> WireFault | None:
        """Record the state that a response has."""
        result: JsonObject = message_in(message).get("result") or {}
        if "requestState" in result:
            self.shared.issued.append(result["requestState"])
        if not is_last_round(request.message):
            return None
        fault, self.shared.due = self.shared.due, None
        return fault


def _params(message: JsonObject) -> JsonObject:
    return message.get("params") or {}


def is_last_round(message: JsonObject) -> bool:
    """Return whether a message answers the last question of the weather tool."""
    return "units" in (_params(message).get("inputResponses") or {})


def capabilities_in(message: JsonObject) -> JsonObject:
    """Return the client's capabilities that a message declares, in either era."""
    params = _params(message)
    meta: JsonObject = params.get("_meta") or {}
    return meta.get(types.CLIENT_CAPABILITIES_META_KEY) or params.get("capabilities") or {}


def arrived_in(request: Request) -> Round | None:
    """Return the round in a request; None if the request calls no tool."""
    message = request.message
    if message.get("method") != CALLS:
        return None
    params = _params(message)
    return Round(
        content(
            request.headers.get("mcp-method", ""), params["arguments"], params.get("inputResponses")
        ),
        params.get("requestState"),
        request.headers.get("mcp-protocol-version", ""),
    )


def content(method: str, arguments: Any, answers: Any) -> str:
    """Return the content of a round."""
    return json.dumps([method, arguments, answers], sort_keys=True)


async def bills_in(folder: Path) -> int:
    """Return how often the user was charged in the ledger of a folder."""
    effects = await SqliteLedger(folder / LEDGER).effects()
    return len([each for each in effects if each.kind == "bill"])


ASKS_FOR_EVER = "asks for ever"
"""The end of a call that still asks after `MOST` rounds."""

MOST = 10


async def play_rounds(
    clients: Iterable[Client], most: int = MOST, sent: list[Round] | None = None
) -> tuple[str, dict[str, Any]]:
    """Make a call, each round with the next client.

    Args:
        clients: The clients, one for each round.
        most: The number of rounds after which a call that still asks is given up.
        sent: Gets each round before it is sent.

    Returns:
        The end of the call, and the answers and the state of its last round.
    """
    turns = iter(clients)

    async def send(answers: dict[str, Any]) -> Any:
        if sent is not None:
            given = {
                key: each.model_dump(mode="json", by_alias=True, exclude_none=True)
                for key, each in answers.get("input_responses", {}).items()
            }
            said = content(CALLS, ARGUMENTS, given or None)
            sent.append(Round(said, answers.get("request_state")))
        return await play_round(next(turns), answers)

    async def following(_: object, response: Any) -> dict[str, Any] | None:
        if not isinstance(response, types.InputRequiredResult):
            return None
        form = {key: accept({key: ANSWERS[key]}) for key in response.input_requests or {}}
        return {"request_state": response.request_state, "input_responses": form}

    answers, last = await converse({}, send, following, most)
    if isinstance(last, types.InputRequiredResult):
        return ASKS_FOR_EVER, answers
    return ("`isError`" if last.is_error else "result"), answers


async def play_round(client: Client, answers: dict[str, Any]) -> Any:
    """Send a round, and return the response."""
    return await client.session.call_tool(TOOL, ARGUMENTS, allow_input_required=True, **answers)
