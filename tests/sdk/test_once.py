"""`once`: an effect runs unless its marker came back."""

import anyio
import anyio.lowlevel
import pytest

from mrtr_options.sdk.once import Markers
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio


class Counter:
    """An effect that takes a while and counts how often it took place."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.times += 1
        await anyio.lowlevel.checkpoint()


async def test_an_effect_that_fails_or_is_cancelled_leaves_no_marker_and_may_be_tried_again() -> (
    None
):
    state, effect, booked = Markers(), Counter(), list[str]()
    with anyio.move_on_after(0):
        await state.once("audit", anyio.sleep_forever)
    with pytest.raises(ZeroDivisionError):
        await state.once("audit", lambda: 1 / 0)
    assert state.done == []
    with anyio.fail_after(SECONDS):
        for _ in range(2):
            await state.once("audit", effect)
            await state.once("another", lambda: booked.append("by a plain function"))
    assert (effect.times, len(booked), state.done) == (1, 1, ["audit", "another"])


async def test_one_key_used_twice_at_once_runs_once_and_both_wait_for_it() -> None:
    effect = Counter()
    state = Markers()
    seen: list[int] = []

    async def use() -> None:
        await state.once("audit", effect)
        seen.append(effect.times)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(use)
    assert effect.times == 1
    assert seen == [1] * 5
    assert state.done == ["audit"]
