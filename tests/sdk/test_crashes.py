"""Tests that an author's exception is -32603 without its text, for all clients and transports."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp.server.context import HandlerResult
from mcp.server.request_state import RequestStateSecurity
from pydantic import BaseModel, ValidationError

from mrtr_options import sdk
from mrtr_options.sdk.protection import ProtectedRounds
from mrtr_options.sdk.testing import served
from tests.restaurant import lowlevel, tool
from tests.sdk.fakes import Context, FakeSession, of_session

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

SECRET = "password=hunter2"


class Strict(BaseModel):
    number: int


with pytest.raises(ValidationError) as of_the_authors_own_data:
    Strict.model_validate({"number": SECRET})

RAISED: tuple[BaseException, ...] = (
    RuntimeError(SECRET),
    ExceptionGroup(SECRET, [RuntimeError(SECRET)]),
    of_the_authors_own_data.value,
    SystemExit(SECRET),
    KeyboardInterrupt(SECRET),
    BaseExceptionGroup(SECRET, [RuntimeError(SECRET), SystemExit(SECRET)]),
    asyncio.CancelledError(SECRET),
)


def server_that_raises(error: BaseException) -> Server[Any]:
    """Make a server whose one tool raises this."""

    async def handler(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        raise error

    return lowlevel(tool(handler))


@contextlib.asynccontextmanager
async def in_memory(server: Server[Any]) -> AsyncGenerator[Any]:
    yield server


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("reached", [in_memory, served])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_a_client_is_not_told_the_text_of_an_exception_and_the_log_is(
    error: BaseException, reached: Any, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with reached(server_that_raises(error)) as where, Client(where, mode=mode) as client:
        with pytest.raises(MCPError) as told:
            await client.call_tool("book_table", {"guest": "Ada"})
    assert told.value.code == -32603
    assert told.value.message == "Internal server error"
    assert SECRET not in str(told.value.error)
    assert SECRET in caplog.text


@pytest.mark.parametrize("is_modern", [True, False])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN"])
async def test_a_number_that_json_cannot_carry_is_refused_before_the_handler(
    number: str, is_modern: bool
) -> None:
    async def entered(ctx: Context) -> HandlerResult:
        raise AssertionError("the handler was entered")

    arguments = json.loads(f'{{"amount": {number}}}')
    request = of_session(FakeSession(None), modern=is_modern)
    request = replace(request, params={"name": "pay", "arguments": arguments})
    with pytest.raises(MCPError) as told:
        await ProtectedRounds(RequestStateSecurity.ephemeral())(request, entered)
    assert told.value.code == -32602
    assert told.value.error.data["reason"] == "number_out_of_range"
