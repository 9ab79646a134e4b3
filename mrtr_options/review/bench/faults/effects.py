"""Faults at an effect: around its arrival at the destination."""

from __future__ import annotations

from mrtr_options.review.bench.faults.kinds import (
    BACK_OFF_SECONDS,
    Arrive,
    ArrivingEffect,
    fault_at_effects,
)

SLOW_SECONDS = 1.3
"""The duration of a slow effect."""

LOCK_SECONDS = 0.5
"""The time for which somebody else writes: less than the five seconds that `sqlite3` waits."""


@fault_at_effects(
    "crash",
    "the instance dies right after the {}",
    words="crash after {}",
    instruction="crash right after it",
    needs={"crash"},
    back_off=BACK_OFF_SECONDS,
    rarity=8,
    model="",
)
async def crash_after(effect: ArrivingEffect, arrive: Arrive) -> None:
    await arrive()
    await effect.end_instance()


@fault_at_effects(
    "down",
    "the instance dies right before the {}",
    words="crash before {}",
    instruction="crash right before it",
    needs={"crash"},
    back_off=BACK_OFF_SECONDS,
    rarity=9,
    model="",
)
async def down(effect: ArrivingEffect, arrive: Arrive) -> None:
    await effect.end_instance()


@fault_at_effects(
    "gone",
    "the client is gone right after the {}, and its request is cancelled",
    words="client gone after {}",
    instruction="let the client leave right after it",
    needs={"disconnect"},
    rarity=6,
    model="",
)
async def gone(effect: ArrivingEffect, arrive: Arrive) -> None:
    await arrive()
    await effect.let_client_leave()


@fault_at_effects(
    "fail",
    "the {} fails: its destination is down",
    words="{} fails",
    instruction="let it fail",
    lasts=True,
    rarity=10,
    model="failing effects",
)
async def fail(effect: ArrivingEffect, arrive: Arrive) -> None:
    effect.fail()


@fault_at_effects(
    "unsure",
    "the {} takes place and is reported as failed",
    words="{} done, told as failed",
    instruction="let it happen, and report that it failed",
    needs={"one try of an effect"},
    tried="asked",
    rarity=11,
)
async def unsure(effect: ArrivingEffect, arrive: Arrive) -> None:
    await arrive()
    effect.fail()


@fault_at_effects(
    "once",
    "the first try of the {} in the round fails",
    words="{} fails once",
    instruction="let it fail once",
    needs={"one try of an effect"},
    tried="script",
)
async def once(effect: ArrivingEffect, arrive: Arrive) -> None:
    effect.fail()


@fault_at_effects(
    "slow",
    "the first try of the {} takes long",
    words="slow {}",
    instruction="let it take long",
    needs={"one try of an effect"},
    tried="script",
)
async def slow(effect: ArrivingEffect, arrive: Arrive) -> None:
    await effect.take_long(SLOW_SECONDS)
    await arrive()


@fault_at_effects(
    "lock",
    "somebody else writes when the {} is due",
    words="{} has to wait",
    instruction="let it wait",
    tried="script",
)
async def lock(effect: ArrivingEffect, arrive: Arrive) -> None:
    await effect.wait_for_lock(LOCK_SECONDS)
    await arrive()
