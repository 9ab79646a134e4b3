"""The guard's data in a state: the number of a round, what it asked, and the handler's own state.

Knows MCP's types, `questions`, `effects` and `call_key`; of stores, what a stamp is.
"""

from __future__ import annotations

import json
import math
import secrets
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import mcp_types as types
from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json

from mrtr_options.sdk.call_key import CALL, CallName
from mrtr_options.sdk.current_request import check_protected
from mrtr_options.sdk.effects import CallEffects, Standing
from mrtr_options.sdk.handler import JsonObject, Result
from mrtr_options.sdk.protection import ANSWER_BY
from mrtr_options.sdk.questions import (
    MAX_STATE_BYTES,
    BadAnswer,
    check_form,
    invalid_state,
    is_long,
    length_in_token,
    validator_of,
)
from mrtr_options.sdk.single_use.reservations import Stamp
from mrtr_options.sdk.writing import digest

_MAX_SCHEMA_BYTES = 2 * 1024


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
        effects: The effects of the call up to now, but for the open ones.
        left_open: Those that an earlier round began, and of which nobody knows yet.
        has_begun: Whether an earlier round of the call is recorded.
    """

    number: str
    begins: float
    mark: str = ""
    call: NamedCall | None = None
    asked: dict[str, JsonObject | None]
    state: str | None
    effects: list[str] = Field(default_factory=list[str])
    left_open: dict[str, Standing] = Field(default_factory=dict[str, Standing])
    has_begun: bool = False

    @staticmethod
    def of_first_round(name: CallName) -> RoundState:
        """Return the round state of a named call's first round, which comes without a state."""
        call = NamedCall(handle=name.handle, made=name.made, told=secrets.token_urlsafe(16))
        return RoundState(
            number=name.handle, begins=name.made or 0.0, call=call, asked={}, state=None
        )

    @property
    def is_first(self) -> bool:
        """Return whether this is the first round of a named call, which has no state."""
        return not self.asked and self.state is None

    def effects_so_far(self, *, may_repeat: bool) -> CallEffects:
        """Return the effects of the call before this round."""
        return CallEffects(
            self.effects, self.left_open, is_named=self.call is not None, may_repeat=may_repeat
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


def check_answers(state: RoundState, responses: types.InputResponses) -> types.InputResponses:
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
            check_form(key, _validator(to_json(schema)), answer)
        if is_long(answer):
            # A handler may keep all answers in its state.
            kept = (state.state or "") + json.dumps(_plain(answers))
            if length_in_token(kept) > MAX_STATE_BYTES:
                raise BadAnswer(key, "it is too long")
    return answers


@lru_cache(maxsize=128)  # they are the server's own: the state is protected
def _validator(schema: bytes) -> Any:
    return validator_of(from_json(schema))


def digest_of_answers(answers: types.InputResponses) -> str:
    """Return a digest of the answers of a delivery."""
    return digest(json.dumps(_plain(answers), sort_keys=True))


def put_in_new_round(
    result: types.InputRequiredResult,
    stamp: Stamp,
    call: NamedCall | None = None,
    effects: CallEffects | None = None,
    *,
    has_begun: bool = False,
) -> types.InputRequiredResult:
    """Return a result that asks, with a new round's number in its state."""
    check_protected()
    effects = effects or CallEffects()
    state = RoundState(
        number=secrets.token_urlsafe(16),
        begins=stamp.at,
        mark=stamp.mark,
        call=call,
        asked=_asked(result),
        state=result.request_state,
        effects=[name for name in effects.names if name not in effects.unknown],
        left_open=effects.unknown,
        has_begun=has_begun,
    )
    meta = result.meta if call is None else {**(result.meta or {}), CALL: call.told}
    return result.model_copy(update={"meta": meta, "request_state": _write(state)})


def asked_afresh(question: types.InputRequiredResult, stamp: Stamp) -> types.InputRequiredResult:
    """Return a question as it is asked again in the same round, to be answered in time."""
    state = RoundState.model_validate_json(question.request_state or "")
    state = state.model_copy(update={"begins": stamp.at, "mark": stamp.mark})
    return question.model_copy(update={"request_state": _write(state)})


def put_in_round(result: types.InputRequiredResult, state: RoundState) -> types.InputRequiredResult:
    """Return a result that asks, with what it asks in the state of a round."""
    state = state.model_copy(update={"asked": _asked(result), "state": result.request_state})
    return result.model_copy(update={"request_state": _write(state)})


def with_deadline(result: Result, until: float) -> Result:
    """Return a question that says until when the store takes its answer, however fresh its token.

    A state that is handed out again is good for no longer than at first.

    Args:
        result: The question, or another result, which stays as it is.
        until: The time in seconds since 1970; infinite for a store that takes it at any time.
    """
    if not isinstance(result, types.InputRequiredResult) or until == math.inf:
        return result
    time = datetime.fromtimestamp(int(until), UTC)
    meta = {ANSWER_BY: time.isoformat().replace("+00:00", "Z"), **(result.meta or {})}
    return result.model_copy(update={"meta": meta})


def begins_of(result: Result) -> float:
    """Return when the number of a question's round was first handed out; 0 for a result."""
    if not isinstance(result, types.InputRequiredResult):
        return 0.0
    return load(result.request_state or "").begins


def _write(state: RoundState) -> str:
    return state.model_dump_json(exclude_defaults=True)


def _asked(result: types.InputRequiredResult) -> dict[str, JsonObject | None]:
    return {key: _schema(request) for key, request in (result.input_requests or {}).items()}


def _schema(request: types.InputRequest) -> JsonObject | None:
    match request:
        case types.ElicitRequest(params=types.ElicitRequestFormParams(requested_schema=schema)):
            return schema if len(to_json(schema)) <= _MAX_SCHEMA_BYTES else None
        case _:
            return None


def _plain(answers: types.InputResponses) -> JsonObject:
    return {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, answer in answers.items()
    }
