"""Points 9 to 15: calls that are lost, or never end."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import anyio.lowlevel
import mcp_types as types
import psycopg
from mcp import Client, MCPError

from mrtr_options import sdk
from mrtr_options.sdk.resuming.open_calls import KeptCall
from scoreboard import postgres
from tests.smallest.shared import (
    ANN,
    MODERN,
    OLD,
    Names,
    Seen,
    agreeing,
    asks_once,
    called,
    client_of,
    durable,
    gone_on_with,
    in_time,
    in_words,
    named,
    said,
    send,
    server_of,
    smallest_input,
    who,
)

HOUR = 3600.0


# --- the legacy shim ----------------------------------------------------------------------------


@smallest_input(9, "the shim: a result that is put off for half a second")
async def the_shim_waits_for_a_result_that_is_put_off(folder: Path) -> Seen:
    """It entered the handler ten times in a tenth of a millisecond, and gave up."""
    began = time.monotonic()
    entered = 0

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        nonlocal entered
        entered += 1
        if time.monotonic() - began < 0.5:
            return types.InputRequiredResult(request_state="at work")
        return sdk.text("done")

    told = await called(server_of(tool, sdk.legacy_shim), OLD)
    return Seen(f"entered {entered} times; told: {told}", told == "done")


@smallest_input(9, "the shim: a tool with ten questions")
async def the_shim_asks_ten_questions(folder: Path) -> Seen:
    """It lost the tenth answer; a modern client had its result."""

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        state = sdk.load_state(params, Names)
        answer = sdk.answer_to(who(f"q{len(state.names)}"), ctx, params)
        if answer is not None:
            state.names.append(answer.name)
        if len(state.names) < 10:
            return sdk.ask(who(f"q{len(state.names)}"), state)
        return sdk.text("ten answers")

    told = await called(server_of(tool, sdk.legacy_shim), OLD)
    return Seen(f"told: {told}", told == "ten answers")


@smallest_input(9, "the shim around L: a step takes longer than ten waits")
async def the_shim_waits_for_a_call_at_work(folder: Path) -> Seen:
    """The call ended in -32603, and charged later."""
    charges: list[str] = []

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        async def charge(key: str) -> None:
            await anyio.sleep(1.5)
            charges.append(key)

        await ctx.step("charge", charge)
        return sdk.text("charged")

    server = durable(tool, folder, wrappers=[sdk.legacy_shim], wait_seconds=0.05, rounds=1000)
    told = await called(server, OLD)
    return Seen(f"told: {told}; charges by then: {len(charges)}", told == "charged")


# --- the client's half --------------------------------------------------------------------------


def resuming(server: Any, user: Any = agreeing, mode: str = MODERN, **more: Any) -> Any:
    """Make a client that resumes calls."""
    return sdk.ResumingClient(
        lambda: Client(server, mode=mode, elicitation_callback=user), principal="", **more
    )


async def _outcome_of(calling: Any) -> str:
    try:
        return in_words(await calling)
    except Exception as error:
        code = f" {error.error.code}" if isinstance(error, MCPError) else ""
        return f"{type(error).__name__}{code}"


@smallest_input(10, "ResumingClient: the state expires while the form is open")
async def a_call_whose_state_expired_is_over(folder: Path) -> Seen:
    """The call was kept, and each `resume` got the same error, for ever."""
    now = [time.time()]
    calls = sdk.CallFolder(folder / "calls")

    async def thinks(context: Any, params: Any) -> types.ElicitResult:
        now[0] += 24 * HOUR
        return ANN

    server = server_of(asks_once, clock=lambda: now[0])
    async with resuming(server, thinks, calls=calls) as client:
        told = await _outcome_of(client.call_tool("tool", {"x": 1}))
    return Seen(f"told: {told}; calls still kept: {len([*calls])}", not [*calls])


@smallest_input(10, "ResumingClient: two calls at once ask their user")
async def a_callback_learns_whose_question_it_is(folder: Path) -> Seen:
    """Both questions had one request id, and no word of tool, arguments or key."""
    contexts: list[Any] = []
    both = anyio.Event()

    async def user(context: Any, params: Any) -> types.ElicitResult:
        contexts.append(context)
        if len(contexts) == 2:
            both.set()
        await both.wait()
        return ANN

    async with resuming(server_of(asks_once), user) as client, anyio.create_task_group() as group:
        for x in (1, 2):
            group.start_soon(client.call_tool, "tool", {"x": x})
    numbers = {context.request_id for context in contexts}
    knows = all(hasattr(context, "call") for context in contexts)
    whose = "says whose" if knows else "does not say whose"
    return Seen(f"ids of 2 questions: {len(numbers)}; {whose}", knows and len(numbers) == 2)


@smallest_input(10, "ResumingClient: an old client's user thinks longer than `legacy_seconds`")
async def a_users_time_is_not_the_servers(folder: Path) -> Seen:
    """The form was withdrawn while its user filled it in."""

    async def thinks(context: Any, params: Any) -> types.ElicitResult:
        await anyio.sleep(1.5)
        return ANN

    server = server_of(asks_once, sdk.legacy_shim)
    async with resuming(server, thinks, OLD, legacy_seconds=1.0, pause_seconds=0) as client:
        told = await _outcome_of(client.call_tool("tool", {"x": 1}))
    return Seen(f"told: {told}", told == "it is Ann")


@smallest_input(10, "ResumingClient: NaN in the arguments of a call that is kept")
async def arguments_that_json_cannot_carry_are_not_kept(folder: Path) -> Seen:
    """They were kept as null, and a resumed call had other arguments."""
    calls = sdk.CallFolder(folder / "calls")
    kept = list[Any]()

    async def looks(context: Any, params: Any) -> types.ElicitResult:
        kept.extend(call.arguments for call in calls)
        return ANN

    async with resuming(server_of(asks_once), looks, calls=calls) as client:
        told = await _outcome_of(client.call_tool("tool", {"x": float("nan")}))
    return Seen(f"kept: {kept[0] if kept else 'nothing'}; told: {told}", not kept)


@smallest_input(10, "CallFolder: a FIFO among the kept calls")
async def a_pipe_among_kept_calls_keeps_no_reader_waiting(folder: Path) -> Seen:
    """Whoever read the folder hung."""
    calls = sdk.CallFolder(folder / "calls")
    calls.keep(KeptCall(server="", principal="", tool="tool"))
    (path,) = (folder / "calls").glob("*.json")
    path.unlink()
    os.mkfifo(path)
    told = in_time(lambda: [*calls])
    return Seen(f"reading the folder: {told}", told != "hangs")


@smallest_input(10, "CallFolder: made writable for all, later")
async def a_folder_that_others_may_write_is_used_no_more(folder: Path) -> Seen:
    """Calls were kept in it, and read from it, as before."""
    calls = sdk.CallFolder(folder / "calls")
    (folder / "calls").chmod(0o777)
    told = in_time(lambda: calls.keep(KeptCall(server="", principal="", tool="tool")))
    return Seen(f"keeping a call: {told}", told != "done")


# --- the guard's stores -------------------------------------------------------------------------


async def _call(client: Client) -> str:
    return await said(send(client, await send(client), named()))


@smallest_input(11, "the guard: one call while the clock is an hour ahead")
async def a_clock_that_comes_back_refuses_no_call(folder: Path) -> Seen:
    """Every new call asked its user, and was refused then, for 49 minutes."""
    now = [time.time()]
    with closing(sdk.SqliteStore(folder / "rounds", clock=lambda: now[0])) as store:
        async with client_of(server_of(asks_once, sdk.single_use(store))) as client:
            now[0] += HOUR
            await _call(client)
            now[0] -= HOUR
            told = await _call(client)
    return Seen(f"the next call: {told}", told == "it is Ann")


def _patience(seconds: float) -> Any:
    """Patch how long a round waits for a file, which has another name in older packages."""
    if hasattr(sdk.SqliteStore, "_TIMEOUT_SECONDS"):
        return mock.patch.object(sdk.SqliteStore, "_TIMEOUT_SECONDS", seconds)
    return mock.patch("mrtr_options.sdk.single_use.sqlite.PATIENCE_SECONDS", seconds)


@smallest_input(12, "the guard: the file is locked for two waits; three rounds (times / 30)")
async def a_round_that_did_not_begin_is_given_back(folder: Path) -> Seen:
    """Rounds waited one after the other, and the third was indeterminate for good."""
    path = folder / "rounds"
    told = list[str]()

    async def tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        await anyio.sleep(0.01)  # as a tool that looks something up
        return await asks_once(ctx, params)

    with (
        _patience(1.0),
        closing(sdk.SqliteStore(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
    ):
        server = server_of(tool, sdk.single_use(store, round_seconds=2.0))
        async with client_of(server) as client:
            asked = [await send(client) for _ in range(3)]
            other.execute("BEGIN IMMEDIATE")
            unlock = threading.Timer(2.3, other.execute, ["ROLLBACK"])
            unlock.start()
            async with anyio.create_task_group() as group:
                for each in asked:
                    group.start_soon(said, send(client, each, named()))
            await anyio.to_thread.run_sync(unlock.join, 10)
            told = [await said(send(client, each, named())) for each in asked]
    bad = [each for each in told if each != "it is Ann"]
    return Seen(f"sent again when it is free: {bad[0] if bad else told[-1]}", not bad)


@smallest_input(13, "PostgresStore: the statements of twelve rounds", needs_postgres=True)
async def no_statement_is_prepared(folder: Path) -> Seen:
    """A pooler in transaction mode refused each round from the seventh call on."""
    made: list[Any] = []
    connect: Callable[..., Any] = psycopg.connect

    def remember(*arguments: Any, **options: Any) -> Any:
        made.append(connect(*arguments, **options))
        return made[-1]

    with (
        postgres.running(fsync=False) as url,
        mock.patch.object(psycopg, "connect", remember),
        closing(sdk.PostgresStore(url)) as store,
    ):
        async with client_of(server_of(asks_once, sdk.single_use(store))) as client:
            for _ in range(12):
                await _call(client)
        row = made[0].execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    return Seen(f"prepared statements: {row[0]}", row == (0,))


@smallest_input(14, "L: a handler cancels its own task")
async def a_handler_that_cancels_itself_ends_its_call(folder: Path) -> Seen:
    """Its result was put off for ever, again after a restart."""

    async def tool(ctx: sdk.DurableContext[Any], call: sdk.Call) -> types.CallToolResult:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.lowlevel.checkpoint()
        return sdk.text("done")

    async with client_of(durable(tool, folder, wait_seconds=0.5)) as client:
        told = await said(_ended(client))
    return Seen(f"told: {told}", told.startswith("error"))


async def _ended(client: Client) -> Any:
    return await gone_on_with(client, await send(client))


ROUNDS = 100_000


@smallest_input(15, f"the guard: {ROUNDS:,} rounds are too old; new calls come")
async def what_is_old_is_forgotten_in_portions(folder: Path) -> Seen:
    """Let many rounds be too old. One round deleted all of them: 14 s for a million."""
    now = [time.time()]
    path = folder / "rounds"
    most = 0
    slowest = 0.0
    with closing(sdk.SqliteStore(path, clock=lambda: now[0])) as store:
        async with client_of(server_of(asks_once, sdk.single_use(store))) as client:
            await _call(client)
            with closing(sqlite3.connect(path)) as db:
                _multiply(db)
                before = _count(db)
                for _ in range(20):
                    now[0] += 400
                    asked = await send(client)
                    began = time.monotonic()
                    await send(client, asked, named())
                    slowest = max(slowest, time.monotonic() - began)
                    after = _count(db)
                    most = max(most, before + 1 - after)
                    before = after
    happened = f"one round deletes {most:,}; the slowest takes {slowest * 1000:.0f} ms"
    return Seen(happened, 0 < most < ROUNDS / 10)


def _count(db: sqlite3.Connection) -> int:
    return db.execute("SELECT count(*) FROM guard_rounds").fetchone()[0]


def _multiply(db: sqlite3.Connection) -> None:
    """Copy the one round many times, each under a number of its own."""
    columns = [row[1] for row in db.execute("PRAGMA table_info(guard_rounds)")]
    copied = ", ".join(each for each in columns if each not in ("seq", "number", "call"))
    db.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROUNDS})"
        f" INSERT INTO guard_rounds (number, {copied})"
        f" SELECT 'copy ' || i, {copied} FROM n, (SELECT * FROM guard_rounds LIMIT 1)"
    )
    db.commit()
