"""The requests of a drawn tool's client, and what it reads in the replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types

from mrtr_options import sdk
from mrtr_options.sdk.handler import JsonObject
from tests.sdk.fakes import Params, named, who


def make_question(kind: str, key: str) -> Any:
    match kind:
        case "link":
            return sdk.link(key, f"Open {key}.", "https://example.com")
        case "sampling":
            said = types.SamplingMessage(role="user", content=types.TextContent(text=key))
            asks = types.CreateMessageRequestParams(messages=[said], max_tokens=9)
            return sdk.sampling(key, asks)
        case _:
            return who(key)


def call(reference: int, words: JsonObject) -> Params:
    """Make the first request of a call, in these words."""
    said = {"reference": reference, **words}
    match words.get("reference"):
        case None:
            pass
        case str(text):
            said["reference"] = text.format(reference)
        case kind:
            said["reference"] = kind(reference)
    return Params(name="pay", arguments=said)


ACTIONS: dict[str, Any] = {"declines": "decline", "cancels": "cancel"}


def answer(asked: types.InputRequiredResult, reference: int, does: str) -> Params:
    """Make the request that answers a question; "misfits" is an answer without its content."""
    answers: types.InputResponses = {}
    for key, request in (asked.input_requests or {}).items():
        if isinstance(request, types.CreateMessageRequest):
            text = types.TextContent(text="a message")
            answers[key] = types.CreateMessageResult(role="assistant", content=text, model="m")
        elif does == "answers" and isinstance(request.params, types.ElicitRequestFormParams):
            answers |= named("Ann", key)
        else:
            answers[key] = types.ElicitResult(action=ACTIONS.get(does, "accept"))
    return call(reference, {}).model_copy(
        update={"input_responses": answers, "request_state": asked.request_state}
    )


async def made(send: Callable[[Params], Awaitable[Any]], reference: int, most: int) -> Any:
    """Make a call as an agreeable user does, in so many requests; return the last response."""
    reply = await send(call(reference, {}))
    for _ in range(most - 1):
        if isinstance(reply, types.InputRequiredResult):
            reply = await send(answer(reply, reference, "answers"))
    return reply


def text_of(reply: Any) -> str:
    """Return the text of a result or of an error."""
    if isinstance(reply, types.CallToolResult):
        return " ".join(getattr(each, "text", "") for each in reply.content)
    return str(reply)


def data_of(reply: Any) -> JsonObject:
    """Return what an error says for programs."""
    return getattr(getattr(reply, "error", None), "data", None) or {}


def reason_of(reply: Any) -> str | None:
    """Return the reason of an error; None if there is none."""
    return data_of(reply).get("reason")
