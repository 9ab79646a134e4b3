"""The app's client: one callback for both eras, and a call that is goes on from a file."""

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

from examples.client_dual_path import PREFERENCES, App, connect
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
from tests.bounds import SECONDS


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.anyio
async def test_a_form_the_user_cannot_fill_in_is_cancelled_in_both_eras(mode: str) -> None:
    ledger = MemoryLedger()
    server = load(option_named("A").path, Settings(ledger))
    app = App({"place": "Springfield, Illinois"})
    with anyio.fail_after(SECONDS):
        async with connect(server, app, mode=mode) as client:
            text = await app.weather(client, "Springfield")
    assert text == "No lookup was made: the question 'units' was cancelled."
    assert "bill" not in [effect.kind for effect in await ledger.effects()]


@pytest.mark.anyio
async def test_mrtr_only_refuses_a_server_that_pushes_to_a_client_without_elicitation() -> None:
    async def pushes(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = await ctx.session.elicit_form("Your PIN?", {"type": "object", "properties": {}})
        raise AssertionError(f"the push was answered: {answer}")

    app = App(PREFERENCES)
    refusal = ""
    with anyio.fail_after(SECONDS):
        rude = Server("rude", version="1", on_call_tool=pushes)
        async with connect(rude, app, mode="legacy", mrtr_only=True) as client:
            try:
                await app.weather(client, "Tokyo")
            except MCPError as error:
                refusal = error.message
    assert refusal == "Elicitation not supported"
    assert app.asked == []
