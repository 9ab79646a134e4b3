"""Strange responses to `tools/call`, to be put between a client and a server.

Knows the messages on the wire; nothing of transports, servers or clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mrtr_options.sdk.handler import JsonObject

Answer = Callable[[int], JsonObject]
"""Makes the result of the n-th `tools/call`, counted from 1."""

STATE_BYTES = 1024 * 1024
"""The length of the long state."""

UNKNOWN_KIND = "example/retina-scan"


def _asking(requests: JsonObject | None, state: Any = None) -> JsonObject:
    asked = {"inputRequests": requests} if requests is not None else {}
    held = {"requestState": state} if state is not None else {}
    return {"resultType": "input_required", **asked, **held}


def _units(number: int) -> JsonObject:
    schema = {
        "type": "object",
        "properties": {"units": {"type": "string", "enum": ["metric", "imperial"]}},
        "required": ["units"],
    }
    params = {"mode": "form", "message": f"Question {number}: units?", "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _done() -> JsonObject:
    return {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def _unknown() -> JsonObject:
    return {"method": UNKNOWN_KIND, "params": {}}


def _state_only(number: int) -> JsonObject:
    return _asking(None, f"state {number}")


def _once(first: JsonObject) -> Answer:
    """Return an answer that is `first` once, then a result."""
    return lambda number: first if number == 1 else _done()


HOSTILE: dict[str, Answer] = {
    "state-only": _state_only,
    "state-only-twice": lambda number: _state_only(number) if number < 3 else _done(),
    "questions": lambda number: _asking({f"q{number}": _units(number)}, f"state {number}"),
    "unknown-kind": _once(_asking({"q": _unknown()}, "state")),
    "mixed-kinds": _once(_asking({"a": _units(1), "b": _unknown()}, "state")),
    "nothing-asked": _once(_asking(None)),
    "no-result-type": lambda number: {"content": _done()["content"]},
    "unknown-result-type": lambda number: {**_done(), "resultType": "banana"},
    "long-state": _once(_asking({"q": _units(1)}, "A" * STATE_BYTES)),
    "state-is-a-number": _once(_asking({"q": _units(1)}, 42)),
    "asked-on-legacy": _once(_asking({"q": _units(1)}, "state")),
}
"""The strange responses, by name."""
