"""Tests that an awaiting handler names its caller as the server's settings do."""

from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult
from pydantic import BaseModel

from mrtr_options import sdk
from mrtr_options.sdk.testing import client, served
from tests.sending import text_of

pytestmark = pytest.mark.anyio


class Nothing(BaseModel):
    """No arguments."""


class Yes(BaseModel):
    """An answer."""

    yes: bool


async def user(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"yes": True})


def by_token(ctx: sdk.Context) -> str | None:
    """Name a caller by the token of its request."""
    header = "" if ctx.request is None else ctx.request.headers.get("authorization", "")
    return header.removeprefix("Bearer ") or None


async def whose(ctx: Any, params: Any) -> Any:
    """Name the caller before and after a question."""
    before = ctx.caller
    await ctx.elicit(sdk.Question("go", "Go on?", Yes))
    return sdk.text(f"{before}, {ctx.caller}")


def server_of(style: str) -> Any:
    settings = sdk.Settings(principal=by_token)
    if style == "J":
        tool = sdk.Tool("whose", "Says who calls.", Nothing, sdk.keyed_replay(whose))
        return sdk.build_server("callers", tool, settings=settings)
    store: Any = sdk.ContinuationStore() if style == "H" else sdk.DurableStore()
    tool = sdk.Tool("whose", "Says who calls.", Nothing, store.linear(whose))
    resource = store if style == "H" else store.serving
    return sdk.build_server("callers", tool, settings=settings, resources=[resource])


@pytest.mark.parametrize("style", ["J", "H", "L"])
async def test_a_handler_that_awaits_its_answers_knows_who_calls(style: str) -> None:
    if style == "L":
        pytest.importorskip("dbos")
    async with served(server_of(style)) as url:
        for token, seen in (("ada", "ada, ada"), (None, "None, None")):
            caller: Client
            async with client(url, user, token=token) as caller:
                assert text_of(await caller.call_tool("whose")) == seen
