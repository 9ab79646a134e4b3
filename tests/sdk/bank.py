"""A bank whose transfers are guarded calls, and clients that call it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from pydantic import BaseModel

from mrtr_options import sdk
from mrtr_options.sdk.call_key import REPEAT
from mrtr_options.sdk.protection import new_key
from tests.bounds import SECONDS
from tests.sdk.fakes import Params
from tests.sending import Response

KEY = new_key()
SURE = types.ElicitResult(action="accept", content={"sure": True})
DECLINED = types.ElicitResult(action="decline")


class Transfer(BaseModel):
    """The arguments of a transfer."""

    reference: str
    amount: int = 100


class Yes(BaseModel):
    """The user's consent."""

    sure: bool


def question(params: Params) -> sdk.Question[Yes]:
    """Return the question about a transfer."""
    amount = (params.arguments or {})["amount"]
    return sdk.Question("confirm", f"Transfer {amount}?", Yes)


@dataclass
class Bank:
    """A tool that asks and transfers, and a client that calls it.

    Attributes:
        transfers: The amounts that were transferred.
        asked: The number of times that the handler was entered without an answer.
        caller: The caller; None for an unknown caller.
        half_way: A function that it calls right after a transfer.
    """

    transfers: list[int] = field(default_factory=list[int])
    asked: int = 0
    caller: str | None = "ada"
    half_way: Callable[[], Awaitable[None]] | None = None

    async def transfer(self, ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        answer = sdk.answer_to(question(params), ctx, params)
        if answer is None:
            self.asked += 1
            return sdk.ask(question(params))
        if not answer.sure:
            raise sdk.Declined("confirm")
        amount = (params.arguments or {})["amount"]
        self.transfers.append(amount)
        if self.half_way is not None:
            await self.half_way()
        return sdk.text(f"{amount} transferred")

    def server(self, guard: Any, name: str = "bank") -> Any:
        """Return an instance: a server with this tool in a guard."""
        tool = sdk.Tool("transfer", "Transfers.", Transfer, self.transfer, [guard])
        settings = sdk.Settings(keys=[KEY], principal=lambda ctx: self.caller)
        return sdk.build_server(name, tool, settings=settings)


class Caller:
    """A client in memory that sends one round at a time."""

    def __init__(self, connected: Client) -> None:
        self._session = connected.session

    async def send(
        self,
        reference: str = "R1",
        amount: int = 100,
        *,
        asked: Response | None = None,
        answer: types.ElicitResult = SURE,
        key: str | None = None,
    ) -> Any:
        """Send a first request, or the answer to the question in `asked`."""
        answers: types.InputResponses | None = None
        if isinstance(asked, types.InputRequiredResult):
            answers = {"confirm": answer}
        meta: Any = None if key is None else {sdk.CALL_KEY: key}
        with anyio.fail_after(SECONDS):
            return await self._session.call_tool(
                "transfer",
                {"reference": reference, "amount": amount},
                input_responses=answers,
                request_state=getattr(asked, "request_state", None),
                meta=meta,
                allow_input_required=True,
            )


@asynccontextmanager
async def calling(*servers: Any) -> AsyncGenerator[list[Caller]]:
    """Connect a client to each server."""

    async def never(context: Any, params: Any) -> types.ElicitResult:
        raise AssertionError("the client asked its user without the test")

    async with AsyncExitStack() as stack:
        callers: list[Caller] = []
        for server in servers:
            made = Client(server, mode="2026-07-28", elicitation_callback=never)
            callers.append(Caller(await stack.enter_async_context(made)))
        yield callers


@asynccontextmanager
async def at(bank: Bank, store: Any, **more: Any) -> AsyncGenerator[Caller]:
    """Call a bank whose calls are named by their reference."""
    guard = sdk.single_use(store, call="reference", wait_seconds=SECONDS, **more)
    async with calling(bank.server(guard)) as (caller,):
        yield caller


def said(response: Any) -> str:
    """Return the text of a result."""
    assert isinstance(response, types.CallToolResult), response
    return " ".join(getattr(each, "text", "") for each in response.content)


def since(response: Any) -> datetime:
    """Return the time of the first result, as a repeat names it."""
    return datetime.fromisoformat(response.meta[REPEAT]["since"])


async def reason_of(sending: Awaitable[Any]) -> tuple[int, str]:
    """Return the code and the reason of the error that a request gets."""
    with pytest.raises(MCPError) as refusal:
        await sending
    return refusal.value.code, refusal.value.data["reason"]
