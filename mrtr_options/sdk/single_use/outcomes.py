"""The recorded outcome of a guarded round: a response or an error, as text in a store.

The text is the time of the outcome in seconds since 1970, a space, and the outcome as JSON.

Knows MCP's types, `call_key` and `effects`; nothing of stores.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Literal

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter

from mrtr_options.sdk.call_key import as_repeat, error_as_repeat, iso
from mrtr_options.sdk.effects import in_doubt
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""The longest recorded response; a longer one is given once and cannot be repeated."""

MAX_NOTE_CHARS = 1_000
"""The longest sentence that a repeat adds to its content."""


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
    """Return a response as it is recorded.

    In place of one that is too long, an error is recorded that says so.

    Raises:
        ValueError: It holds what has no JSON.
    """
    text = _with_time(response.model_dump_json(by_alias=True, exclude_none=True))
    if len(text.encode()) <= MAX_RESPONSE_BYTES:
        return text
    _logger.warning("a response is longer than %s bytes and is not recorded", MAX_RESPONSE_BYTES)
    return write_error(refusal(Reason.RESULT_TOO_LONG))


def write_error(error: MCPError) -> str:
    """Return an error as it is recorded."""
    recorded = _Refusal(**error.error.model_dump()).model_dump_json(exclude_none=True)
    text = _with_time(recorded)
    is_too_long = len(text.encode()) > MAX_RESPONSE_BYTES
    return write_error(in_doubt()) if is_too_long else text


def _with_time(outcome: str) -> str:
    return f"{time.time():.3f} {outcome}"


def read_outcome(recorded: str, note: str | None = None) -> Outcome:
    """Return a recorded response, which says that it is handed out again, and since when.

    Args:
        recorded: The outcome.
        note: A sentence that tells the model so, with "{since}" for the time of the first one.

    Raises:
        MCPError: The recorded error, which says so as well; or what is recorded cannot be read.
    """
    try:
        written, _, text = recorded.partition(" ")
        since = float(written)
        outcome = _OUTCOME.validate_json(text)
    except ValueError as error:  # of another version, or damaged
        _logger.error("the recorded outcome of a round cannot be read: %s", type(error).__name__)
        raise in_doubt() from None
    if isinstance(outcome, _Refusal):
        refused = error_as_repeat(MCPError.from_error_data(outcome), since)
        raise refused if note is None else _error_with_note(refused, note)
    repeat = as_repeat(outcome, since)
    # Only the result of a tool has a place for a note.
    if note is None or not isinstance(repeat, types.CallToolResult):
        return repeat
    sentence = types.TextContent(text=note.replace("{since}", iso(since)))
    return repeat.model_copy(update={"content": [sentence, *repeat.content]})


def _error_with_note(error: MCPError, note: str) -> MCPError:
    """Return a repeated error whose message begins with a note, with "{since}" for the time."""
    match error.error.data:
        case {"repeat": {"since": str(since)}}:
            message = f"{note.replace('{since}', since)} {error.error.message}"
            return MCPError(error.error.code, message, error.error.data)
        case _:
            return error


def check_note(note: str | None) -> None:
    """Refuse a sentence that no repeat can add to its content.

    Raises:
        ValueError: It is empty or too long.
    """
    if note is not None and not 0 < len(note) <= MAX_NOTE_CHARS:
        raise ValueError(f"single_use takes a repeat_note of 1 to {MAX_NOTE_CHARS} characters")
