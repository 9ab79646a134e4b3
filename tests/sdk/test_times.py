"""Tests of times that contradict each other: they are refused when the server is built."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from mrtr_options import sdk
from tests.sdk.fakes import asking


class Wanted(BaseModel):
    """The arguments."""

    reference: str


PAY = asking()


def build(handler: Any, *wrappers: Any, ttl: float = 600, **more: Any) -> None:
    """Build a server whose states are good for `ttl` seconds."""
    tool = sdk.Tool("pay", "Pays.", Wanted, handler, [*wrappers])
    settings = sdk.Settings(principal=lambda ctx: "ada", ttl_seconds=ttl)
    sdk.build_server("bank", tool, settings=settings, **more)


@pytest.mark.parametrize(
    ("times", "ttl", "says"),
    [
        ({"call_seconds": 1}, 600, "call_seconds=1 is shorter than the 600 s"),
        ({}, 601, "keep_seconds=600 is shorter than the 601 s"),
    ],
)
def test_a_guard_that_forgets_before_a_state_is_dead_is_refused(
    times: Any, ttl: float, says: str
) -> None:
    store = sdk.SqliteStore(":memory:", keep_seconds=600)
    guard = partial(sdk.single_use, store, call="reference")
    with pytest.raises(ValueError, match=says):
        build(sdk.keyed_replay(PAY), guard(**times), sdk.legacy_shim, ttl=ttl)
    build(sdk.keyed_replay(PAY), guard(), sdk.legacy_shim, ttl=600)


def test_a_store_that_gives_a_question_up_before_its_state_is_dead_is_refused() -> None:
    held = sdk.ContinuationStore(idle_seconds=599)
    with pytest.raises(ValueError, match="idle_seconds=599"):
        build(held.linear(PAY), resources=[held])
    durable = sdk.TaskStore(idle_seconds=599, version="1")
    for handler in durable.linear(PAY), durable.task(PAY):
        with pytest.raises(ValueError, match="idle_seconds=599"):
            build(handler, resources=[durable.serving], extensions=[durable])
    build(held.linear(PAY), ttl=599, resources=[held])
