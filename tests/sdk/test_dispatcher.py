"""Two handlers under one name, and the era that picks between them."""

from __future__ import annotations

import mcp_types as types
import pytest

from mrtr_options.sdk.dispatcher import by_era
from mrtr_options.sdk.era import era
from tests.rounds import text_of
from tests.sdk.fakes import Context, FakeSession, Params, modern, of_session, params, result

pytestmark = pytest.mark.anyio


async def new(ctx: Context, params: Params) -> types.CallToolResult:
    return result("new")


async def old(ctx: Context, params: Params) -> types.CallToolResult:
    return result("old")


async def test_the_handler_is_picked_by_the_era_of_the_request() -> None:
    tool = by_era(modern=new, legacy=old)
    legacy = of_session(FakeSession(None), modern=False)
    assert text_of(await tool(modern(), params())) == "new"
    assert text_of(await tool(legacy, params())) == "old"
    assert (era(modern()), era(legacy)) == ("modern", "legacy")
