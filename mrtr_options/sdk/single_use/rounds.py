"""The guard's data in a state and in its store: a round, its answers, its outcome.

Knows MCP's types, `questions` and `call_key`; of stores, what a stamp is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from functools import lru_cache
from typing import Any, Literal

import mcp_types as types
from mcp import MCPError
from pydantic import BaseModel, TypeAdapter

from mrtr_options.sdk.call_key import CALL, CallName, as_repeat
from mrtr_options.sdk.handlers import Result, check_protected
from mrtr_options.sdk.questions import (
    MAX_STATE_BYTES,
    BadAnswer,
    checked_form,
    invalid_state,
    validator_of,
)
from mrtr_options.sdk.single_use.refusals import indeterminate, result_too_long, state_too_long
from mrtr_options.sdk.single_use.store import Stamp

MAX_RESPONSE_BYTES = 256 * 1024
"""The longest recorded response; a longer one is given once and cannot be repeated."""

_MAX_SCHEMA_BYTES = 2 * 1024

_logger = logging.getLogger(__name__)


class NamedCall(BaseModel):
    """The call of a round, where it has a name.

    Attributes:
        handle: The name.
        made: When the client made the call key, by its clock; None where the server named the call.
        told: The name that the client is told of this call: another call under the same key has
            another one.
    """

    handle: str
    made: float | None = None
    told: str


class RoundState(BaseModel):
    """The state that travels.

    Attributes:
        number: The guard's, for the next round.
        begins: When that number was first handed out, by the store's clock.
        mark: The store's, at that time.
        call: The call, if it has a name.
        asked: The questions of the round, by key: the schema of a form, unless it is long; None for
            what the handler alone can check.
        state: The handler's own.
    """

    number: str
    begins: float
    mark: str = ""
    call: NamedCall | None = None
    asked: dict[str, dict[str, Any] | None]
    state: str | None

    @staticmethod
    def of_first_round(name: CallName) -> RoundState:
        """Return what stands for a state in the first round of a named call."""
        call = NamedCall(handle=name.handle, made=name.made, told=secrets.token_urlsafe(16))
        return RoundState(
            number=name.handle, begins=name.made or 0.0, call=call, asked={}, state=None
        )

    @property
    def is_first(self) -> bool:
        """Return whether this is the first round of a named call, which has no state."""
        return not self.asked and self.state is None


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


# --- states and answers --------------------------------------------------------------------------


def load(text: str) -> RoundState:
    """Read a state.

    Raises:
        MCPError: It is not the guard's (-32602), or nothing protects it (-32603).
    """
    check_protected()
    try:
        return RoundState.model_validate_json(text)
    except ValueError:
        raise invalid_state() from None


def checked_answers(state: RoundState, responses: types.InputResponses) -> types.InputResponses:
    """Return the answers to what the round asked.

    Raises:
        BadAnswer: One of them does not fit, or is too long for the next state.
    """
    answers = {key: responses[key] for key in state.asked if key in responses}
    for key, answer in answers.items():
        schema = state.asked[key]
        if schema is None:
            continue
        if not isinstance(answer, types.ElicitResult):
            raise BadAnswer(key, "it is not of the type ElicitResult")
        if answer.action == "accept":
            checked_form(key, _validator(json.dumps(schema)), answer)
        # A handler may keep all answers in its state.
        if _length(json.dumps([state.state, _plain(answers)])) > MAX_STATE_BYTES:
            raise BadAnswer(key, "it is too long")
    return answers


@lru_cache(maxsize=128)  # they are the server's own: the state is protected
def _validator(schema: str) -> Any:
    return validator_of(json.loads(schema))


def digest_of_answers(answers: types.InputResponses) -> str:
    """Return what tells the answers of two deliveries apart."""
    return hashlib.sha256(json.dumps(_plain(answers), sort_keys=True).encode()).hexdigest()


def in_new_round(result: Result, stamp: Stamp, call: NamedCall | None = None) -> Result:
    """Return a result with a new round's number in its state, if it asks.

    Raises:
        MCPError: -32603, the handler's state is too long to travel.
    """
    if not isinstance(result, types.InputRequiredResult):
        return result
    check_protected()
    if _length(json.dumps(result.request_state)) > MAX_STATE_BYTES:
        _logger.error(
            "a call was ended: the handler's state is longer than %s bytes", MAX_STATE_BYTES
        )
        raise state_too_long()
    if call is not None:
        result = result.model_copy(update={"meta": {**(result.meta or {}), CALL: call.told}})
    number = secrets.token_urlsafe(16)
    state = RoundState(
        number=number, begins=stamp.at, mark=stamp.mark, call=call, asked={}, state=None
    )
    return in_round(result, state)


def in_round(result: types.InputRequiredResult, state: RoundState) -> types.InputRequiredResult:
    """Return a result that asks, with what it asks in the state of a round."""
    asked = {key: _schema(request) for key, request in (result.input_requests or {}).items()}
    state = state.model_copy(update={"asked": asked, "state": result.request_state})
    return result.model_copy(update={"request_state": state.model_dump_json(exclude_defaults=True)})


def _schema(request: types.InputRequest) -> dict[str, Any] | None:
    match request:
        case types.ElicitRequest(params=types.ElicitRequestFormParams(requested_schema=schema)):
            return schema if _length(json.dumps(schema)) <= _MAX_SCHEMA_BYTES else None
        case _:
            return None


def _plain(answers: types.InputResponses) -> dict[str, Any]:
    return {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, answer in answers.items()
    }


def _length(text: str) -> int:
    return len(text.encode())


# --- outcomes ------------------------------------------------------------------------------------


def write_response(response: types.Result) -> str:
    """Return a response as it is recorded: it says that it is handed out again, and since when.

    In place of one that is too long, an error is recorded that says so.

    Raises:
        ValueError: It holds what has no JSON.
    """
    repeat = as_repeat(response, time.time())
    text = repeat.model_dump_json(by_alias=True, exclude_none=True)
    if _length(text) <= MAX_RESPONSE_BYTES:
        return text
    _logger.warning("a response is longer than %s bytes and is not recorded", MAX_RESPONSE_BYTES)
    return write_error(result_too_long())


def write_error(error: MCPError) -> str:
    """Return an error as it is recorded."""
    text = _Refusal(**error.error.model_dump()).model_dump_json(exclude_none=True)
    is_too_long = _length(text) > MAX_RESPONSE_BYTES
    return write_error(indeterminate()) if is_too_long else text


def read_outcome(recorded: str) -> Outcome:
    """Return a recorded response.

    Raises:
        MCPError: The recorded error; or the record cannot be read (-32603).
    """
    try:
        outcome = _OUTCOME.validate_json(recorded)
    except ValueError as error:  # of another version, or damaged
        _logger.error("the recorded outcome of a round cannot be read: %s", type(error).__name__)
        raise indeterminate() from None
    if isinstance(outcome, _Refusal):
        raise MCPError.from_error_data(outcome)
    return outcome
