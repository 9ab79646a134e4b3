"""Faults after a request: the user goes back or calls again, or an old request comes late."""

from __future__ import annotations

from dataclasses import replace

import mcp_types as types

from mrtr_options.review.bench.faults.kinds import (
    ANSWERS,
    LATER,
    Condition,
    Outgoing,
    SendOn,
    fault,
)
from mrtr_options.review.bench.messages import Reply


@fault(
    "back",
    "the user goes back and answers differently",
    words="answer changed",
    instruction="go back and answer differently",
    phase="after",
    can=ANSWERS,
    modern=True,
    model="changed answers",
)
async def back(outgoing: Outgoing, send: SendOn) -> Reply:
    reply = await send(outgoing)
    sent = outgoing.client.last_request or outgoing.request
    answers: types.InputResponses = {}
    for key, given in (sent.answers or {}).items():
        content = given.content if isinstance(given, types.ElicitResult) else None
        (question,) = content or {"": None}
        answers[key] = outgoing.client.answer(question, otherwise=True)
    if not answers:
        return reply
    later = await outgoing.client.deliver(replace(sent, answers=answers), lost=False)
    return reply if later.failed else later


@fault(
    "old",
    "the request before this one is delivered again, late",
    words="earlier request again",
    instruction="deliver the one before it again, late",
    phase="after",
    can=LATER,
    modern=True,
    rarity=3,
    model="",
)
async def old(outgoing: Outgoing, send: SendOn) -> Reply:
    reply = await send(outgoing)
    if outgoing.previous is not None:
        await outgoing.client.deliver(outgoing.previous)
    return reply


@fault(
    "again",
    "the user makes the same call again on purpose",
    words="second call on purpose",
    instruction="have the user want it twice",
    phase="after",
    another_call=True,
    can=Condition(
        "a later request after which no question is due",
        lambda situation: not situation.first and not situation.asks,
    ),
    modern=True,
    tried="alone",
    model="",
)
async def again(outgoing: Outgoing, send: SendOn) -> Reply:
    reply = await send(outgoing)
    call = outgoing.client.other_call()
    await call.begin()
    await call.finish()
    return reply
