"""Option I: where its effects may live, what runs again, and the high tier it stands on."""

import logging
from dataclasses import replace
from pathlib import Path

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer

from mrtr_options.tool.catalogue import CannotLoad, load, option_named
from mrtr_options.tool.server import Handler
from mrtr_options.tool.settings import Settings
from tests.rounds import answer, connected, counts, send, settings

pytestmark = pytest.mark.anyio

PATH = option_named("I").path
BODY = "    await desk.audit(location)"
RESOLVER = "    # No effects in a resolver"


async def test_an_effect_in_a_resolver_happens_once_a_round(tmp_path: Path) -> None:
    source = PATH.read_text(encoding="utf-8")
    assert BODY in source
    effect = "    await ctx.request_context.lifespan_context.audit(location)\n"
    moved = tmp_path / PATH.name
    moved.write_text(
        source.replace(BODY, "    _ = location").replace(RESOLVER, effect + RESOLVER), encoding="utf-8"
    )
    run_with = settings()
    async with connected(load(moved, run_with)) as client:
        response = await send(client, "Springfield")
        assert await counts(run_with) == "1/0"
        while isinstance(response, types.InputRequiredResult):
            response = await answer(client, "Springfield", response)
    assert await counts(run_with) == "3/1"


def test_the_high_tier_leaves_the_logs_of_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    before = logging.getLogger().level
    load(PATH, settings())
    assert logging.getLogger().handlers == []
    assert logging.getLogger().level == before


def test_the_high_tier_refuses_wrappers() -> None:
    def wrapper(handler: Handler) -> Handler:
        return handler

    run_with: Settings = replace(settings(), wrappers=[wrapper])
    with pytest.raises(CannotLoad, match="the high tier has none"):
        load(PATH, run_with)
    assert isinstance(load(PATH, settings()), MCPServer)
