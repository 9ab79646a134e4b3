"""Faults on the way: a request arrives twice, elsewhere or changed; its response does not."""

from __future__ import annotations

from dataclasses import replace

import mcp_types as types

from mrtr_options.review.bench.faults.kinds import (
    ANSWERS,
    BACK_OFF_SECONDS,
    LATER_OF_TWO,
    Condition,
    Outgoing,
    SendOn,
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
async def twice(outgoing: Outgoing, send: SendOn) -> Reply:
    return await send(replace(outgoing, again="later"))


@fault(
    "both",
    "the request is delivered twice at the same moment",
    words="{nth} request twice at once",
    instruction="deliver it twice at once",
    phase="delivery",
    rarity=2,
    model="",
)
async def both(outgoing: Outgoing, send: SendOn) -> Reply:
    return await send(replace(outgoing, again="at once"))


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
async def more(outgoing: Outgoing, send: SendOn) -> Reply:
    reply = await send(outgoing)
    sent = outgoing.client.last_request or outgoing.request
    answers: types.InputResponses = {}
    for key, given in (sent.answers or {}).items():
        if isinstance(given, types.ElicitResult):
            content = {**(given.content or {}), "note": "as before"}
            answers[key] = types.ElicitResult(action="accept", content=content)
    if answers:
        await outgoing.client.deliver(replace(sent, answers=answers))
    return reply


@fault(
    "missent",
    "the request goes to another instance first, and then to the one that asked",
    words="{nth} request to a wrong instance first",
    instruction="send it to the other instance first",
    phase="delivery",
    can=LATER_OF_TWO,
    modern=True,
    needs_two=True,
    rarity=5,
    model="",
)
async def missent(outgoing: Outgoing, send: SendOn) -> Reply:
    if outgoing.previous is not None:  # an instance has asked, so another one is the wrong one
        await outgoing.client.deliver(outgoing.request, elsewhere=True)
    return await send(outgoing)


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
async def early(outgoing: Outgoing, send: SendOn) -> Reply:
    client = outgoing.client
    answers = {question: client.answer(question) for question in client.questions}
    return await send(replace(outgoing, request=replace(outgoing.request, answers=answers)))


@fault(
    "lost",
    "the response is lost",
    words="{response} lost",
    instruction="lose it",
    phase="response",
    rarity=0,
    model="",
)
async def lost(outgoing: Outgoing, send: SendOn) -> Reply:
    return await send(replace(outgoing, lost=True))


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
async def ahead(outgoing: Outgoing, send: SendOn) -> Reply:
    request = outgoing.request
    question = outgoing.client.next_question
    if question is not None:
        answers = {**(request.answers or {}), question: outgoing.client.answer(question)}
        request = replace(request, answers=answers)
    return await send(replace(outgoing, request=request, lost=True))


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
async def crash(outgoing: Outgoing, send: SendOn) -> Reply:
    reply = await send(replace(outgoing, lost=True))
    await outgoing.client.crash()
    await outgoing.client.wait(BACK_OFF_SECONDS)
    return reply
