"""The call key: made by the client, one for each call that its user means to make.

A client that got no response to a first request holds no state, so a server takes what it sends
next for another call. A key says that it is the same one. It travels in the request's `_meta`,
under `CALL_KEY`, with every request of the call: each delivery of the first one, the later rounds,
and the first request of a host that calls again for the same intention. A server that does not know
it ignores it.

A key is a UUID of version 7 (RFC 9562): 74 random bits, and the time at which it was made. The time
lets a server forget a key and still refuse it: a key is either remembered or too old. Two clocks
are compared for that, so a client whose clock is further off than a server remembers keys is
refused.

A server that has forgotten a call begins another under its key. So it names each call, at random,
in the `_meta` of a question that answers a first request with a key (`CALL`): a client that is
given another name does not take the new call for the old one.

A key is of one principal and one tool. Without authentication it is a secret: who has it gets what
its call was answered.

Knows MCP's types. Used by the client (`client`), by the guard (`single_use`) and by the options
that can tell one call from another by themselves (`replay`, `durable`).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext

from mrtr_options.sdk.handlers import refusal
from mrtr_options.sdk.questions import is_modern

CALL_KEY = "mrtr-options/call-key"
"""The entry of `_meta` that holds the key."""
CALL = "mrtr-options/call"
"""The entry of a response's `_meta` that names the call which a first request with a key began."""


@dataclass(frozen=True)
class CallKey:
    """The key of a request.

    Attributes:
        text: The key.
        made: When the client made it, in seconds since 1970 by its clock.
    """

    text: str
    made: float

    def call_of(self, principal: str | None, name: str) -> str:
        """Name the call, the same in all its requests, and no other principal's or tool's."""
        place = json.dumps([self.text, principal, name])
        return hashlib.sha256(place.encode()).hexdigest()[:32]


def new_call_key() -> str:
    """Make a key for a call."""
    milliseconds = int(time.time() * 1000)
    random = secrets.randbits(74)
    return str(
        uuid.UUID(
            int=milliseconds << 80
            | 0x7 << 76
            | (random >> 62) << 64
            | 0b10 << 62
            | random & (1 << 62) - 1
        )
    )


def call_key_of(
    ctx: ServerRequestContext[Any, Any], params: types.InputResponseRequestParams
) -> CallKey | None:
    """Read the key of a request; None for a request without one.

    It is None for one of an old client, too, which has a whole call in one request.

    Raises:
        MCPError: -32602, it is not a key.
    """
    text: object = (params.meta or {}).get(CALL_KEY)
    if text is None or not is_modern(ctx):
        return None
    if not isinstance(text, str):
        raise _no_key()
    try:
        key = uuid.UUID(text)
    except ValueError:
        raise _no_key() from None
    if key.version != 7 or str(key) != text:
        raise _no_key()
    # The end of its millisecond: a store that was made within it is not newer than the key.
    return CallKey(text, ((key.int >> 80) + 1) / 1000)


def digest_of(arguments: Mapping[str, Any] | None) -> str:
    """Tell the arguments of two calls apart, whatever the order of their names."""
    return hashlib.sha256(json.dumps(arguments or {}, sort_keys=True).encode()).hexdigest()


def other_arguments() -> MCPError:
    """Make the refusal of a key that came with other arguments before."""
    return refusal(
        "call_key_reused",
        "This call key was used with other arguments. Make a new key for another call.",
    )


def too_old() -> MCPError:
    """Make the refusal of a key made longer ago, or further ahead, than keys are remembered."""
    return refusal(
        "call_key_expired",
        "This call key is too old, or the clock that it was made by is wrong. This request did"
        " nothing; an earlier one with the key may have.",
    )


def _no_key() -> MCPError:
    return refusal("bad_call_key", f"{CALL_KEY} is not a UUID of version 7 in lower case.")
