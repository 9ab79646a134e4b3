"""Faults before a request: its instances change, time passes, another call begins."""

from __future__ import annotations

from dataclasses import replace

from mrtr_options.review.bench.faults.kinds import (
    LATER,
    LATER_OF_TWO,
    Condition,
    Outgoing,
    SendOn,
    Version,
    fault,
)
from mrtr_options.review.bench.messages import Reply
from mrtr_options.tool.settings import STATE_TTL_SECONDS

CHANGE: Version = "inserted"
"""The version that the fault `redeploy` deploys: one more question."""


@fault(
    "restart",
    "every instance is replaced before the request",
    words="restart",
    instruction="replace every instance first",
    phase="before",
    can=LATER,
    needs={"restart"},
    rarity=7,
    model="",
)
async def restart(outgoing: Outgoing, send: SendOn) -> Reply:
    await outgoing.client.restart()
    return await send(outgoing)


@fault(
    "failover",
    "the request goes to another instance than the one that asked",
    words="failover",
    instruction="send it to the other instance",
    phase="before",
    can=LATER_OF_TWO,
    modern=True,
    needs_two=True,
    rarity=4,
    model="",
)
async def failover(outgoing: Outgoing, send: SendOn) -> Reply:
    return await send(replace(outgoing, elsewhere=True))


@fault(
    "expired",
    "eleven minutes pass before the request",
    words="state expired",
    instruction="let eleven minutes pass first",
    phase="before",
    can=LATER,
    needs={"time"},
    modern=True,
    model="states too old",
)
async def expired(outgoing: Outgoing, send: SendOn) -> Reply:
    await outgoing.client.wait(STATE_TTL_SECONDS + 60)
    return await send(outgoing)


@fault(
    "redeploy",
    "a version with one more question is deployed before the request",
    words="redeploy",
    instruction="deploy another version first",
    phase="before",
    deploys=CHANGE,
    can=Condition(
        "a request after the first, and a later version to deploy",
        lambda situation: not situation.first and situation.has_next_version,
    ),
    needs={"versions"},
    modern=True,
    model="redeploys",
)
async def redeploy(outgoing: Outgoing, send: SendOn) -> Reply:
    await outgoing.client.redeploy(CHANGE)
    return await send(outgoing)


@fault(
    "other",
    "another call of the same user begins before the request and ends after it",
    words="another call meanwhile",
    instruction="make another call around it",
    phase="before",
    another_call=True,
    can=LATER,
    modern=True,
    model="second call at once",
)
async def other(outgoing: Outgoing, send: SendOn) -> Reply:
    call = outgoing.client.other_call(otherwise=True)
    await call.begin()
    reply = await send(outgoing)
    await call.finish()
    return reply
