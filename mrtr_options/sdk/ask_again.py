"""A wrapper that asks again where an answer does not fit, and does not end the round in an error.

Every shipped client that was tried ends the call at -32602, although the same round could be sent again
with an answer that fits (docs/CLIENTS.md). Inside this wrapper the handler is called once more without
that answer, so it asks as it does where an answer is missing. That is author code that runs again: what
it does above its question happens again, as in any round. A client that always sends the same bad
answer is asked for as many rounds as it makes, ten with the SDKs' clients.

Goes outside the single-use guard, which checks forms itself, and inside the legacy shim.
Knows `handlers` and `questions`.
"""

from __future__ import annotations

from functools import wraps

from mcp import MCPError

from mrtr_options.sdk.handlers import Context, Handler, Params, Result, check_handler
from mrtr_options.sdk.questions import bad_answer


def ask_again(handler: Handler) -> Handler:
    """Ask a question again whose answer does not fit."""

    check_handler(handler, "ask_again")

    @wraps(handler)
    async def asking(ctx: Context, params: Params) -> Result:
        while True:
            try:
                return await handler(ctx, params)
            except MCPError as error:
                given, bad = params.input_responses or {}, bad_answer(error)
                if bad not in given:  # another error, or a pushed question's answer
                    raise
                rest = {key: answer for key, answer in given.items() if key != bad}
                params = params.model_copy(update={"input_responses": rest})

    return asking
