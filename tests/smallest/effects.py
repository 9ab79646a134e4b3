"""Points 1 to 8: the user is charged, or loses an effect."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import psycopg
from mcp import MCPError
from mcp.client.extension import advertise
from pydantic import BaseModel, RootModel

from mrtr_options import sdk
from mrtr_options.sdk.testing import served
from scoreboard import postgres
from tests.smallest.shared import (
    MODERN,
    Name,
    Seen,
    called,
    client_of,
    durable,
    gone_on_with,
    in_words,
    named,
    said,
    send,
    server_of,
    smallest_input,
    until,
    who,
)

DAY = 24 * 3600.0
PRICES = {"A": 5, "B": 70}


@smallest_input(1, 'F: once("charge") for order A, then for order B')
async def a_marker_is_of_one_effect(folder: Path) -> Seen:
    """The second charge was skipped, and the result reported both."""
    charged: list[str] = []

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        state = sdk.load_state(params, sdk.Markers)
        for order in "AB":
            await state.once("charge", lambda order=order: charged.append(order))
        return sdk.text("A and B are charged")

    told = await called(server_of(tool))
    return Seen(f"charged: {' '.join(charged)}; told: {told}", told.startswith("error"))


@smallest_input(1, 'J: memo("price") for order A, then for order B')
async def a_memo_is_of_one_value(folder: Path) -> Seen:
    """Order B got the price of order A."""

    async def tool(ctx: sdk.ReplayContext[Any], params: sdk.Params) -> types.CallToolResult:
        prices = [await ctx.memo("price", lambda order=order: PRICES[order]) for order in "AB"]
        return sdk.text(f"A costs {prices[0]}, B costs {prices[1]}")

    told = await called(server_of(sdk.keyed_replay(tool)))
    return Seen(f"A is 5, B is 70; told: {told}", told.startswith("error"))


@smallest_input(1, 'E: one answer "ok", read for two questions')
async def an_answer_is_of_one_question(folder: Path) -> Seen:
    """The user agreed to hear a price, and the disk was wiped."""
    wiped: list[str] = []

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        for message in ("Shall I tell you the price?", "Wipe the disk?"):
            question = sdk.Question("ok", message, Name)
            if sdk.answer_to(question, ctx, params) is None:
                return sdk.ask(question)
        wiped.append("disk")
        return sdk.text("wiped")

    async with client_of(server_of(tool)) as client:
        told = await said(send(client, await send(client), named("ok")))
    return Seen(f"saw the first question alone; told: {told}", not wiped)


class Shop:
    """A ledger file that two processes share.

    Attributes:
        ledger: The file; a line is a bill.
        may_end: Set when a charge may return.
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.may_end = threading.Event()

    def bills(self) -> list[str]:
        """Return the bills so far."""
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    async def charge(self, key: str) -> None:
        """Write a bill, and return when it may."""
        with self.ledger.open("a") as ledger:
            ledger.write("bill\n")
        await anyio.to_thread.run_sync(self.may_end.wait, 30)


async def charge_once(ctx: sdk.DurableContext[Shop], call: sdk.Call) -> types.CallToolResult:
    """Charge in one step."""
    await ctx.step("charge", ctx.lifespan_context.charge)
    return sdk.text("charged")


_SECOND = """
import anyio, sys
from pathlib import Path
from tests.smallest.effects import Shop, charge_once
from tests.smallest.shared import client_of, durable, until

async def main(url, ledger):
    shop = Shop(Path(ledger))
    shop.may_end.set()
    async with client_of(durable(charge_once, Path(), shop, database=url)):
        await until(lambda: len(shop.bills()) > 1, 10)

anyio.run(main, *sys.argv[1:])
"""
_HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"


def _end_holder_of_the_name(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        for (holder,) in db.execute(_HOLDERS).fetchall():
            db.execute("SELECT pg_terminate_backend(%s, 5000)", [holder])


@smallest_input(
    2, "L on PostgreSQL: the lock's connection ends, a namesake starts", needs_postgres=True
)
async def a_name_is_of_one_process_though_its_connection_ends(folder: Path) -> Seen:
    """A second process ran the first one's calls again: two bills, and nobody died."""
    with postgres.running(fsync=False) as server:
        url = postgres.database(server)
        shop = Shop(folder / "ledger")
        command = [sys.executable, "-c", _SECOND, url, str(shop.ledger)]
        second = subprocess.CompletedProcess(command, 0, "", "")
        with anyio.fail_after(60):
            async with (
                client_of(durable(charge_once, folder, shop, database=url)) as client,
                anyio.create_task_group() as group,
            ):
                group.start_soon(send, client)
                await until(lambda: len(shop.bills()) == 1)
                await anyio.to_thread.run_sync(_end_holder_of_the_name, url)
                second = await anyio.to_thread.run_sync(
                    lambda: subprocess.run(command, capture_output=True, text=True, timeout=50)
                )
                shop.may_end.set()
    is_refused = "another process has the name" in second.stderr
    started = "is refused" if is_refused else "starts"
    return Seen(f"the second {started}; bills: {len(shop.bills())}", len(shop.bills()) == 1)


@smallest_input(3, "L: a step before the question has another key after a restart")
async def a_handler_that_does_something_else_does_no_effect(folder: Path) -> Seen:
    """DBOS did the renamed step and noticed afterwards: a second bill."""
    bills: list[str] = []
    step = ["bill"]

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        async def charge(key: str) -> None:
            bills.append(key)

        await ctx.step(step[0], charge)
        await ctx.elicit(who())
        return sdk.text("done")

    bounds: dict[str, Any] = {"wait_seconds": 5.0}
    async with client_of(durable(tool, folder, **bounds)) as client:
        asked = await send(client)
    step[0] = "bill, renamed"
    async with client_of(durable(tool, folder, **bounds)) as client:
        told = await said(send(client, asked, named()))
    return Seen(f"bills: {len(bills)}; told: {told}", len(bills) == 1)


@smallest_input(4, "L: a clock is 25 hours ahead for one sweep; the call's key again")
async def a_clock_that_is_ahead_for_one_sweep_deletes_no_call(folder: Path) -> Seen:
    """The ended call was deleted, and its key, minutes old, began another call."""
    from mrtr_options.sdk.durable.embedded import process

    charges: list[str] = []
    real = time.time
    key = sdk.new_call_key()

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        async def charge(once: str) -> None:
            charges.append(once)

        await ctx.step("charge", charge)
        return sdk.text("charged")

    async with client_of(durable(tool, folder)) as client, process(None) as here:
        await send(client, key=key)
        await here.sweep(DAY)
        with mock.patch("time.time", side_effect=lambda: real() + DAY + 3600):
            deleted = await here.sweep(DAY)
        await send(client, key=key)
    return Seen(f"deleted: {deleted}; charges under one key: {len(charges)}", len(charges) == 1)


@smallest_input(5, "L on PostgreSQL: a NUL in a step's key, called twice", needs_postgres=True)
async def a_step_whose_key_no_database_holds_does_nothing(folder: Path) -> Seen:
    """It charged, could not record it, and put its result off for ever."""
    charges: list[str] = []

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        async def charge(once: str) -> None:
            charges.append(once)

        await ctx.step("charge\0", charge)
        return sdk.text("charged")

    told = ""
    with postgres.running(fsync=False) as server:
        made = durable(tool, folder, database=postgres.database(server), wait_seconds=1.0)
        async with client_of(made) as client:
            for _ in range(2):
                told = await said(_ended(client))
    return Seen(f"charges: {len(charges)}; told: {told}", not charges)


async def _ended(client: Any) -> Any:
    return await gone_on_with(client, await send(client), rounds=2)


@smallest_input(6, "K: a task's time is over while its step runs in a thread")
async def a_task_at_work_is_not_forgotten(folder: Path) -> Seen:
    """There was no such task any more, and a second later it charged."""
    now = [time.time()]
    began = anyio.Event()
    may_end = threading.Event()
    charges: list[str] = []

    def charge(key: str) -> None:
        may_end.wait(30)
        charges.append(key)

    async def tool(ctx: Any, call: sdk.Call) -> types.CallToolResult:
        async def effect(key: str) -> None:
            began.set()
            await anyio.to_thread.run_sync(charge, key)

        await ctx.step("charge", effect)
        return sdk.text("charged")

    store = sdk.TaskStore(version="1", ttl_seconds=60)
    database = f"sqlite:///{folder / 'calls.sqlite'}"
    server = server_of(
        store.task(tool),
        store=store,
        extensions=[store],
        database=database,
        clock=lambda: now[0],
    )
    extension = advertise("io.modelcontextprotocol/tasks")
    async with client_of(server, extensions=[extension]) as client:

        async def request(method: str, **given: Any) -> dict[str, Any]:
            sent = types.Request[dict[str, Any], str](method=method, params=given)
            return (await client.session.send_request(sent, RootModel[dict[str, Any]])).root

        task = await request("tools/call", name="tool", arguments={"x": 1})
        await began.wait()
        now[0] += 61
        try:
            told = (await request("tasks/get", taskId=task["taskId"]))["status"]
        except MCPError as error:
            told = error.error.message
        may_end.set()
        await until(lambda: bool(charges))
    return Seen(f"told: {told}; charged after that: {len(charges)}", told == "working")


class Kept(BaseModel):
    """A state with a value of any type."""

    x: Any = None


@smallest_input(7, "E: a state with a Decimal, a date or a tuple under Any")
async def a_state_is_read_as_it_was_written(folder: Path) -> Seen:
    """The next round read text and lists in their place, in silence."""
    read: list[str] = []

    async def seen_after(value: Any) -> str:
        async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
            if sdk.answer_to(who(), ctx, params) is None:
                return sdk.ask(who(), Kept(x=value))
            return sdk.text(repr(sdk.load_state(params, Kept).x))

        return await called(server_of(tool))

    values = (Decimal("19.90"), date(2026, 7, 28), (1, 2))
    changed = 0
    for value in values:
        told = await seen_after(value)
        read.append(told)
        is_refused = told.startswith("error")
        if not is_refused and told != repr(value):
            changed += 1
    return Seen(f"Decimal('19.90') is read as: {read[0]}", not changed)


HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "tool",
}
_CALL = """{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tool",
"arguments": {"x": 1e400}, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
"io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
"io.modelcontextprotocol/clientCapabilities": {}}}}"""


@smallest_input(7, "L over HTTP: an argument 1e400")
async def an_argument_that_json_cannot_carry_is_refused(folder: Path) -> Seen:
    """The handler found None in its place."""
    found: list[str] = []

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        found.append(f"{(call.arguments or {})['x']}")
        return sdk.text("done")

    async with served(durable(tool, folder)) as url, httpx2.AsyncClient(timeout=30) as http:
        response = await http.post(url, content=_CALL, headers=HEADERS)
    reason = re.search(r'"reason": ?"(\w+)"', response.text)
    told = reason[1] if reason else f"status {response.status_code}"
    return Seen(f"x in the handler: {found[0] if found else 'not called'}; told: {told}", not found)


@smallest_input(8, "L: a step takes longer than a request is held")
async def a_client_that_shows_forms_is_asked_while_a_call_works(folder: Path) -> Seen:
    """Large hosts show an error for a state without a question, and never send it again."""
    may_end = anyio.Event()

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        await may_end.wait()
        return sdk.text("done")

    async with client_of(durable(tool, folder, wait_seconds=0.3)) as client:
        told = in_words(await send(client))
        may_end.set()
    return Seen(f"gets: {told}", told.startswith("asks"))
