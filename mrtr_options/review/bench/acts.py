"""What faults do around a request of the default client, on its `Moment`.

`strikes` has what they do at an effect.
"""

from __future__ import annotations

from dataclasses import replace

import mcp_types as types

from mrtr_options.review.bench.fault_kinds import Moment

BACK_OFF_SECONDS = 61.0
"""The time after which a client retries a server's failure and a dead instance is replaced.

It is longer than the single-use guard waits for its rounds.
"""


async def misroute(moment: Moment) -> None:
    """Deliver the request to the wrong instance first."""
    if moment.previous is not None:  # an instance has asked, so another one is the wrong one
        await moment.deliver(moment.request, elsewhere=True)


async def answer_early(moment: Moment) -> None:
    """Have the request answer every question of the call, by its name, before it is asked."""
    answers = {question: moment.answer(question) for question in moment.questions}
    moment.request = replace(moment.request, answers=answers)


async def answer_ahead(moment: Moment) -> None:
    """Have the request answer the question after it, too."""
    question = moment.next_question
    if question is not None:
        answers = dict(moment.request.answers or {})
        answers[question] = moment.answer(question)
        moment.request = replace(moment.request, answers=answers)


async def deliver_with_more(moment: Moment) -> None:
    """Deliver the request again with one more property in its answers."""
    answers: types.InputResponses = {}
    for key, given in (moment.request.answers or {}).items():
        if isinstance(given, types.ElicitResult):
            content = {**(given.content or {}), "note": "as before"}
            answers[key] = types.ElicitResult(action="accept", content=content)
    if answers:
        await moment.deliver(replace(moment.request, answers=answers))


async def go_back(moment: Moment) -> None:
    """Answer the question of the round otherwise, from the state that it came with."""
    answers: types.InputResponses = {}
    for key, given in (moment.request.answers or {}).items():
        content = given.content if isinstance(given, types.ElicitResult) else None
        (question,) = content or {"": None}
        answers[key] = moment.answer(question, otherwise=True)
    if answers:
        changed = replace(moment.request, answers=answers)
        reply = await moment.deliver(changed, lost=False)
        if not reply.failed:
            moment.reply = reply


async def deliver_earlier(moment: Moment) -> None:
    """Deliver the request before this one again."""
    if moment.previous is not None:
        await moment.deliver(moment.previous)


async def crash(moment: Moment) -> None:
    await moment.crash()
    await wait_for_the_next(moment)


async def wait_for_the_next(moment: Moment) -> None:
    """Wait until another instance has taken the place of the one that died."""
    await moment.wait(BACK_OFF_SECONDS)
