"""Tests of the continuation store, besides its state machine (`test_suspended_machine`).

They are about the author's own code, memory, shutdown, and the life of a server.
"""

import asyncio
import gc
import traceback
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.suspended import CallAbandoned, CallParams, ContinuationStore, continuations
from mrtr_options.tool.server import build_server
from mrtr_options.tool.settings import configured
from tests import sending
from tests.bounds import SECONDS
from tests.sdk.asking_handlers import (
    Failed,
    Linear,
    Log,
    Numbered,
    Quit,
    is_unknown,
    raising,
)
from tests.sdk.fakes import called_by, deliver, key_of, modern, named, result, until, who
from tests.sending import Response, connected, settings, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store() -> AsyncGenerator[ContinuationStore]:
    """Open a store with enough room and time, and close it after the test."""
    async with ContinuationStore() as store:
        yield store
    assert len(store) == 0


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture(autouse=True)
def _cleanups_have_time(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Give cleanups more time than a test has, so that a test fails if it waits for their limit."""
    monkeypatch.setattr(continuations, "CLEANUP_SECONDS", 2 * SECONDS)


async def test_handlers_have_the_calls_arguments_and_no_rounds_context(
    store: ContinuationStore,
) -> None:
    round_of = ContextVar("round_of", default="none")

    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        before = round_of.get()
        await ctx.elicit(who())
        return result(f"{before} {round_of.get()} {call.name} {call.arguments}")

    caller = store.linear(handler)
    round_of.set("first")
    asked = await deliver(caller)
    round_of.set("second")
    assert text_of(await deliver(caller, asked, named("Ann"))) == "none none tool {'x': 1}"


async def test_a_call_that_is_given_up_closes_its_task_group_and_is_no_failure_to_the_author(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        async def asking() -> None:
            try:
                await ctx.elicit(who())
            except Exception:
                log.append("except Exception")
            except CallAbandoned:
                with pytest.raises(CallAbandoned):
                    await ctx.elicit(who("another"))
                log.append("abandoned")
                raise

        async with anyio.create_task_group() as helpers:
            helpers.start_soon(anyio.sleep_forever)
            helpers.start_soon(asking)
        raise AssertionError("the handler went on")

    async with ContinuationStore(idle_seconds=0.2) as store:
        caller = store.linear(handler)
        asked = await deliver(caller)
        await until(lambda: len(store) == 0)
        await is_unknown(caller, asked, named("Ann"))
    assert log == ["abandoned"]
    assert caplog.records == []


async def test_shutdown_waits_for_cleanup_also_in_a_cancelled_scope_and_leaves_no_task(
    log: Log,
) -> None:
    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        try:
            return result((await ctx.elicit(who())).name)
        finally:
            await anyio.lowlevel.checkpoint()
            log.append("cleaned up")

    before = {task.id for task in anyio.get_running_tasks()}
    store = await ContinuationStore().__aenter__()
    caller = store.linear(handler)
    calls = [await deliver(caller) for _ in range(3)]
    await deliver(caller, calls[0], named("Ann"))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    assert log == ["cleaned up"] * 3
    await until(lambda: {task.id for task in anyio.get_running_tasks()} <= before)
    for asked in calls:
        await is_unknown(caller, asked, named("Ann"))


@pytest.mark.parametrize("by", ["shutdown", "idling on"])
async def test_a_cleanup_that_hangs_is_cut_short(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "shutdown":
        monkeypatch.setattr(continuations, "CLEANUP_SECONDS", 0.02)
    cut = anyio.Event()

    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        try:
            await ctx.elicit(who())
        finally:
            try:
                await anyio.sleep_forever()
            finally:
                cut.set()
                raise ZeroDivisionError  # an error in the cleanup does not keep the call either
        raise AssertionError("the handler went on")

    async with ContinuationStore(idle_seconds=0.2) as store:
        caller = store.linear(handler)
        asked = await deliver(caller)
        with anyio.fail_after(SECONDS):
            await (store.aclose() if by == "shutdown" else cut.wait())
        await until(lambda: len(store) == 0)
        await is_unknown(caller, asked, named("Ann"))


async def test_a_call_that_does_not_end_at_shutdown_is_told_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(continuations, "CLEANUP_SECONDS", 0.02)
    may_end = anyio.Event()

    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        try:
            return result((await ctx.elicit(who())).name)
        finally:
            with anyio.CancelScope(shield=True):
                while not may_end.is_set():
                    with suppress(asyncio.CancelledError):  # which asyncio raises in a shield, too
                        await may_end.wait()

    async with ContinuationStore() as store:
        await deliver(store.linear(handler))
        await store.aclose()
        may_end.set()
        assert "1 calls are left at shutdown" in caplog.text
        await until(lambda: len(store) == 0)


@pytest.mark.parametrize(
    "changed", ["", "{0}.", "{0}.1", "{0}.-1", "{0}.0.0", "{0}.²", "x.0", " {0}.0"]
)
async def test_a_token_that_names_no_question_here_is_one_clear_error(
    changed: str, store: ContinuationStore, log: Log
) -> None:
    caller = store.linear(log.asking("who"))
    asked = await deliver(caller)
    assert isinstance(asked, types.InputRequiredResult)
    name = (asked.request_state or "").rpartition(".")[0]
    for _ in range(2):  # while the call waits, and after it has ended
        token = {"request_state": changed.format(name)}
        await is_unknown(caller, asked.model_copy(update=token), named("Ann"))
        assert text_of(await deliver(caller, asked, named("Ann"))) == "Ann"


async def test_a_cancelled_first_round_leaves_no_call_behind(
    store: ContinuationStore, log: Log
) -> None:
    for turns in range(8):
        answered: list[Response] = []

        async def call(into: list[Response]) -> None:
            into.append(await deliver(store.linear(log.asking("who"))))

        async with anyio.create_task_group() as requests:
            requests.start_soon(call, answered)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            requests.cancel_scope.cancel()
        for asked in answered:
            await deliver(store.linear(log.asking("who")), asked, named("Ann"))
        await until(lambda: len(store) == 0)
    assert log.count("above") == log.count("finally")


@pytest.mark.parametrize(
    "error",
    [
        Failed("Ann", reason="the printer is on fire"),
        OSError(2, "No such file", "names"),
        MCPError(-32000, "mine"),
        ExceptionGroup("many", [ValueError("one"), KeyError("two")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_each_delivery_raises_an_exception_of_its_own_which_keeps_no_frame_alive(
    store: ContinuationStore, log: Log, error: Exception
) -> None:
    said = repr(error)
    fields = {**vars(error)}

    bystander = store.linear(log.asking("who"))
    waiting = await deliver(bystander)
    caller = store.linear(raising(error))
    asked = await deliver(caller)
    seen: list[Exception] = []
    deliveries: list[weakref.ref[Log]] = []

    async def hear() -> None:
        body = Log("held")  # it lives as long as a traceback holds this frame
        deliveries.append(weakref.ref(body))
        with pytest.raises(type(error)) as reply:
            await deliver(caller, asked, named("Ann"))
        seen.append(reply.value)
        assert body

    for _ in range(5):
        await hear()
    assert [(repr(each), vars(each)) for each in seen] == [(said, fields)] * 5
    assert len({id(each) for each in seen}) == 5
    depths = [len(traceback.extract_tb(each.__traceback__)) for each in seen[1:]]
    assert len(set(depths)) == 1, f"tracebacks grow: {depths}"
    first = seen[0]
    seen.clear()
    first.__traceback__ = None  # the test still holds the author's exception
    gc.collect()
    assert [ref() for ref in deliveries] == [None] * 5
    assert text_of(await deliver(bystander, waiting, named("Ann"))) == "Ann"


async def test_an_error_that_cannot_be_copied_is_raised_with_its_text(
    store: ContinuationStore,
) -> None:
    caller = store.linear(raising(Numbered(3, 4)))
    asked = await deliver(caller)
    with pytest.raises(Numbered, match="3 of 4"):
        await deliver(caller, asked, named("Ann"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Numbered: 3 of 4"):
            await deliver(caller, asked, named("Ann"))


async def test_an_answer_is_not_kept_once_the_author_read_it(
    store: ContinuationStore, log: Log
) -> None:
    caller = store.linear(log.asking("one", "two"))
    asked: Response = await deliver(caller)
    response = types.ElicitResult(action="accept", content={"name": "Ann"})
    kept = weakref.ref(response)
    asked = await deliver(caller, asked, {"one": response})
    del response
    gc.collect()
    assert kept() is None
    assert text_of(await deliver(caller, asked, named("Bob", "two"))) == "Ann and Bob"


async def test_a_store_full_of_bytes_refuses_more_and_forgets_the_oldest_result(log: Log) -> None:
    async with ContinuationStore(max_bytes=4000) as store:
        caller = store.linear(log.asking("one", "two"))
        first = await deliver(caller)
        second = await deliver(caller)
        asked = await deliver(caller, first, named("A" * 2000, "one"))
        for _ in range(2):  # a refused answer takes no room
            with pytest.raises(
                MCPError, match="bytes of unanswered calls and takes no more"
            ) as full:
                await deliver(caller, second, named("B" * 2000, "one"))
            assert full.value.error.data["reason"] == "too_many_continuations"
        done = await deliver(caller, asked, named("Ann", "two"))
        following = await deliver(caller, second, named("B" * 2000, "one"))
        assert await deliver(caller, asked, named("Ann", "two")) == done
        await deliver(caller, following, named("Ann", "two"))
        await is_unknown(caller, asked, named("Ann", "two"))


async def test_one_caller_cannot_fill_the_store_with_questions_and_answers(log: Log) -> None:
    name: str | None = "Ann"
    with called_by(lambda: name):
        async with ContinuationStore(max_bytes_per_caller=1000) as store:
            caller = store.linear(log.asking("who"))
            anns = [await deliver(caller) for _ in range(2)]
            with pytest.raises(MCPError, match="of yours and takes no more"):
                await deliver(caller, anns[0], named("A" * 900))
            for name in ("Bob", None):  # unknown callers have no limit of their own
                others = await deliver(caller)
                if name is None:
                    await deliver(caller, others, named("A" * 900))
            for asked in anns:  # the second fits, since the end of the first frees its room
                await deliver(caller, asked, named("A" * 80))


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), Quit("now"), asyncio.CancelledError()], ids=repr
)
async def test_what_no_exception_is_ends_its_own_call_and_no_other(
    store: ContinuationStore, log: Log, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bystander = store.linear(log.asking("who"))
    waiting = await deliver(bystander)
    caller = store.linear(raising(error))
    asked = await deliver(caller)
    for _ in range(2):
        with pytest.raises(MCPError, match="Its effects may have happened") as reply:
            await deliver(caller, asked, named("Ann"))
        assert reply.value.code == types.INTERNAL_ERROR
    assert [type(error).__name__ in record.getMessage() for record in caplog.records] == [True]
    assert text_of(await deliver(bystander, waiting, named("Ann"))) == "Ann"


async def test_a_late_answer_hears_of_the_timeout_that_came_before_it(
    store: ContinuationStore,
) -> None:
    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        with anyio.move_on_after(0.02):
            return result((await ctx.elicit(who())).name)
        return result("too late")

    caller = store.linear(handler)
    asked = await deliver(caller)
    await until(lambda: len(store) == 0)
    for name in ("Ann", "Ann", "Bob"):  # no answer was taken, so any answer may come
        assert text_of(await deliver(caller, asked, named(name))) == "too late"


async def test_shutdown_in_the_turn_of_one_answer_of_two_does_not_wait_for_the_other(
    log: Log,
) -> None:
    store = await ContinuationStore().__aenter__()

    async def both_at_once(ctx: Linear, call: CallParams) -> types.CallToolResult:
        try:
            await ctx.elicit_all(who("one"), who("two"))
        finally:
            log.append("finally")
        raise AssertionError("the handler went on")

    caller = store.linear(both_at_once)
    asked = await deliver(caller)

    async def answer() -> None:
        with suppress(MCPError):  # on trio, the answer or the shutdown may come first
            await deliver(caller, asked, named("Ann", "one"))

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as both:
            both.start_soon(answer)
            both.start_soon(store.aclose)
        await anyio.lowlevel.checkpoint()  # check the time limit, as `aclose` is shielded from it
    assert len(store) == 0
    assert log == ["finally"]


@pytest.mark.parametrize("asks", ["before", "after"])
async def test_a_task_that_a_handler_left_behind_waits_for_no_answer_when_its_call_has_ended(
    store: ContinuationStore, asks: str
) -> None:
    heard: list[BaseException] = []
    begun = anyio.Event()
    ended = anyio.Event()

    async def left_behind(ctx: Linear) -> None:
        if asks == "after":
            await ended.wait()
        begun.set()
        try:
            await ctx.elicit(who())
        except (CallAbandoned, RuntimeError) as error:
            heard.append(error)

    async with anyio.create_task_group() as elsewhere:

        async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
            elsewhere.start_soon(left_behind, ctx)
            if asks == "before":
                await begun.wait()
            return result("done")

        caller = store.linear(handler)
        response = await deliver(caller)
        if asks == "before":
            response = await deliver(caller, response, named("Ann"))
        assert text_of(response) == "done"
        ended.set()
        await anyio.wait_all_tasks_blocked()
        assert heard, "it waits for ever"


@pytest.mark.parametrize("why", ["given up", "not asked", "none of both asked"])
async def test_a_loop_that_asks_again_and_again_holds_up_no_other_call(why: str) -> None:
    """Let its question fail without reaching the user, so that the loop asks at once again."""
    turns = 0
    enough = 1_000

    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        nonlocal turns
        while turns < enough:
            with suppress(CallAbandoned):
                if why == "none of both asked":
                    await ctx.elicit_all(who("one", assumed="Ann"), who("two", assumed="Ann"))
                else:
                    await ctx.elicit(who(assumed="Ann"))
            turns += 1
        return result("done")

    async with ContinuationStore() as store, anyio.create_task_group() as calls:
        calls.start_soon(
            partial(deliver, store.linear(handler), ctx=modern(forms=why == "given up"))
        )
        if why == "given up":
            await anyio.wait_all_tasks_blocked()
            calls.start_soon(store.aclose)
        await until(lambda: turns > 0)
        assert turns < enough, "nothing else ran until its end"
        await until(lambda: turns == enough)


@pytest.mark.parametrize("servers", [1, 2])
async def test_a_store_ends_with_the_last_connection_of_its_last_server(
    servers: int, log: Log
) -> None:
    store = ContinuationStore()
    handler = store.linear(log.asking("one", "two"))
    with configured(settings()):
        made = [build_server(f"{place}", handler, resources=[store]) for place in range(servers)]
    async with connected(made[0]) as first:
        asked = await sending.send(first, "Tokyo")
        async with connected(made[-1]) as second:
            await sending.send(second, "Tokyo")
        assert key_of(await sending.send(first, "Tokyo", asked, named("Ann", "one"))) == "two"
        assert len(store) == 2
        assert log == ["above", "above", "after one"]
    assert len(store) == 0
    assert log[3:] == ["finally"] * 2


NO_JSON = types.CallToolResult(content=[], structured_content={"x": b"\xff"})


@pytest.mark.parametrize(
    ("given", "says"), [("Ann", "returned str, and no result"), (NO_JSON, "utf-8")]
)
async def test_a_handler_that_returns_no_result_is_told_what_it_returned(
    given: Any, says: str
) -> None:
    async def handler(ctx: Linear, call: CallParams) -> Any:
        await ctx.elicit(who())
        return given

    async with ContinuationStore() as store:
        caller = store.linear(handler)
        asked = await deliver(caller)
        for _ in range(2):  # send the round twice
            with pytest.raises((TypeError, ValueError), match=says):
                await deliver(caller, asked, named("Ann"))
        assert len(store) == 0
