"""The exception shim: an `await` that is a jump to the top, with the faults that follow from it."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from mrtr_options.sdk.exception_shim import ReplayContext, exception_shim
from mrtr_options.sdk.questions import Declined
from tests.rounds import text_of
from tests.sdk.fakes import (
    FakeSession,
    Params,
    capabilities,
    key_of,
    modern,
    named,
    of_session,
    params,
    result,
    who,
)

pytestmark = pytest.mark.anyio


class Story:
    """A linear tool of two questions, which notes what ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.tool = exception_shim(self.handler)

    async def handler(self, ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        self.ran.append("above")
        one = await ctx.elicit(who("one"))
        self.ran.append("between")
        two = await ctx.elicit(who("two"))
        self.ran.append("below")
        return result(f"{one.name} and {two.name}")


async def test_what_stands_above_a_question_runs_again_in_every_round() -> None:
    story = Story()
    asked = await story.tool(modern(), params())
    asked = await story.tool(modern(), params(named("Ann", "one"), asked))
    done = await story.tool(modern(), params(named("Bob", "two"), asked))
    assert text_of(done) == "Ann and Bob"
    assert story.ran == ["above", "above", "between", "above", "between", "below"]


async def test_on_the_legacy_era_nothing_runs_again_which_hides_the_fault() -> None:
    async def user(request: types.ServerRequest) -> types.InputResponse:
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    story = Story()
    session = FakeSession(capabilities(form=True), can_send_request=True, user=user)
    assert text_of(await story.tool(of_session(session, modern=False), params())) == "Ann and Ann"
    assert story.ran == ["above", "between", "below"]


async def test_an_accepted_answer_is_not_overwritten_by_a_later_round() -> None:
    story = Story()
    asked = await story.tool(modern(), params())
    asked = await story.tool(modern(), params(named("Ann", "one"), asked))
    both = named("Eve", "one") | named("Bob", "two")
    assert text_of(await story.tool(modern(), params(both, asked))) == "Ann and Bob"


async def test_a_decline_raises_in_the_authors_code_and_can_be_caught_there() -> None:
    async def handler(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        try:
            await ctx.elicit(who())
        except Declined as declined:
            return result(declined.key)
        raise AssertionError("was answered")

    tool = exception_shim(handler)
    asked = await tool(modern(), params())
    declined: types.InputResponses = {"who": types.ElicitResult(action="decline")}
    assert text_of(await tool(modern(), params(declined, asked))) == "who"


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
