"""The recorded outcome of a guarded round: a response or an error, as text in a store.

Knows MCP's types, `call_key` and `effects`; nothing of stores.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Literal

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter

from mrtr_options.sdk.call_key import as_repeat, error_as_repeat
from mrtr_options.sdk.effects import in_doubt
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""The longest recorded response; a longer one is given once and cannot be repeated."""


_logger = logging.getLogger(__name__)


class _Refusal(types.ErrorData):
    """A recorded JSON-RPC error."""

    kind: Literal["error"] = "error"


Outcome = types.InputRequiredResult | types.CallToolResult


_OUTCOME = TypeAdapter[Any](
    _Refusal
    | types.InputRequiredResult
    | types.CallToolResult
    | types.GetPromptResult
    | types.ReadResourceResult
)


def write_response(response: types.Result) -> str:
    """Return a response as it is recorded: it says that it is handed out again, and since when.

    In place of one that is too long, an error is recorded that says so.

    Raises:
        ValueError: It holds what has no JSON.
    """
    repeat = as_repeat(response, time.time())
    text = repeat.model_dump_json(by_alias=True, exclude_none=True)
    if len(text.encode()) <= MAX_RESPONSE_BYTES:
        return text
    _logger.warning("a response is longer than %s bytes and is not recorded", MAX_RESPONSE_BYTES)
    return write_error(refusal(Reason.RESULT_TOO_LONG))


def write_error(error: MCPError) -> str:
    """Return an error as it is recorded: it says that it is handed out again, and since when."""
    repeat = error_as_repeat(error, time.time())
    text = _Refusal(**repeat.error.model_dump()).model_dump_json(exclude_none=True)
    is_too_long = len(text.encode()) > MAX_RESPONSE_BYTES
    return write_error(in_doubt()) if is_too_long else text


def read_outcome(recorded: str) -> Outcome:
    """Return a recorded response.

    Raises:
        MCPError: The recorded error; or the record cannot be read (-32603).
    """
    try:
        outcome = _OUTCOME.validate_json(recorded)
    except ValueError as error:  # of another version, or damaged
        _logger.error("the recorded outcome of a round cannot be read: %s", type(error).__name__)
        raise in_doubt() from None
    if isinstance(outcome, _Refusal):
        raise MCPError.from_error_data(outcome)
    return outcome
