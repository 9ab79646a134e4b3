"""The exception shim: an `await` that is a jump to the top, with the faults that follow from it."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from mrtr_options.sdk.exception_shim import ReplayContext, exception_shim
from tests.rounds import text_of
from tests.sdk.fakes import (
    Params,
    key_of,
    modern,
    params,
    result,
    who,
)

pytestmark = pytest.mark.anyio


async def test_an_authors_except_exception_swallows_the_question() -> None:
    """The documented fault: the interrupt is an exception like any other."""

    async def handler(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        try:
            answer = await ctx.elicit(who())
        except Exception:
            return result("went on without asking")
        return result(answer.name)

    tool = exception_shim(handler)
    assert text_of(await tool(modern(), params())) == "went on without asking"


async def test_an_authors_finally_runs_before_the_user_was_asked() -> None:
    """The same fault in another coat: what is closed there is closed too early."""
    ran: list[str] = []

    async def handler(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        try:
            return result((await ctx.elicit(who())).name)
        finally:
            ran.append("finally")

    tool = exception_shim(handler)
    assert key_of(await tool(modern(), params())) == "who"
    assert ran == ["finally"]
