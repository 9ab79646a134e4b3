"""Faults of the response: it never reaches the client."""

from __future__ import annotations

from dataclasses import replace

from mrtr_options.review.bench.faults.kinds import (
    BACK_OFF_SECONDS,
    Condition,
    Send,
    Sending,
    fault,
)
from mrtr_options.review.bench.messages import Reply


@fault(
    "lost",
    "the response is lost",
    words="{response} lost",
    instruction="lose it",
    phase="response",
    rarity=0,
    model="",
)
async def lost(sending: Sending, send: Send) -> Reply:
    return await send(replace(sending, lost=True))


@fault(
    "ahead",
    "the request already answers the next question, too, and the response is lost",
    words="{response} lost, next question answered ahead",
    instruction="answer the next question, too, and lose it",
    phase="response",
    can=Condition("a request after which a question is due", lambda situation: situation.asks),
    modern=True,
    tried="check",
)
async def ahead(sending: Sending, send: Send) -> Reply:
    request = sending.request
    question = sending.client.next_question
    if question is not None:
        answers = {**(request.answers or {}), question: sending.client.answer(question)}
        request = replace(request, answers=answers)
    return await send(replace(sending, request=request, lost=True))


@fault(
    "crash",
    "the instance dies when the handler is done, before it responds",
    words="crash before {response}",
    instruction="crash before it is sent",
    phase="response",
    needs={"crash"},
    rarity=8,
    model="",
)
async def crash(sending: Sending, send: Send) -> Reply:
    reply = await send(replace(sending, lost=True))
    await sending.client.crash()
    await sending.client.wait(BACK_OFF_SECONDS)
    return reply
