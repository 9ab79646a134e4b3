"""Tests of `once`: an effect runs unless its marker came back."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from mrtr_options.sdk.keys import KeyUsedTwice
from mrtr_options.sdk.once import Markers
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio


class Counter:
    """An effect that takes a while, and counts its runs."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.times += 1
        await anyio.lowlevel.checkpoint()


async def test_an_effect_that_fails_or_is_cancelled_leaves_no_marker_and_may_be_tried_again() -> (
    None
):
    state = Markers()
    effect = Counter()
    booked = list[str]()
    with anyio.move_on_after(0):
        await state.once("audit", anyio.sleep_forever)
    with pytest.raises(ZeroDivisionError):
        await state.once("audit", lambda: 1 / 0)
    assert state.done == []
    with anyio.fail_after(SECONDS):
        await state.once("audit", effect)
        await state.once("another", lambda: booked.append("by a plain function"))
        later = Markers.model_validate_json(state.model_dump_json())
        await later.once("audit", effect)
    assert effect.times == 1
    assert len(booked) == 1
    assert state.done == ["audit", "another"]


class Paid(BaseModel):
    id: str


async def test_a_value_that_is_json_may_be_read_as_a_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def pay() -> object:
        return {"id": "1"}

    pay.__annotations__["return"] = Paid
    assert await Markers().once("pay", pay) == Paid(id="1")
    assert caplog.text == ""


async def test_an_effect_that_returns_the_coroutine_of_another_function_is_done() -> None:
    effect = Counter()

    async def later() -> object:
        return effect()

    await Markers().once("audit", later)
    assert effect.times == 1


@pytest.mark.parametrize("has_run_before", [False, True])
async def test_a_key_is_one_effects_in_a_round_and_a_second_use_names_both_places(
    has_run_before: bool,
) -> None:
    state = Markers(done=["charge"] if has_run_before else [])
    charged: list[str] = []

    async def charge_all() -> None:
        for order in "AB":
            await state.once("charge", partial(charged.append, order))

    with pytest.raises(KeyUsedTwice, match="'charge' is used for two effects") as twice:
        await charge_all()
    assert charged == ([] if has_run_before else ["A"])
    assert str(twice.value).count("test_once.py") == 2


async def test_a_key_that_two_tasks_use_at_once_is_one_effects() -> None:
    effect = Counter()
    state = Markers()
    refused: list[str] = []

    async def use() -> None:
        try:
            await state.once("audit", effect)
        except KeyUsedTwice:
            refused.append("audit")

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(use)
    assert effect.times == 1
    assert len(refused) == 4
    assert state.done == ["audit"]


def priced() -> dict[str, Any]:
    return {"total": 40, "lines": [38, 2]}


@pytest.mark.parametrize("effect", [priced, lambda: priced()])
async def test_an_author_may_change_what_an_effect_returned_and_the_record_stays(
    effect: Callable[[], dict[str, Any]],
) -> None:
    state = Markers()
    for _ in range(2):
        paid = await state.once("pay", effect)
        assert paid == priced()
        paid["lines"].append(paid.pop("total"))
        state = Markers.model_validate_json(state.model_dump_json())


@pytest.mark.parametrize(("key", "error"), [(7, TypeError), ("\ud800", ValueError)])
async def test_a_key_that_no_state_can_hold_is_refused_before_the_effect(
    key: Any, error: type[Exception]
) -> None:
    effect = Counter()
    state = Markers()
    with pytest.raises(error, match="the effect"):
        await state.once(key, effect)
    assert effect.times == 0
    assert state.done == []
