"""Tests of times that contradict each other: they are refused when the server is built."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from pydantic import BaseModel

from mrtr_options import sdk
from tests.sdk.fakes import Params, result


class Wanted(BaseModel):
    """The arguments."""

    reference: str


async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
    """Pay, by option J."""
    return result("paid")


async def hold(ctx: sdk.LinearContext[Any], call: sdk.CallParams) -> types.CallToolResult:
    """Pay, by option H."""
    return result("paid")


async def keep(ctx: sdk.DurableContext[Any], call: sdk.CallParams) -> types.CallToolResult:
    """Pay, by option L."""
    return result("paid")


def build(handler: Any, *wrappers: Any, ttl: float = 600, resources: Any = ()) -> None:
    """Build a server whose states are good for `ttl` seconds."""
    tool = sdk.Tool("pay", "Pays.", Wanted, handler, [*wrappers])
    settings = sdk.Settings(principal=lambda ctx: "ada", ttl_seconds=ttl)
    sdk.build_server("bank", tool, settings=settings, resources=resources)


@pytest.mark.parametrize(
    ("times", "ttl", "says"),
    [
        ({"call_seconds": 1}, 600, "call_seconds=1 is shorter than the 600 s"),
        ({}, 601, "keep_seconds=600 is shorter than the 601 s"),
        ({}, 600, None),
    ],
)
def test_a_guard_that_forgets_before_a_state_is_dead_is_refused(
    times: Any, ttl: float, says: str | None
) -> None:
    store = sdk.SqliteStore(":memory:", keep_seconds=600)
    guard = sdk.single_use(store, call="reference", **times)
    wrappers = [guard, sdk.legacy_shim]
    if says is None:
        build(sdk.keyed_replay(pay), *wrappers, ttl=ttl)
    else:
        with pytest.raises(ValueError, match=says):
            build(sdk.keyed_replay(pay), *wrappers, ttl=ttl)


def test_a_store_that_gives_a_question_up_before_its_state_is_dead_is_refused() -> None:
    held = sdk.ContinuationStore(idle_seconds=599)
    with pytest.raises(ValueError, match="idle_seconds=599"):
        build(held.linear(hold), resources=[held])
    durable = sdk.DurableStore(idle_seconds=599, version="1")
    with pytest.raises(ValueError, match="idle_seconds=599"):
        build(durable.linear(keep), resources=[durable.serving])
    build(held.linear(hold), ttl=599, resources=[held])
