"""A wrapper that asks again where an answer does not fit, and does not end the round in an error.

Every shipped client that was tried ends the call at -32602, although the same round could be sent
again with an answer that fits (docs/results/CLIENTS.md). Inside this wrapper the handler is called
once more without that answer, so it asks as it does where an answer is missing. That is author code
that runs again: what it does above its question happens again, as in any round. The question says
what was wrong, and how often it was asked again travels in the state: after `TIMES` the bad answer
ends the call.

Goes outside the single-use guard, which checks forms itself, and inside the legacy shim.
Knows `handler`, `current_request` and `questions`.
"""

from __future__ import annotations

from functools import wraps

import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.current_request import check_protected
from mrtr_options.sdk.handler import Context, Handler, Params, Result, check_handler
from mrtr_options.sdk.questions import question_of_bad_answer

TIMES = 3
"""The most times in a row that a question is asked again."""
_MARK = "asked-again:"


def ask_again(handler: Handler) -> Handler:
    """Ask a question again whose answer does not fit, and say what was wrong; three times at most.

    tool = sdk.Tool("book", "Books a table.", Booking, book, wrappers=[guard, sdk.ask_again])
    """
    check_handler(handler, "ask_again")

    @wraps(handler)
    async def asking(ctx: Context, params: Params) -> Result:
        times = 0
        state = params.request_state
        if state is not None and state.startswith(_MARK):
            check_protected()
            count, _, state = state.removeprefix(_MARK).partition(":")
            times = int(count)
            params = params.model_copy(update={"request_state": state or None})
        wrong: dict[str, str] = {}
        while True:
            try:
                result = await handler(ctx, params)
                return _asked_again(result, wrong, times + 1)
            except MCPError as error:
                given = params.input_responses or {}
                bad = question_of_bad_answer(error)
                # A question that was pushed has no answer among these.
                is_of_this_round = bad in given
                if bad is None or not is_of_this_round or times == TIMES:
                    raise
                wrong[bad] = error.message
                rest = {key: answer for key, answer in given.items() if key != bad}
                params = params.model_copy(update={"input_responses": rest})

    return asking


def _asked_again(result: Result, wrong: dict[str, str], times: int) -> Result:
    """Add to a result that asks again what was wrong, and count in the state how often."""
    if not isinstance(result, types.InputRequiredResult):
        return result
    told = dict(result.input_requests or {})
    if not wrong.keys() & told.keys():
        return result
    check_protected()
    for key, request in told.items():
        if key in wrong and isinstance(request, types.ElicitRequest):
            message = f"{wrong[key]}\n{request.params.message}"
            params = request.params.model_copy(update={"message": message})
            told[key] = request.model_copy(update={"params": params})
    state = f"{_MARK}{times}:{result.request_state or ''}"
    return types.InputRequiredResult(input_requests=told, request_state=state)
