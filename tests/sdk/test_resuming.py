"""Tests of the client's half: the requests that are sent again, questions, and time limits."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
import trio.testing
from mcp import Client, MCPError
from mcp.server import Server

from mrtr_options.review.bench.world.loop import swift
from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.questions import ask
from mrtr_options.sdk.resuming import (
    CallFolder,
    StateRefused,
    Unanswered,
)
from mrtr_options.sdk.resuming.asking import UserTime
from mrtr_options.sdk.resuming.errors import TooManyRounds
from mrtr_options.sdk.resuming.open_calls import KeptCall
from mrtr_options.sdk.testing import NO_RESPONSE, call_as_client
from tests.bounds import SECONDS
from tests.sdk.fakes import Context, Params, result, unfit, who
from tests.sdk.resuming_world import ADA, CALLED, World, guarded
from tests.sending import Response

pytestmark = pytest.mark.anyio


INVALID = types.INVALID_PARAMS
INTERNAL = types.INTERNAL_ERROR


def refusal(reason: str, code: int = INTERNAL) -> MCPError:
    return MCPError(code, f"It is {reason}.", {"reason": reason})


async def _for_ever(cursor: str | None) -> types.ListToolsResult:
    await anyio.sleep_forever()
    raise AssertionError


async def _page_after_page(cursor: str | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[], next_cursor="next")


async def _on_the_second_page(cursor: str | None) -> types.ListToolsResult:
    if cursor is None:
        return await _page_after_page(cursor)
    reads = types.ToolAnnotations(read_only_hint=True)
    tool = types.Tool(name="tool", input_schema={"type": "object"}, annotations=reads)
    return types.ListToolsResult(tools=[tool])


async def _without_it(cursor: str | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[])


async def _nothing_of_the_protocol(cursor: str | None) -> types.ListToolsResult:
    return types.ListToolsResult.model_construct(tools=7)


async def _no_answer() -> Any:
    return None


async def _no_time() -> Any:
    return types.ErrorData(code=types.INTERNAL_ERROR, message="the user has no time")


def _hints(**hints: Any) -> dict[str, Any]:
    return {"lost": {1}, "questions": (), "hints": types.ToolAnnotations(**hints)}


def _late(data: Any) -> dict[str, Any]:
    late = MCPError(types.REQUEST_TIMEOUT, "too late", data)
    return _hints(idempotent_hint=True) | {"raises": {1: late}}


@dataclass(frozen=True)
class Case:
    """A call and its end.

    Attributes:
        world, options: The fields of the server's world, and the options of the client.
        ends: "done", or a text of the error.
        sent: The number of requests.
        bills: The number of bills.
        asked: The questions that the user saw.
        kept: Whether the call is kept after an error.
    """

    world: dict[str, Any]
    options: dict[str, Any]
    ends: str
    sent: int
    bills: int
    asked: tuple[str, ...] = ("who",)
    kept: bool = True


KEYS = {"honours_keys": True}
MISFIT = MCPError(INVALID, "no such argument")
HEADERS = MCPError(types.HEADER_MISMATCH, "a header is not as the tool's list says")
HOSTS = {"honours_keys": True, "key": new_call_key()}
OLD = refusal("call_key_expired", INVALID)
EXPIRED = {2: refusal("request_state_expired", INVALID)}
MAY = "may have happened"

CASES = {
    "a lost round": Case({"lost": {2, 3}}, {}, "done", 4, 1),
    "a round that stays lost": Case({"lost": {2, 3, 4, 5}}, {}, "'tool' in 4 attempts", 5, 1),
    "what could not be sent": Case({"refused": {1, 2}}, {}, "done", 2, 1),
    "a server taken for a legacy one": Case({"lost": {2}, "taken_for_old": {2}}, {}, "done", 3, 1),
    "a first request": Case({"lost": {1}}, {}, MAY, 1, 0, ()),
    "one of a tool that only reads": Case(_hints(read_only_hint=True), {}, "done", 2, 1, ()),
    "an idempotent one": Case(
        _hints(idempotent_hint=True, destructive_hint=True), {}, "done", 2, 1, ()
    ),
    "a timeout of its client's own": Case(_late(None), {}, "done", 2, 1, ()),
    "one that its server tells of": Case(
        _late({"reason": "busy"}), {}, "too late", 1, 0, (), kept=False
    ),
    "one that does not destroy": Case(_hints(destructive_hint=False), {}, MAY, 1, 1, ()),
    "one of which nothing is known": Case(_hints(title="Tool"), {}, MAY, 1, 1, ()),
    "a tool listed for ever": Case({"lost": {1}, "lists": _for_ever}, {}, MAY, 1, 0, ()),
    "a list without it": Case({"lost": {1}, "lists": _without_it}, {}, MAY, 1, 0, ()),
    "a list without end": Case({"lost": {1}, "lists": _page_after_page}, {}, MAY, 1, 0, ()),
    "a list of two pages": Case(
        {"lost": {1}, "questions": (), "lists": _on_the_second_page}, {}, "done", 2, 1, ()
    ),
    "a list that is none": Case(
        {"lost": {1}, "lists": _nothing_of_the_protocol}, {}, MAY, 1, 0, ()
    ),
    "a result, and a list that is none": Case(
        {"questions": (), "lists": _nothing_of_the_protocol}, {}, "done", 1, 1, ()
    ),
    "a first request under a key": Case({"lost": {1, 2}}, KEYS, "done", 4, 1),
    "one of a legacy client": Case(
        {"lost": {1}, "questions": (), "old": True}, KEYS, MAY, 1, 1, ()
    ),
    "a refused request": Case({"raises": {1: refusal("refused")}}, KEYS, "It is refused", 1, 0, ()),
    "a round at work": Case({"raises": {2: refusal("still_at_work")}}, {}, "done", 3, 1),
    **{
        f"a round put off, {reason}": Case({"raises": {2: refusal(reason)}}, {}, "done", 3, 1)
        for reason in ("store_unusable", "store_full", "too_many_continuations")
    },
    "a round put off for ever": Case(
        {"raises": dict.fromkeys(range(2, 6), refusal("store_full"))},
        {},
        "It is store_full",
        5,
        0,
    ),
    "a first request put off": Case({"raises": {1: refusal("store_full")}}, {}, MAY, 1, 0, ()),
    "a new key found too old": Case({"raises": {1: OLD}}, {}, "done", 3, 1),
    "two of them": Case({"raises": {1: OLD, 2: OLD}}, {}, "call_key_expired", 2, 0, (), kept=False),
    **{
        f"a host's key refused, {reason}": Case(
            {"raises": {1: refusal(reason, INVALID)}}, HOSTS, reason, 1, 0, (), kept=False
        )
        for reason in ("bad_call_key", "call_reused")
    },
    "one refused after a lost response": Case(
        {"lost": {1}, "raises": {2: refusal("call_reused", INVALID)}, "guard": World.guard},
        HOSTS,
        "call_reused",
        2,
        0,
        (),
    ),
    "a host's key found too old": Case({"raises": {1: OLD}}, HOSTS, "call_key_expired", 1, 0, ()),
    "the same question twice": Case(
        {"questions": ("who", "who")}, {}, "done", 3, 1, ("who", "who")
    ),
    "no such argument": Case({"raises": {1: MISFIT}}, KEYS, "no such", 1, 0, (), kept=False),
    "a crash": Case(
        {"raises": {1: MCPError(INTERNAL, "Internal error")}}, KEYS, "Internal", 1, 0, ()
    ),
    "a round of unknown end": Case(
        {"raises": {2: refusal("indeterminate")}}, KEYS, "indeterm", 2, 0
    ),
    **{
        f"a round refused, {reason}": Case(
            {"raises": {2: refusal(reason, INVALID)}}, KEYS, reason, 2, 0
        )
        for reason in ("invalid_request_state", "answered_differently")
    },
    "a state too old, its call known": Case(
        {"raises": EXPIRED, "questions": ("who", "next")}, KEYS, "done", 5, 1, ("who", "next")
    ),
    "one whose server names no call": Case(
        {"raises": EXPIRED, "guard": World.guard}, KEYS, "done", 4, 1, ("who",) * 2
    ),
    "a callback without an answer": Case(
        {"answers": _no_answer}, {}, "'who' returned NoneType", 1, 0
    ),
    "a callback with an error": Case({"answers": _no_time}, {}, "the user has no time", 1, 0),
    "headers that stay wrong": Case(
        {"raises": {1: HEADERS, 2: HEADERS}}, {}, "a header", 2, 0, (), kept=False
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_request_is_sent_again_where_that_does_no_harm(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    calls = CallFolder(tmp_path)
    async with guarded(**case.world) as world:
        if case.ends == "done":
            assert await world.call(calls=calls, **case.options) == "done"
            assert [*calls] == []
        else:
            with pytest.raises((Unanswered, MCPError, TypeError), match=case.ends):
                await world.call(calls=calls, round_seconds=0.3, **case.options)
            assert bool([*calls]) == case.kept
    assert len(world.requests) == case.sent
    assert world.effects.count("bill") == case.bills
    assert world.asked == [f"Who is {key}?" for key in case.asked]


async def test_a_tool_is_listed_anew_where_its_headers_are_refused() -> None:
    listed_after: list[int] = []

    async def lists(cursor: str | None) -> types.ListToolsResult:
        listed_after.append(len(world.requests))
        return types.ListToolsResult(tools=[])

    async with guarded(raises={1: HEADERS}, lists=lists) as world:
        assert await world.call() == "done"
    assert 1 in listed_after


async def test_a_lost_round_is_sent_again_with_the_same_state_and_key_on_a_new_connection() -> None:
    async with guarded(lost={2, 3}) as world:
        await world.call()
    assert len({each.request_state for each in world.requests[1:]}) == 1
    assert world.connections == 3
    keys = {(each.meta or {}).get(CALL_KEY) for each in world.requests}
    assert len(keys - {None}) == len(keys) == 1


@pytest.mark.parametrize("then", [{2}, {2, 3, 4, 5}])
async def test_a_key_instead_of_another_is_kept_before_its_use(
    then: set[int], tmp_path: Path
) -> None:
    calls = CallFolder(tmp_path)
    kept: list[list[str]] = []

    def noting(handler: Any) -> Any:
        async def tool(ctx: Context, params: Params) -> Response:
            kept.append([call.key for call in calls if call.begun])
            return await handler(ctx, params)

        return tool

    world = World(raises={1: OLD}, lost=then, guard=noting)
    with pytest.raises(Unanswered):
        await world.call(calls=calls)
    sent = [(each.meta or {}).get(CALL_KEY) for each in world.requests]
    assert kept == [[key] for key in sent[1:]]
    assert [call.key for call in calls] == sent[-1:]


async def test_a_server_that_never_stops_asking_is_left_and_its_call_kept(tmp_path: Path) -> None:
    world = World(questions=("who",) * 8)
    calls = CallFolder(tmp_path)
    with pytest.raises(TooManyRounds) as left:
        await world.call(rounds=5, calls=calls)
    assert len(world.asked) == 5
    assert [*calls] == [left.value.call]
    before = left.value.call.model_copy(update={"pending": None, "said": {}})
    assert await world.resume(before, calls=calls) == "done"  # as it is kept
    assert world.effects == ["audit", "bill"]
    assert [*calls] == []


async def test_an_answer_that_does_not_fit_is_asked_again(tmp_path: Path) -> None:
    calls = CallFolder(tmp_path)

    async def number() -> Any:
        return unfit()["who"]

    async with guarded(answers=number) as world:
        with pytest.raises(MCPError, match="who"):
            await world.call(calls=calls)
        (call,) = calls
        world.answers = None
        assert await world.call(key=call.key, calls=calls) == "done"
    assert world.effects == ["audit", "bill"]
    assert len(world.asked) == 2


@pytest.mark.parametrize("times", [1, 2, 3, 4])
async def test_a_client_that_dies_goes_on_from_what_it_has_kept(times: int, tmp_path: Path) -> None:
    class Died(BaseException):
        """A death that no code in the client can see."""

    class Deadly(CallFolder):
        left = times

        def keep(self, call: KeptCall) -> None:
            super().keep(call)
            self.left -= 1
            if self.left == 0:
                raise Died

    async with guarded() as world:
        with pytest.RaisesGroup(Died, allow_unwrapped=True, flatten_subgroups=True):
            await world.call(calls=Deadly(tmp_path), honours_keys=True)
        (call,) = calls = CallFolder(tmp_path)
        assert await world.resume(call, calls=calls, honours_keys=True) == "done"
    assert world.effects == ["audit", "bill"]
    assert [*calls] == []


async def test_a_question_that_cannot_be_asked_now_is_asked_later() -> None:
    world = World(refused={1}, questions=())
    open_call = CALLED.asked(ask(who()))
    with pytest.raises(Unanswered, match=r"'who' cannot be asked now: .* is refused") as left:
        await world.resume(open_call)
    assert left.value.call == open_call
    with pytest.raises(RuntimeError, match="enter it first"):
        await world.client().resume(open_call)
    assert await world.resume(open_call) == "done"
    assert world.asked == ["Who is who?"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (MCPError(INTERNAL, "no table is free"), "error: no table is free"),
        (MCPError(types.CONNECTION_CLOSED, "closed"), NO_RESPONSE),
    ],
)
async def test_a_client_that_resends_tells_its_user_of_what_it_cannot_mend(
    reply: MCPError, told: str
) -> None:
    async def call(ctx: Context, params: Params) -> types.CallToolResult:
        raise reply

    connect = partial(Client, Server("restaurant", on_call_tool=call))
    assert await call_as_client("resends", connect, "book", {}) == told


# --- refused states -----------------------------------------------------------------------------


async def test_a_state_that_became_too_old_ends_in_one_outcome_and_its_call_is_dropped(
    tmp_path: Path,
) -> None:
    calls = CallFolder(tmp_path)
    now = [1.8e9]

    async def thinks_for_long() -> types.ElicitResult:
        now[0] += 24 * 3600
        return ADA

    world = World(now=lambda: now[0], answers=thinks_for_long)
    with pytest.raises(StateRefused, match="effects so far may have happened") as ended:
        await world.call(calls=calls)
    assert ended.value.code == INVALID
    assert ended.value.is_over is True
    assert ended.value.call.tool == "tool"
    assert [*calls] == []
    with pytest.raises(ValueError, match="is not kept"):
        await world.resume(ended.value.call, calls=calls)


async def test_a_state_that_was_refused_otherwise_is_kept_and_marked_for_another_instance(
    tmp_path: Path,
) -> None:
    calls = CallFolder(tmp_path)
    world = World()
    right = world.keys
    wrong = [new_key()]

    async def meets_another_instance() -> types.ElicitResult:
        world.keys = wrong
        return ADA

    world.answers = meets_another_instance
    world.lost.add(2)  # so the client makes a new connection
    with pytest.raises(StateRefused) as refused:
        await world.call(calls=calls)
    assert not refused.value.is_over
    (kept,) = calls
    assert kept.refused == "invalid_request_state"
    world.keys = right
    assert await world.resume(kept, calls=calls) == "done"
    assert [*calls] == []


# --- contexts of questions ----------------------------------------------------------------------


async def test_callbacks_of_two_calls_at_once_learn_whose_question_it_is() -> None:
    both = anyio.Event()

    async def answer() -> types.ElicitResult:
        if len(world.asked) == 2:
            both.set()
        await both.wait()
        return ADA

    world = World(answers=answer)
    with anyio.fail_after(SECONDS):
        async with world.client() as client, anyio.create_task_group() as group:
            for number in (1, 2):
                group.start_soon(partial(client.call_tool, "tool", {"x": number}))
    assert len({context.request_id for context in world.contexts}) == 2
    assert [context.key for context in world.contexts] == ["who"] * 2
    assert {(context.call.arguments or {})["x"] for context in world.contexts} == {1, 2}
    assert len({context.call.key for context in world.contexts}) == 2


# --- time limits --------------------------------------------------------------------------------


CLOCKS: dict[str, dict[str, Any]] = {
    "asyncio": swift(),
    "trio": {"clock": trio.testing.MockClock(autojump_threshold=0)},
}
without_waiting = pytest.mark.parametrize("anyio_backend", CLOCKS.items(), ids=CLOCKS)
"""Play on clocks that move on when all is done, so that a slow machine changes no outcome."""


@without_waiting
@pytest.mark.parametrize("thinks", [True, False])
async def test_the_time_of_an_old_clients_user_is_not_the_servers(thinks: bool) -> None:
    limit = 0.7

    async def slowly() -> types.ElicitResult:
        await anyio.sleep(1.5 * limit)
        return ADA

    def works_slowly(handler: Any) -> Any:
        async def tool(ctx: Context, params: Params) -> Response:
            await slowly()
            return await legacy_shim(handler)(ctx, params)

        return tool

    if thinks:
        world = World(old=True, guard=legacy_shim, answers=slowly)
        assert await world.call(legacy_seconds=limit) == "done"
    else:
        world = World(old=True, guard=works_slowly)
        with pytest.raises(Unanswered, match="without the user's time"):
            await world.call(legacy_seconds=limit)


@without_waiting
async def test_a_result_that_is_put_off_is_asked_for_after_a_pause() -> None:
    def puts_off(handler: Any) -> Any:
        async def tool(ctx: Context, params: Params) -> Response:
            later = types.InputRequiredResult(request_state="later")
            return later if params.request_state is None else result("done")

        return tool

    begun = anyio.current_time()
    assert await World(guard=puts_off).call(pause_seconds=5.0) == "done"
    assert anyio.current_time() - begun >= 5.0


@without_waiting
async def test_a_time_limit_goes_on_where_it_stopped() -> None:
    user = UserTime()

    async def asks() -> None:
        with user.stopped():
            await anyio.sleep(0.3)
        await anyio.sleep_forever()

    begun = anyio.current_time()
    with anyio.fail_after(SECONDS):
        with pytest.raises(MCPError, match=r"timed out after 0\.1 s"):
            await user.within(0.1, asks)
    assert anyio.current_time() - begun >= 0.39
