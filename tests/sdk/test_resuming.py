"""The client's half: what is sent again and what is not, who is asked, what is kept."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server import Server

from mrtr_options.sdk.call_key import CALL, CALL_KEY, new_call_key
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.sdk.resuming import (
    BadResponse,
    Call,
    CallFolder,
    CannotKeep,
    ResumingClient,
    TooManyRounds,
    Unanswered,
)
from mrtr_options.sdk.resuming.kept import MAX_BYTES, read, write
from mrtr_options.sdk.server import protect
from mrtr_options.sdk.settings import Settings
from mrtr_options.sdk.single_use import SqliteStore, single_use
from tests.bounds import SECONDS
from tests.rounds import Response, text_of
from tests.sdk.fakes import Context, Params, result, who
from tests.sdk.test_single_use import State

pytestmark = pytest.mark.anyio


ADA = types.ElicitResult(action="accept", content={"name": "Ada"})
CALLED = Call(server="", principal="", tool="tool", arguments={"x": 1})


@dataclass
class World:
    """A server with one tool, the network before it, and a user.

    Attributes:
        lost: The requests whose responses are lost, by their number.
        refused: The connections that cannot be made, by their number.
        hints: What the tool says of itself.
        guard: Goes round the tool.
        taken_for_old: The connections on which the client takes the server for a legacy one.
        caller: Who the client is to the server.
        now: The server's clock.
        questions: What it asks, one after another.
        raises: Requests that are refused, by their number.
        requests: What it was sent.
        effects: What it did.
        asked: What the user was asked.
        connections: How many were made.
    """

    lost: set[int] = field(default_factory=set[int])
    refused: set[int] = field(default_factory=set[int])
    hints: types.ToolAnnotations | None = None
    guard: Callable[[Any], Any] = lambda handler: handler
    questions: tuple[str, ...] = ("who",)
    raises: dict[int, MCPError] = field(default_factory=dict[int, MCPError])
    old: bool = False
    caller: str | None = None
    now: Callable[[], float] = time.time
    keys: list[bytes] = field(default_factory=lambda: [new_key()])
    taken_for_old: set[int] = field(default_factory=set[int])
    lists: Callable[[], Awaitable[types.ListToolsResult]] | None = None
    answers: Callable[[], Awaitable[types.ElicitResult]] | None = None
    requests: list[Params] = field(default_factory=list[Params])
    effects: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    connections: int = 0

    async def _tool(self, ctx: Context, params: Params) -> Response:
        asked = load_state(params, State).asked
        if asked and answer_to(who(self.questions[asked - 1]), ctx, params) is None:
            asked -= 1
        if asked < len(self.questions):
            self.effects += ["audit"] if params.request_state is None else []
            return ask(who(self.questions[asked]), State(asked=asked + 1))
        self.effects.append("bill")
        return result("done")

    def client(self, **options: Any) -> ResumingClient:
        """A client of the server's, for the length of a block."""
        handler = self.guard(self._tool)

        async def call(ctx: Context, params: Params) -> Response:
            self.requests.append(params)
            number = len(self.requests)
            if number in self.raises:
                raise self.raises[number]
            reply = await handler(ctx, params)
            if number in self.lost:
                raise MCPError(types.CONNECTION_CLOSED, "Connection closed")
            return reply

        async def tools(
            ctx: Context, params: types.PaginatedRequestParams | None
        ) -> types.ListToolsResult:
            if self.lists is not None:
                return await self.lists()
            tool = types.Tool(name="tool", input_schema={"type": "object"}, annotations=self.hints)
            return types.ListToolsResult(tools=[tool])

        async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            self.asked.append(params.message)
            return ADA if self.answers is None else await self.answers()

        def connect() -> Client:
            self.connections += 1
            if self.connections in self.refused:
                raise OSError("the connection is refused")
            server = Server("tool", version="1", on_call_tool=call, on_list_tools=tools)
            settings = Settings(keys=self.keys, clock=self.now, principal=lambda ctx: self.caller)
            protect(server, settings, sealed=False)
            mode = "legacy" if self.old or self.connections in self.taken_for_old else "auto"
            return Client(server, elicitation_callback=fill_in, mode=mode)

        whose = {key: options.pop(key, "") for key in ("server", "principal")}
        return ResumingClient(connect, pause_seconds=0.001, **whose, **options)

    async def call(self, *, key: str | None = None, **options: Any) -> str:
        """The text of a call's result."""
        with anyio.fail_after(SECONDS):
            async with self.client(**options) as client:
                found = await client.call_tool("tool", {"x": 1}, key=key)
        return text_of(found)

    async def resume(self, call: Call, **options: Any) -> str:
        """The text of the result of a call that goes on."""
        with anyio.fail_after(SECONDS):
            async with self.client(**options) as client:
                return text_of(await client.resume(call))


@asynccontextmanager
async def guarded(**more: Any) -> AsyncGenerator[World]:
    """A tool inside a guard that honours call keys."""
    store = SqliteStore(":memory:", keep_seconds=3600)
    world = World(**more)
    world.guard = single_use(store, principal=lambda ctx: world.caller)
    try:
        yield world
    finally:
        store.close()


@asynccontextmanager
async def interrupted(folder: Path, **more: Any) -> AsyncGenerator[tuple[World, CallFolder, Call]]:
    """A call of alice's that has billed and has no result yet."""
    calls = CallFolder(folder)
    async with guarded(lost={2, 3, 4, 5}, caller="alice", **more) as world:
        with pytest.raises(Unanswered):
            await world.call(calls=calls, principal="alice", honours_keys=True)
        (call,) = calls
        yield world, calls, call


# --- what is sent again -----------------------------------------------------------------------------


async def test_a_lost_round_is_sent_again_with_the_same_state_on_a_new_connection() -> None:
    async with guarded(lost={2, 3}) as world:
        assert await world.call() == "done"
    first, *others = world.requests
    assert first.request_state is None
    assert len(others) == 3
    assert len({each.request_state for each in others}) == 1
    assert (world.effects, world.asked, world.connections) == (["audit", "bill"], ["Who is who?"], 3)


async def test_a_round_that_stays_lost_ends_in_one_error() -> None:
    async with guarded(lost={2, 3, 4, 5}) as world:
        with pytest.raises(Unanswered, match="no response from 'tool' in 4 attempts") as lost:
            await world.call()
    assert lost.value.call.answers
    assert (len(world.requests), world.effects) == (5, ["audit", "bill"])


async def test_what_could_not_be_sent_is_sent_once_it_can_be() -> None:
    world = World(refused={1, 2})
    assert await world.call() == "done"
    assert world.effects == ["audit", "bill"]


async def test_a_later_round_is_not_sent_to_a_server_that_is_taken_for_a_legacy_one() -> None:
    async with guarded(lost={2}, taken_for_old={2}) as world:
        assert await world.call() == "done"
    assert (len(world.requests), world.connections) == (3, 3)
    assert (world.effects, world.asked) == (["audit", "bill"], ["Who is who?"])


async def test_a_first_request_without_a_response_is_not_sent_again() -> None:
    world = World(lost={1})
    with pytest.raises(Unanswered, match="may have happened"):
        await world.call()
    assert world.effects == ["audit"]


@pytest.mark.parametrize(
    ("hints", "sent"),
    [
        (types.ToolAnnotations(read_only_hint=True), 2),
        (types.ToolAnnotations(idempotent_hint=True, destructive_hint=True), 2),
        (types.ToolAnnotations(destructive_hint=False), 1),
        (types.ToolAnnotations(destructive_hint=True), 1),
        (types.ToolAnnotations(title="Tool"), 1),
    ],
)
async def test_the_hints_of_a_tool_say_whether_its_first_request_is_sent_again(
    hints: types.ToolAnnotations, sent: int
) -> None:
    world = World(lost={1}, hints=hints, questions=())
    if sent == 2:
        assert await world.call() == "done"
    else:
        with pytest.raises(Unanswered):
            await world.call()
    assert len(world.requests) == sent


async def test_with_a_call_key_a_first_request_is_sent_again_and_begins_one_call() -> None:
    async with guarded(lost={1, 2}) as world:
        assert await world.call(honours_keys=True) == "done"
    assert (world.effects, world.asked) == (["audit", "bill"], ["Who is who?"])
    keys = {(each.meta or {}).get(CALL_KEY) for each in world.requests}
    assert len(keys) == 1
    assert None not in keys


async def test_a_legacy_connection_has_no_keys_so_its_first_request_is_not_sent_again() -> None:
    async with guarded(lost={1}, questions=(), old=True) as world:
        with pytest.raises(Unanswered, match="may have happened"):
            await world.call(honours_keys=True)
    assert world.effects == ["bill"]


async def _for_ever() -> types.ListToolsResult:
    await anyio.sleep_forever()
    raise AssertionError


async def _page_after_page() -> types.ListToolsResult:
    return types.ListToolsResult(tools=[], next_cursor="next")


async def _nothing_of_the_protocol() -> types.ListToolsResult:
    return types.ListToolsResult.model_construct(tools=7)


@pytest.mark.parametrize("lists", [_for_ever, _page_after_page, _nothing_of_the_protocol])
async def test_a_tool_that_cannot_be_listed_has_no_hints(
    lists: Callable[[], Awaitable[types.ListToolsResult]], tmp_path: Path
) -> None:
    world, calls = World(lost={1}, lists=lists), CallFolder(tmp_path)
    with pytest.raises(Unanswered, match="may have happened"):
        await world.call(round_seconds=0.2, calls=calls)
    assert len(list(calls)) == 1


async def test_what_a_server_refused_is_not_sent_again() -> None:
    world = World(raises={1: MCPError(types.INVALID_PARAMS, "refused")})
    with pytest.raises(MCPError, match="refused"):
        await world.call(honours_keys=True)
    assert len(world.requests) == 1


async def test_a_call_that_is_still_at_work_is_waited_for() -> None:
    later = MCPError(types.REQUEST_TIMEOUT, "Still at work.", {"reason": "still_at_work"})
    world = World(raises={2: later})
    assert await world.call() == "done"
    assert world.requests[1].request_state == world.requests[2].request_state


LATER = ["store_unusable", "too_many_rounds", "too_many_continuations"]


@pytest.mark.parametrize("reason", LATER)
async def test_a_server_that_says_later_is_asked_later(reason: str, tmp_path: Path) -> None:
    calls, later = CallFolder(tmp_path), MCPError(types.INTERNAL_ERROR, "Later.", {"reason": reason})
    world = World(raises={2: later})
    assert await world.call() == "done"
    world = World(raises=dict.fromkeys(range(2, 6), later))
    with pytest.raises(Unanswered, match="Later"):
        await world.call(calls=calls)
    assert [call.answers for call in calls] == [{"who": ADA}]


@pytest.mark.parametrize("reason", LATER)
async def test_a_first_request_that_is_put_off_may_have_been_begun(reason: str) -> None:
    world = World(raises={1: MCPError(types.INTERNAL_ERROR, "Later.", {"reason": reason})})
    with pytest.raises(Unanswered, match="may have happened"):
        await world.call()
    assert len(world.requests) == 1


async def test_after_an_expired_state_the_key_says_what_the_call_has_come_to(tmp_path: Path) -> None:
    async with interrupted(tmp_path) as (world, calls, call):
        world.now = lambda: time.time() + 700
        assert await world.resume(call, calls=calls, principal="alice", honours_keys=True) == "done"
    assert world.requests[-1].request_state is None
    assert (world.effects, world.asked, [*calls]) == (["audit", "bill"], ["Who is who?"], [])


async def test_a_new_key_that_is_found_too_old_is_replaced_once(tmp_path: Path) -> None:
    old = MCPError(types.INVALID_PARAMS, "too old", {"reason": "call_key_expired"})
    world, calls = World(raises={1: old}), CallFolder(tmp_path)
    assert await world.call(calls=calls) == "done"
    assert len({(each.meta or {}).get(CALL_KEY) for each in world.requests}) == 2
    assert list(calls) == []
    world = World(raises={1: old, 2: old})
    with pytest.raises(MCPError, match="too old"):
        await world.call()


async def test_a_key_that_was_used_before_is_not_replaced() -> None:
    old = MCPError(types.INVALID_PARAMS, "too old", {"reason": "call_key_expired"})
    world = World(raises={1: old})
    with pytest.raises(MCPError, match="too old"):
        await world.call(key=new_call_key(), honours_keys=True)
    assert len(world.requests) == 1


@pytest.mark.parametrize("then", [{2}, {2, 3, 4, 5}])
async def test_a_key_that_replaces_another_is_kept_before_it_is_sent(
    then: set[int], tmp_path: Path
) -> None:
    old = MCPError(types.INVALID_PARAMS, "too old", {"reason": "call_key_expired"})
    calls = CallFolder(tmp_path)
    kept: list[list[str]] = []

    def noting(handler: Any) -> Any:
        async def tool(ctx: Context, params: Params) -> Response:
            kept.append([call.key for call in calls if call.begun])
            return await handler(ctx, params)

        return tool

    world = World(raises={1: old}, lost=then, guard=noting)
    with pytest.raises(Unanswered):
        await world.call(calls=calls)
    sent = [(each.meta or {}).get(CALL_KEY) for each in world.requests]
    assert kept == [[key] for key in sent[1:]]
    assert [call.key for call in calls] == sent[-1:]


# --- who is asked -----------------------------------------------------------------------------------


def under_new_handles(handler: Any) -> Any:
    """A server that begins another call at each first request, and says so."""
    first = iter("ABC")

    async def tool(ctx: Context, params: Params) -> Response:
        reply = await handler(ctx, params)
        return reply if params.request_state else reply.model_copy(update={"meta": {CALL: next(first)}})

    return tool


EXPIRED = {2: MCPError(types.INVALID_PARAMS, "Invalid", {"reason": "request_state_expired"})}


async def test_a_question_that_comes_again_under_the_key_gets_the_answer_on_record() -> None:
    async with guarded(questions=("who", "next"), raises=EXPIRED) as world:
        assert await world.call(honours_keys=True) == "done"
    assert world.asked == ["Who is who?", "Who is next?"]


async def test_a_server_that_begins_another_call_gets_no_answer_of_the_first(tmp_path: Path) -> None:
    world, calls = World(guard=under_new_handles, raises=EXPIRED), CallFolder(tmp_path)
    with pytest.raises(Unanswered, match="has forgotten the call"):
        await world.call(honours_keys=True, calls=calls)
    assert (world.asked, "bill" in world.effects, len([*calls])) == (["Who is who?"], False, 1)


async def test_a_server_that_names_no_call_has_its_question_asked_again() -> None:
    world = World(raises=EXPIRED)
    assert await world.call(honours_keys=True) == "done"
    assert world.asked == ["Who is who?"] * 2


async def test_a_question_that_the_server_asks_again_is_asked_again() -> None:
    world = World(questions=("who", "who"))
    assert await world.call() == "done"
    assert world.asked == ["Who is who?"] * 2


async def test_a_server_that_never_stops_asking_is_left_and_its_call_kept(tmp_path: Path) -> None:
    world, calls = World(questions=("who",) * 8), CallFolder(tmp_path)
    with pytest.raises(TooManyRounds) as left:
        await world.call(rounds=5, calls=calls)
    assert (len(world.asked), [*calls]) == (5, [left.value.call])
    assert await world.resume(left.value.call, calls=calls) == "done"
    assert (world.effects, [*calls]) == (["audit", "bill"], [])


@pytest.mark.parametrize(
    ("error", "at", "is_kept"),
    [
        (MCPError(types.INVALID_PARAMS, "no such argument"), 1, False),
        (MCPError(types.INTERNAL_ERROR, "Internal error"), 1, True),
        (MCPError(types.INTERNAL_ERROR, "not known", {"reason": "indeterminate"}), 2, True),
        (MCPError(types.INVALID_PARAMS, "Invalid", {"reason": "invalid_request_state"}), 2, True),
        (MCPError(types.INVALID_PARAMS, "elsewhere", {"reason": "round_spent"}), 2, True),
    ],
)
async def test_a_call_is_dropped_where_its_end_is_known(
    error: MCPError, at: int, is_kept: bool, tmp_path: Path
) -> None:
    calls = CallFolder(tmp_path)
    with pytest.raises(MCPError, match=error.message):
        await World(raises={at: error}).call(calls=calls, honours_keys=True)
    assert bool([*calls]) == is_kept


async def test_an_answer_that_does_not_fit_is_asked_again(tmp_path: Path) -> None:
    calls = CallFolder(tmp_path)

    async def number() -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": 7})

    async with guarded(answers=number) as world:
        with pytest.raises(MCPError, match="who"):
            await world.call(calls=calls)
        (call,), world.answers = calls, None
        assert await world.resume(call, calls=calls) == "done"
    assert (world.effects, len(world.asked)) == (["audit", "bill"], 2)


async def test_a_response_that_is_none_of_the_protocol_is_one_line() -> None:
    world = World()

    async def nothing(ctx: Context, params: Params) -> Any:
        return types.InputRequiredResult.model_construct(result_type="input_required")

    world.guard = lambda handler: nothing
    with pytest.raises((BadResponse, MCPError)) as bad:
        await world.call()
    assert "\n" not in str(bad.value)


# --- what is kept -----------------------------------------------------------------------------------


async def test_a_call_is_kept_until_it_has_ended(tmp_path: Path) -> None:
    calls = CallFolder(tmp_path / "calls")
    async with guarded(lost={2, 3, 4, 5}) as world:
        with pytest.raises(Unanswered):
            await world.call(calls=calls)
        (kept,) = calls
        (file,) = (tmp_path / "calls").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert (kept.tool, kept.arguments, kept.open) == ("tool", {"x": 1}, {})
        await world.resume(kept, calls=calls)
    assert list(calls) == []
    assert (world.effects, world.asked) == (["audit", "bill"], ["Who is who?"])


async def test_a_host_that_calls_again_with_the_key_gets_the_same_call(tmp_path: Path) -> None:
    async with guarded(lost={2, 3, 4, 5}) as world:
        with pytest.raises(Unanswered) as lost:
            await world.call()
        assert await world.call(key=lost.value.call.key, honours_keys=True) == "done"
    assert (world.effects, world.asked) == (["audit", "bill"], ["Who is who?"])


async def test_a_call_whose_first_request_was_perhaps_sent_does_not_begin_again() -> None:
    world = World()
    with pytest.raises(Unanswered, match="it was sent before"):
        await world.resume(Call(server="", principal="", tool="tool", begun=True))
    assert world.requests == []


async def test_a_user_who_cannot_be_asked_ends_no_call(tmp_path: Path) -> None:
    async def closed() -> types.ElicitResult:
        raise EOFError("the terminal is closed")

    calls = CallFolder(tmp_path)
    async with guarded(answers=closed) as world:
        with pytest.raises(EOFError):
            await world.call(calls=calls)
        (kept,) = calls
        world.answers = None
        assert await world.call(calls=calls, key=kept.key) == "done"
    assert (world.effects, list(calls)) == (["audit", "bill"], [])


@pytest.mark.parametrize("full_at", [1, 2, 3, 4])
async def test_a_folder_that_is_full_loses_nothing(full_at: int, tmp_path: Path) -> None:
    """No file may grow at one of the times at which a call is kept: as begun, asked, answered, sent."""
    size, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Full(CallFolder):
        times = 0

        def keep(self, call: Call) -> None:
            self.times += 1
            try:
                if self.times == full_at:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
                super().keep(call)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    async with guarded() as world:
        with pytest.raises(CannotKeep, match=r"cannot write .*json \(File too large\)") as full:
            await world.call(calls=Full(tmp_path))
        assert full.value.call is not None
        calls = CallFolder(tmp_path)
        assert len([*calls]) == (full_at > 1)
        calls.keep(full.value.call)
        assert await world.resume(full.value.call, calls=calls) == "done"
    assert (world.effects, world.asked) == (["audit", "bill"], ["Who is who?"])
    assert os.listdir(tmp_path) == []


async def test_a_result_is_returned_where_its_call_cannot_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "calls"

    class Vanishing(CallFolder):
        def forget(self, call: Call) -> None:
            path.rename(tmp_path / "elsewhere")
            path.touch()
            super().forget(call)

    async with guarded() as world:
        assert await world.call(calls=Vanishing(path)) == "done"


# --- whose a call is --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"tool": "other"}, {"arguments": {"x": 2}}, {"server": "other"}, {"principal": "other"}]
)
async def test_a_key_of_another_call_is_refused_and_nothing_is_sent(
    change: dict[str, Any], tmp_path: Path
) -> None:
    calls, world = CallFolder(tmp_path), World()
    call = CALLED.model_copy(update=change)
    calls.keep(call)
    with pytest.raises(ValueError, match="another call"):
        await world.call(calls=calls, key=call.key)
    assert (world.requests, [*calls]) == ([], [call])


@pytest.mark.parametrize("change", [{"server": "other"}, {"principal": "other"}])
async def test_a_call_of_another_server_or_principal_is_not_resumed(change: dict[str, Any]) -> None:
    world = World()
    async with world.client() as client:
        for go_on in client.resume, client.deliver:
            with pytest.raises(ValueError, match="another server or principal"):
                await go_on(CALLED.model_copy(update=change))
    assert world.requests == []


def test_calls_are_kept_for_a_principal_that_the_host_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kept for a principal"):
        World().client(principal=None, calls=CallFolder(tmp_path))


def test_the_calls_of_a_folder_come_oldest_first(tmp_path: Path) -> None:
    calls = CallFolder(tmp_path)
    keys = [new_call_key(float(at)) for at in range(10)]
    for key in keys:
        calls.keep(CALLED.model_copy(update={"key": key}))
    assert [call.key for call in calls] == keys


@pytest.mark.parametrize("content", ["", "{", "[]", "\0", '{"server": 1}'])
def test_a_file_that_is_no_call_hides_no_other(content: str, tmp_path: Path) -> None:
    calls, call = CallFolder(tmp_path), CALLED
    calls.keep(call)
    (tmp_path / "0.json").write_text(content)
    assert calls.get(call.key) == call
    assert list(calls) == [call]


def test_what_cannot_be_kept_or_read_is_one_line(tmp_path: Path) -> None:
    path, call = tmp_path / "call.json", CALLED
    with pytest.raises(CannotKeep, match=r"cannot write .*call\.json"):
        write(path, call.model_copy(update={"tool": "\ud800"}))
    with pytest.raises(CannotKeep, match="at most"):
        write(path, call.model_copy(update={"tool": "x" * MAX_BYTES}))
    assert list(tmp_path.iterdir()) == []
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(CannotKeep, match="does not hold an interrupted call"):
        read(path)
    with pytest.raises(CannotKeep, match="cannot be a folder"):
        CallFolder(path)


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    question = ask(who(), State(asked=1))
    call = CALLED.asked(question).answered("who", ADA)
    write(path, call)
    assert read(path) == call
    assert isinstance(read(path).answers["who"], types.ElicitResult)
    path.write_text("{}")
    with pytest.raises(CannotKeep, match="does not hold an interrupted call"):
        read(path)


def _anothers(path: Path) -> None:
    path.chmod(0o666)


def _link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_anothers, _link_to_itself, _folder])
async def test_a_kept_call_that_is_spoiled_is_one_line_and_nothing_is_sent(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    calls, world = CallFolder(tmp_path), World()
    calls.keep(CALLED)
    (name,) = os.listdir(tmp_path)
    spoil(tmp_path / name)
    assert [*calls] == []
    for again in world.call(calls=calls, key=CALLED.key), world.resume(CALLED, calls=calls):
        with pytest.raises(CannotKeep, match=name) as bad:
            await again
        assert "\n" not in str(bad.value)
    assert world.requests == []


def test_a_folder_that_others_own_or_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(CannotKeep, match="not yours alone"):
        CallFolder(tmp_path)
    tmp_path.chmod(0o700)
    CallFolder(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CannotKeep, match="not yours alone"):
        CallFolder(tmp_path)
