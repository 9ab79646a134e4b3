"""Faults of the delivery: a request arrives twice, at another instance, or with other answers."""

from __future__ import annotations

from dataclasses import replace

import mcp_types as types

from mrtr_options.review.bench.faults.kinds import (
    ANSWERS,
    LATER_OF_TWO,
    Condition,
    Send,
    Sending,
    fault,
)
from mrtr_options.review.bench.messages import Reply


@fault(
    "twice",
    "the request is delivered twice, the second time when the first was answered",
    words="{nth} request twice",
    instruction="deliver it twice",
    phase="delivery",
    rarity=1,
    model="",
)
async def twice(sending: Sending, send: Send) -> Reply:
    return await send(replace(sending, again="later"))


@fault(
    "both",
    "the request is delivered twice at the same moment",
    words="{nth} request twice at once",
    instruction="deliver it twice at once",
    phase="delivery",
    rarity=2,
    model="",
)
async def both(sending: Sending, send: Send) -> Reply:
    return await send(replace(sending, again="at once"))


@fault(
    "more",
    "the request is delivered again, with one more property in its answer",
    words="{nth} request again with more",
    instruction="deliver it again with one more property",
    phase="delivery",
    can=ANSWERS,
    modern=True,
    tried="check",
)
async def more(sending: Sending, send: Send) -> Reply:
    reply = await send(sending)
    sent = sending.client.last_request or sending.request
    answers: types.InputResponses = {}
    for key, given in (sent.answers or {}).items():
        if isinstance(given, types.ElicitResult):
            content = {**(given.content or {}), "note": "as before"}
            answers[key] = types.ElicitResult(action="accept", content=content)
    if answers:
        await sending.client.deliver(replace(sent, answers=answers))
    return reply


@fault(
    "misrouted",
    "the request goes to another instance first, and then to the one that asked",
    words="{nth} request misrouted",
    instruction="send it to the other instance first",
    phase="delivery",
    can=LATER_OF_TWO,
    modern=True,
    needs_two=True,
    rarity=5,
    model="",
)
async def misrouted(sending: Sending, send: Send) -> Reply:
    if sending.previous is not None:  # an instance has asked, so another one is the wrong one
        await sending.client.deliver(sending.request, elsewhere=True)
    return await send(sending)


@fault(
    "early",
    "the request answers every question before it is asked",
    words="answers before questions",
    instruction="answer every question in it",
    phase="delivery",
    can=Condition("the first request of the call", lambda situation: situation.first),
    modern=True,
    tried="alone",
    model="early answers",
)
async def early(sending: Sending, send: Send) -> Reply:
    client = sending.client
    answers = {question: client.answer(question) for question in client.questions}
    return await send(replace(sending, request=replace(sending.request, answers=answers)))
