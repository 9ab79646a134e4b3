"""Tests of `await ctx.elicit()` in every option that has it: B, M, J, H, L and K, side by side.

The matrix plays their weather tools; these tests have an author's own code around a question.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options import sdk
from mrtr_options.sdk.exception_shim import exception_shim
from mrtr_options.sdk.positional_replay import positional_replay
from mrtr_options.tool.weather import Question
from tests.bounds import SECONDS
from tests.restaurant import answering
from tests.sdk.fakes import (
    ON_ASYNCIO,
    Name,
    asking,
    asking_at_once,
    key_of,
    keys_of,
    named,
    never,
    no,
    who,
)
from tests.sending import Response, round_of, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

Linear = Callable[[Any, Any], Awaitable[types.CallToolResult]]

HANDLERS = {"B": exception_shim, "M": positional_replay, "J": sdk.keyed_replay}
STORES = {"H": sdk.ContinuationStore, "L": sdk.DurableStore, "K": sdk.TaskStore}
REPLAYED = ("B", "M")
KEYED = ("J",)
HELD = ("H", "L", "K")
every = pytest.mark.parametrize("option", [*REPLAYED, *KEYED, *HELD])
together = pytest.mark.parametrize("option", [*KEYED, *HELD])


@asynccontextmanager
async def calling(
    option: str, handler: Linear, settings: sdk.Settings | None = None
) -> AsyncGenerator[Callable[..., Awaitable[Response]]]:
    """Connect to a server with a tool in this option's style.

    Yields:
        A function that sends a first round, or the round after the response that asked.
    """
    made: Any = HANDLERS.get(option)
    more: dict[str, Any] = {}
    if option in HELD:
        if option != "H":
            pytest.importorskip("dbos")
        store: Any = STORES[option]()
        made = store.task if option == "K" else store.linear
        more["resources"] = [store if option == "H" else store.serving]
        more["extensions"] = [store] if option == "K" else []
    tool = sdk.Tool("tool", "Asks.", NoArguments, made(handler))
    server = sdk.build_server("asks", tool, settings=settings or sdk.Settings(), **more)

    async def send(asked: Any = None, answers: types.InputResponses | None = None) -> Response:
        with anyio.fail_after(SECONDS):
            return await round_of(client, "tool", {}, asked, answers)

    async with Client(server, mode="2026-07-28", elicitation_callback=never) as client:
        yield send


class NoArguments(sdk.Markers):
    """The tool's arguments."""


@every
@pytest.mark.parametrize(
    ("action", "outcome"), [("decline", sdk.Declined), ("cancel", sdk.Cancelled)]
)
async def test_a_no_is_raised_where_it_was_asked(
    option: str, action: Any, outcome: type[Exception]
) -> None:
    async def tool(ctx: Any, params: Any) -> types.CallToolResult:
        try:
            await ctx.elicit(who("one"))
        except outcome:
            return sdk.text("said no")
        raise AssertionError("the handler went on")

    async with calling(option, tool) as send:
        asked = await send()
        assert text_of(await send(asked, no(key_of(asked), action))) == "said no"


@every
async def test_the_authors_except_and_finally_meet_a_question_as_the_option_says(
    option: str,
) -> None:
    """Ask inside `try`: B and M raise an `Exception`, J a `BaseException`; H, L and K wait."""
    log: list[str] = []

    async def tool(ctx: Any, params: Any) -> types.CallToolResult:
        try:
            return sdk.text((await ctx.elicit(who("one"))).name)
        except Exception:
            return sdk.text("went on without asking")
        finally:
            log.append("finally")

    async with calling(option, tool) as send:
        begun = await send()
        if option in REPLAYED:
            assert text_of(begun) == "went on without asking"
        else:
            assert log == (["finally"] if option in KEYED else [])
            assert text_of(await send(begun, named("Ann", "one"))) == "Ann"


@pytest.mark.parametrize("option", HELD)
async def test_a_second_question_at_once_is_refused_and_the_first_stays_good(option: str) -> None:
    async def tool(ctx: Any, params: Any) -> types.CallToolResult:
        heard: list[str] = []

        async def asking(key: str) -> None:
            try:
                heard.append((await ctx.elicit(who(key))).name)
            except RuntimeError as refusal:
                heard.append(str(refusal))

        async with anyio.create_task_group() as helpers:
            helpers.start_soon(asking, "one")
            await anyio.lowlevel.checkpoint()
            helpers.start_soon(asking, "two")
        return sdk.text(" / ".join(heard))

    async with calling(option, tool) as send:
        asked = await send()
        heard_both = text_of(await send(asked, named("Ann", "one")))
    assert heard_both.startswith(
        "cannot ask 'two': this call is waiting for another answer; ask them"
    )
    assert heard_both.endswith("together with elicit_all / Ann")


@together
async def test_questions_asked_together_are_answered_one_by_one_in_any_order(option: str) -> None:
    async with calling(option, asking_at_once("one", "two")) as send:
        asked = await send()
        assert keys_of(asked) == {"one", "two"}
        left = await send(asked, named("Bob", "two"))
        assert keys_of(left) == {"one"}
        late = named("Ann", "one") | named("Eve", "two")  # question two has its answer already
        assert text_of(await send(left, late)) == "Ann and Bob"


@together
async def test_of_questions_asked_together_only_those_that_can_be_asked_go_out(option: str) -> None:
    async def tool(ctx: Any, params: Any) -> types.CallToolResult:
        assumed = types.ListRootsResult(roots=[])
        folders, name = await ctx.elicit_all(sdk.roots("folders", assumed=assumed), who("one"))
        return sdk.text(f"{name.name} works on {len(folders.roots)}")

    async with calling(option, tool) as send:
        asked = await send()
        assert keys_of(asked) == {"one"}
        assert text_of(await send(asked, named("Ann", "one"))) == "Ann works on 0"


@together
@pytest.mark.parametrize("caller", ["ada", None])
async def test_a_handler_knows_who_calls_before_and_after_a_question(
    option: str, caller: str | None
) -> None:
    async def tool(ctx: Any, params: Any) -> types.CallToolResult:
        before = ctx.caller
        await ctx.elicit(who("one"))
        return sdk.text(f"{before}, {ctx.caller}")

    async with calling(option, tool, sdk.Settings(principal=lambda ctx: caller)) as send:
        told = text_of(await send(await send(), named("Ann", "one")))
    assert told == f"{caller}, {caller}"


async def test_an_old_client_is_told_of_a_question_by_the_name_that_its_author_gave_it() -> None:
    made = sdk.Tool("tool", "Asks.", NoArguments, positional_replay(asking("one")))
    server = sdk.build_server("asks", made, settings=sdk.Settings())
    async with Client(server, mode="legacy", elicitation_callback=answering("decline")) as client:
        assert text_of(await client.call_tool("tool", {})) == "The question 'one' was declined."


@together
async def test_two_different_questions_asked_together_need_two_keys(option: str) -> None:
    async def tool(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.elicit_all(who("one"), Question("one", "Who is the boss?", Name))
        raise AssertionError("the handler went on")

    async with calling(option, tool) as send:
        with pytest.raises(MCPError):
            await send()
