"""Asking a legacy client: the server sends a request of its own and waits for the answer.

This is what MCP 2026-07-28 took away; it exists only on a legacy connection with a back-channel.
Shared by the options that still serve such clients in full. Knows `questions`.

Source: MCP 2025-11-25, client features (elicitation, sampling, roots).
"""

from __future__ import annotations

import secrets

import mcp_types as types
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from mrtr_options.sdk.capabilities import declares_forms, is_modern
from mrtr_options.sdk.handler import Context
from mrtr_options.sdk.questions import (
    AnswerT,
    BadAnswer,
    Question,
    assume_answer,
    read_answer,
    request_for,
)


def can_push(ctx: Context) -> bool:
    """Return whether the server can send this client a request and receive the answer."""
    return not is_modern(ctx) and ctx.session.can_send_request


async def push_request(ctx: Context, key: str, request: types.InputRequest) -> types.InputResponse:
    """Send one question to the client and wait for its answer.

    Raises:
        BadAnswer: It is not of the question's kind.
        MCPError: The client answered with an error, or there is no back-channel.
    """
    # Tied to the call it belongs to: over HTTP it then travels on that call's own stream, and the
    # client need not keep a second one open.
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    match request:
        case types.ElicitRequest(params=params):
            result = types.ElicitResult
            if isinstance(params, types.ElicitRequestURLParams) and params.elicitation_id is None:
                numbered = params.model_copy(update={"elicitation_id": secrets.token_urlsafe(16)})
                request = types.ElicitRequest(params=numbered)  # that version requires one
        case types.CreateMessageRequest():
            result = types.CreateMessageResult
        case types.ListRootsRequest():
            result = types.ListRootsResult
    try:
        return await ctx.session.send_request(request, result, metadata=metadata)
    except ValidationError:
        raise BadAnswer(key, f"it is not of the type {result.__name__}") from None


async def push(ctx: Context, question: Question[AnswerT]) -> AnswerT:
    """Ask a legacy client a question and wait for the answer.

    Where the client cannot be asked, what the question assumes takes the answer's place.

    Raises:
        Declined, Cancelled, BadAnswer: See `questions.read_answer`.
        CannotAsk: See `questions.without_asking`.
        MCPError: The client answered with an error.
    """
    if not (can_push(ctx) and declares_forms(ctx)):
        return assume_answer(question)
    return read_answer(question, await push_request(ctx, question.key, request_for(question)))
