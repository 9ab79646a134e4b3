"""Idempotency keys at a ledger that honours them: exactly once after the first round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrtr_options.bench.run import run
from mrtr_options.bench.schedules import named
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge.reading import Observation, observe
from mrtr_options.tool.catalogue import option_named

pytestmark = pytest.mark.anyio

AFTER_ROUND_ONE = (
    "lost-interim-resent",
    "lost-final",
    "duplicate-interim",
    "concurrent-interim",
    "duplicate-final",
    "concurrent-final",
    "late-replay",
    "disconnect-after-effect",
    "crash-after-effect",
    "failed-bill",
)
ROUND_ONE = ("lost-first", "lost-interim", "disconnect-after-audit")


async def seen(slug: str, *, honours_keys: bool, instances: int = 1) -> Observation:
    """What J does under a schedule."""
    scenario = named(slug) if instances == 2 else named(slug).on_one()
    setup = replace(scenario.setup, honours_keys=honours_keys)
    return observe(await run(Subject(option_named("J")), replace(scenario, setup=setup)))


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("slug", AFTER_ROUND_ONE)
async def test_j_is_exactly_once_after_round_one_where_keys_are_honoured(
    slug: str, instances: int
) -> None:
    observation = await seen(slug, honours_keys=True, instances=instances)
    assert observation.effects == {"audit": 1, "bill": 1}
    # Where every request arrives twice the client may have nothing to go on with but the effects.
    assert observation.outcome == "completed"


@pytest.mark.parametrize("slug", ROUND_ONE)
async def test_a_lost_first_round_has_no_key_to_go_by(slug: str) -> None:
    observation = await seen(slug, honours_keys=True)
    assert observation.effects == {"audit": 2, "bill": 1}


async def test_two_calls_are_billed_twice_where_keys_are_honoured() -> None:
    observation = await seen("crossed-states", honours_keys=True)
    assert observation.effects == {"audit": 2, "bill": 2}
