"""The client sends what it is told to, also what does not fit, and keeps all that comes back."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from mrtr_options.bench.client import client_of, exchange
from mrtr_options.bench.history import Reply, Request
from mrtr_options.tool.catalogue import load, option_named
from tests.rounds import settings

pytestmark = pytest.mark.anyio


async def replied(request: Request, option: str = "E") -> Reply:
    """What one request brings."""
    client: Client
    async with client_of(load(option_named(option).path, settings()), request) as client:
        return await exchange(client, request)


@pytest.mark.parametrize("arguments", [{}, {"location": None}, {"location": 5}, [1]])
async def test_arguments_are_sent_as_they_are(arguments: Any) -> None:
    assert (await replied(Request(arguments=arguments))).code == -32602


async def test_a_tool_that_is_not_there_is_named_in_the_error() -> None:
    reply = await replied(Request("Tokyo", tool="climate"))
    assert reply.code == -32602
    assert "climate" in (reply.message or "")


async def test_the_data_of_an_error_is_kept() -> None:
    first = await replied(Request("Tokyo"))
    assert first.later is False
    refused = await replied(Request("Tokyo", state="x"))
    assert refused.code == -32602
    assert refused.data == {"reason": "invalid_request_state"}


async def test_a_listing_has_each_tool_by_name() -> None:
    reply = await replied(Request(method="tools/list"))
    assert list(reply.tools) == ["weather"]
    assert reply.tools["weather"]["inputSchema"]["required"] == ["location"]


async def test_the_kinds_of_content_are_kept() -> None:
    assert (await replied(Request("Atlantis"))).blocks == ("text",)
