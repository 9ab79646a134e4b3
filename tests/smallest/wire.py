"""Points 16 to 21: what leaks, misleads and piles up, and waiting for what is done elsewhere."""

from __future__ import annotations

import inspect
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import psycopg
from mcp.client.extension import advertise
from pydantic import BaseModel, Field, RootModel

from mrtr_options import sdk
from mrtr_options.sdk.exception_shim import exception_shim
from mrtr_options.sdk.testing import served
from scoreboard import postgres
from tests.smallest.shared import (
    ANN,
    NOT_THERE,
    OLD,
    Names,
    Seen,
    asks_once,
    called,
    client_of,
    durable,
    in_words,
    named,
    never_asked,
    said,
    send,
    server_of,
    smallest_input,
    who,
)

TASKS = "io.modelcontextprotocol/tasks"
NO = types.ElicitResult(action="decline")


# --- what leaks ---------------------------------------------------------------------------------


@smallest_input(16, 'a tool raises RuntimeError("password=hunter2"); an old client')
async def an_old_client_reads_no_text_of_an_exception(folder: Path) -> Seen:
    """It read the text, under code 0."""

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        raise RuntimeError("password=hunter2")

    told = await called(server_of(tool), OLD)
    return Seen(f"told: {told}", "hunter2" not in told)


@smallest_input(17, "the guard's file, made under umask 022")
async def the_guards_file_is_its_owners(folder: Path) -> Seen:
    """All users of the machine could read results, answers and states."""
    path = folder / "rounds"
    before = os.umask(0o022)
    try:
        with closing(sdk.SqliteStore(path)):
            mode = stat.S_IMODE(path.stat().st_mode)
    finally:
        os.umask(before)
    return Seen(f"its mode is {mode:o}", mode == 0o600)


@smallest_input(17, "two servers on one store; A's call key at B")
async def a_call_key_is_of_one_server(folder: Path) -> Seen:
    """B returned A's result, though it never ran."""

    def at(name: str) -> Any:
        async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
            return sdk.text(f"a secret of {name}")

        return server_of(tool, guard, name=name)

    with closing(sdk.SqliteStore(folder / "rounds")) as store:
        guard = sdk.single_use(store)
        key = sdk.new_call_key()
        async with client_of(at("A")) as a, client_of(at("B")) as b:
            await send(a, key=key)
            told = await said(send(b, key=key))
    return Seen(f"B says: {told}", told != "a secret of A")


# --- what piles up ------------------------------------------------------------------------------

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}
MANY = 1100


@smallest_input(18, f"{MANY:,} old clients open a session and leave", is_slow=True)
async def sessions_of_old_clients_are_bounded(folder: Path) -> Seen:
    """Each session stayed for ever, at 59 kB."""
    opened = 0
    status = 200
    async with served(server_of(asks_once)) as url, httpx2.AsyncClient() as http:
        for _ in range(MANY):
            status = (await http.post(url, json=INITIALIZE, headers=ACCEPT)).status_code
            if status != 200:
                break
            opened += 1
    refused = f"the next gets status {status}" if opened < MANY else "none is refused"
    return Seen(f"{opened:,} are open; {refused}", opened < MANY)


# --- what misleads ------------------------------------------------------------------------------


@smallest_input(19, "K without outcome_of: the user declines")
async def a_no_of_the_user_is_no_failed_task(folder: Path) -> Seen:
    """The task failed with -32603."""

    async def tool(ctx: Any, call: sdk.Call) -> types.CallToolResult:
        await ctx.elicit(who())
        return sdk.text("done")

    store = sdk.TaskStore(version="1")
    database = f"sqlite:///{folder / 'calls.sqlite'}"
    server = server_of(store.task(tool), store=store, extensions=[store], database=database)
    async with client_of(server, extensions=[advertise(TASKS)]) as client:

        async def request(method: str, **given: Any) -> dict[str, Any]:
            sent = types.Request[dict[str, Any], str](method=method, params=given)
            return (await client.session.send_request(sent, RootModel[dict[str, Any]])).root

        task = await request("tools/call", name="tool", arguments={"x": 1})
        number = task["taskId"]
        with anyio.fail_after(30):
            while task["status"] == "working":
                task = await request("tasks/get", taskId=number)
            no = {"who": NO.model_dump(exclude_none=True)}
            await request("tasks/update", taskId=number, inputResponses=no)
            while task["status"] not in ("completed", "failed"):
                task = await request("tasks/get", taskId=number)
    return Seen(f"the task is {task['status']}", task["status"] == "completed")


@smallest_input(19, "E: an answer of 20 kB that travels in the state")
async def a_long_answer_is_the_clients_error(folder: Path) -> Seen:
    """It was the server's: -32603."""

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        state = sdk.load_state(params, Names)
        if not state.names:
            answer = sdk.answer_to(who(), ctx, params)
            if answer is None:
                return sdk.ask(who(), state)
            state.names.append(answer.name)
        return sdk.ask(who("next"), state)

    long = types.ElicitResult(action="accept", content={"name": "a" * 20_000})
    async with client_of(server_of(tool)) as client:
        told = await said(send(client, await send(client), {"who": long}))
    return Seen(f"told: {told[:60]}", "-32602" in told)


class Size(BaseModel):
    """A form whose field has another name on the wire."""

    size: int = Field(alias="how large")


@smallest_input(19, "B: a form with an alias, and a second question")
async def an_answer_under_its_forms_own_names_is_good(folder: Path) -> Seen:
    """A good answer was refused in the round after it."""

    async def tool(ctx: Any, params: sdk.Params) -> types.CallToolResult:
        size = await ctx.elicit(sdk.Question("size", "How large?", Size))
        await ctx.elicit(who())
        await ctx.elicit(who("last"))
        return sdk.text(f"it is {size.size}")

    async def user(context: Any, params: Any) -> types.ElicitResult:
        if params.message == "How large?":
            return types.ElicitResult(action="accept", content={"how large": 7})
        return ANN

    told = await called(server_of(exception_shim(tool)), user=user)
    return Seen(f"told: {told[:60]}", told == "it is 7")


@smallest_input(19, "the shim: two questions at once, and the user declines")
async def after_a_no_the_shim_asks_no_more(folder: Path) -> Seen:
    """It showed the second question after the first no."""
    shown: list[str] = []

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        for key in ("one", "two"):
            sdk.answer_to(who(key), ctx, params)
        requests = [sdk.ask(who(key)).input_requests or {} for key in ("one", "two")]
        return types.InputRequiredResult(input_requests={**requests[0], **requests[1]})

    async def user(context: Any, params: Any) -> types.ElicitResult:
        shown.append(params.message)
        return NO

    await called(server_of(tool, sdk.legacy_shim), OLD, user)
    return Seen(f"forms shown: {len(shown)}", len(shown) == 1)


@smallest_input(19, "serve L on a read-only PostgreSQL", needs_postgres=True)
async def a_read_only_database_is_refused_in_one_line(folder: Path) -> Seen:
    """Two tracebacks, and exit code 3."""
    with postgres.running(fsync=False) as server:
        url = postgres.database(server)
        with psycopg.connect(url, autocommit=True) as db:
            name = (db.execute("SELECT current_database()").fetchone() or ("",))[0]
            only = f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'
            db.execute(only.encode())
        command = [sys.executable, "-m", "mrtr_options", "serve", "L", "--http", "0"]
        environment = os.environ | {"MRTR_DATABASE_URL": url}
        ran = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=40
            )
        )
    tracebacks = ran.stderr.count("Traceback")
    happened = f"exit code {ran.returncode}, tracebacks: {tracebacks}"
    return Seen(happened, (ran.returncode, tracebacks) == (2, 0))


_REFUSES_ALL = """
from mcp import MCPError
from mrtr_options import sdk
from mrtr_options.option_e_mrtr_native import call_weather
from mrtr_options.tool.server import build_server


async def refuses(ctx, params):
    if params.request_state is not None:
        raise MCPError(-32602, "Invalid state.")
    return await call_weather(ctx, params)


server = build_server("refuses", refuses)
"""


@smallest_input(19, "check --only tampered: a server that refuses every state", is_slow=True)
async def a_probe_counts_with_its_control_alone(folder: Path) -> Seen:
    """The server passed: it had refused what was tampered with, and what was not."""
    path = folder / "refuses.py"
    path.write_text(_REFUSES_ALL)
    command = [sys.executable, "-m", "mrtr_options", "check", str(path), "--only", "tampered"]
    ran = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=50)
    )
    return Seen(f"exit code {ran.returncode}", ran.returncode == 1)


# --- what a server says -------------------------------------------------------------------------


@smallest_input(20, "the guard: a round with a result is sent again")
async def a_repeated_result_says_so(folder: Path) -> Seen:
    """Nothing told it from a second payment."""
    with closing(sdk.SqliteStore(folder / "rounds")) as store:
        async with client_of(server_of(asks_once, sdk.single_use(store))) as client:
            asked = await send(client)
            first, again = [await send(client, asked, named()) for _ in range(2)]
    assert in_words(first) == in_words(again)
    before: dict[str, Any] = first.meta or {}
    after: dict[str, Any] = again.meta or {}
    new = [name for name in after if name not in before]
    return Seen(f"new in _meta: {', '.join(new) or 'nothing'}", new == ["mrtr-options/repeat"])


@smallest_input(20, "Tool(..., annotations=...) with a hint")
async def a_tool_has_annotations(folder: Path) -> Seen:
    """There was no way to give them."""
    if "annotations" not in inspect.signature(sdk.Tool).parameters:
        return NOT_THERE
    hints = types.ToolAnnotations(read_only_hint=True)
    async with client_of(server_of(asks_once, tool={"annotations": hints})) as client:
        (listed,) = (await client.list_tools()).tools
    return Seen(f"listed: {listed.annotations == hints}", listed.annotations == hints)


@smallest_input(20, "a question with a state that expires")
async def a_question_says_until_when_it_may_be_answered(folder: Path) -> Seen:
    """No client could tell its user."""
    async with client_of(server_of(asks_once), user=never_asked) as client:
        asked = await send(client)
    said_beside: dict[str, Any] = asked.meta or {}
    has_deadline = "mrtr-options/answer-by" in said_beside
    told = "a time" if has_deadline else "nothing"
    return Seen(f"to be answered by: {told}", has_deadline)


@smallest_input(21, "L: pay by link, and the payment arrives at the third look")
async def a_tool_waits_for_a_payment_elsewhere(folder: Path) -> Seen:
    """No option could wait for it: accepting a link is consent, and no payment."""
    if not hasattr(sdk.DurableContext, "until"):
        return NOT_THERE
    looks = list[int]()
    forms = list[str]()

    async def is_paid() -> str | None:
        looks.append(1)
        return "receipt" if len(looks) > 2 else None

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        page = sdk.link("pay", "Pay here.", "https://pay.example/1")
        receipt = await ctx.until("payment", is_paid, seconds=30, link=page, poll_seconds=0.05)
        return sdk.text(f"paid: {receipt}")

    async def user(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params.message)
        return types.ElicitResult(action="accept")

    told = await called(durable(tool, folder), user=user)
    return Seen(f"link shown {len(forms)} times; told: {told}", told == "paid: receipt")
