"""The client's half: what is sent again and what is not, who is asked, what is kept."""

import os
import resource
import shutil
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server import Server

from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.push import push
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.sdk.resuming import (
    CallFolder,
    QuestionContext,
    ResumingClient,
    StateRefused,
    Unanswered,
)
from mrtr_options.sdk.resuming.asking import UserTime
from mrtr_options.sdk.resuming.connection import Connection, Lost
from mrtr_options.sdk.resuming.errors import TooManyRounds
from mrtr_options.sdk.resuming.kept import MAX_BYTES, CannotKeep, KeptCall, read, write
from mrtr_options.sdk.server import protect
from mrtr_options.sdk.settings import Settings
from mrtr_options.sdk.single_use import SqliteStore, single_use
from tests.bounds import SECONDS
from tests.rounds import Response, text_of
from tests.sdk.fakes import Context, Params, key_made, result, who
from tests.sdk.test_single_use import State

pytestmark = pytest.mark.anyio


ADA = types.ElicitResult(action="accept", content={"name": "Ada"})
CALLED = KeptCall(server="", principal="", tool="tool", arguments={"x": 1})


@dataclass
class World:
    """A server with one tool, the network before it, and a user.

    Attributes:
        lost, refused: The requests whose responses are lost, and the connections that cannot be
            made.
        raises: The errors of requests that are refused, by their number.
        taken_for_old: The connections on which the client takes the server for a legacy one.
        hints, lists: What the tool says of itself, and what lists it.
        guard: Goes round the tool.
        questions: What it asks, one after another.
        caller, now: Who the client is to the server, and the server's clock.
        answers: What the user says.
        requests, effects, asked, connections: What the server was sent and did, and what the user
            saw.
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

        async def tools(ctx: Context, params: Any) -> types.ListToolsResult:
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
        with anyio.fail_after(SECONDS):
            async with self.client(**options) as client:
                found = await client.call_tool("tool", {"x": 1}, key=key)
        return text_of(found)

    async def resume(self, call: KeptCall, **options: Any) -> str:
        with anyio.fail_after(SECONDS):
            async with self.client(**options) as client:
                return text_of(await client.resume(call))


@asynccontextmanager
async def guarded(**more: Any) -> AsyncGenerator[World]:
    store = SqliteStore(":memory:", keep_seconds=3600)
    world = World(**more)
    if "guard" not in more:
        world.guard = single_use(store)
    try:
        yield world
    finally:
        store.close()


async def test_a_connection_that_broke_is_replaced() -> None:
    made: list[anyio.Event] = []

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Any]:
        made.append(anyio.Event())

        async def break_off(broken: anyio.Event) -> None:
            await broken.wait()
            raise OSError("the cable was pulled")

        async with anyio.create_task_group() as group:
            group.start_soon(break_off, made[-1])
            yield SimpleNamespace(session=None)
            group.cancel_scope.cancel()

    async def breaks(client: Client) -> None:
        made[-1].set()
        await anyio.sleep_forever()

    async def works(client: Client) -> str:
        return "works"

    async with anyio.create_task_group() as group:
        connection = Connection(cast("Any", connect), group, SECONDS)
        with anyio.fail_after(SECONDS):
            with pytest.raises(Lost, match="the cable was pulled"):
                await connection.use(breaks)
            assert (await connection.use(works), len(made)) == ("works", 2)
        group.cancel_scope.cancel()


INVALID, INTERNAL = types.INVALID_PARAMS, types.INTERNAL_ERROR


def refusal(reason: str, code: int = INTERNAL) -> MCPError:
    return MCPError(code, f"It is {reason}.", {"reason": reason})


async def _for_ever() -> types.ListToolsResult:
    await anyio.sleep_forever()
    raise AssertionError


async def _page_after_page() -> types.ListToolsResult:
    return types.ListToolsResult(tools=[], next_cursor="next")


async def _nothing_of_the_protocol() -> types.ListToolsResult:
    return types.ListToolsResult.model_construct(tools=7)


async def _no_answer() -> Any:
    return None


def _hints(**hints: Any) -> dict[str, Any]:
    return {"lost": {1}, "questions": (), "hints": types.ToolAnnotations(**hints)}


def _late(data: Any) -> dict[str, Any]:
    late = MCPError(types.REQUEST_TIMEOUT, "too late", data)
    return _hints(idempotent_hint=True) | {"raises": {1: late}}


@dataclass(frozen=True)
class Case:
    """What happens to a call, and what comes of it.

    Attributes:
        world, options: How the server and the client are made.
        ends: "done", or what the error says.
        sent: How many requests there were.
        bills: How many bills.
        asked: Which questions the user was asked.
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
    "one that does": Case(_hints(destructive_hint=True), {}, MAY, 1, 1, ()),
    "one of which nothing is known": Case(_hints(title="Tool"), {}, MAY, 1, 1, ()),
    "a tool listed for ever": Case({"lost": {1}, "lists": _for_ever}, {}, MAY, 1, 0, ()),
    "a list without end": Case({"lost": {1}, "lists": _page_after_page}, {}, MAY, 1, 0, ()),
    "a list that is none": Case(
        {"lost": {1}, "lists": _nothing_of_the_protocol}, {}, MAY, 1, 0, ()
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
}


@pytest.mark.parametrize("name", CASES)
async def test_a_request_is_sent_again_where_that_does_no_harm(name: str, tmp_path: Path) -> None:
    case, calls = CASES[name], CallFolder(tmp_path)
    async with guarded(**case.world) as world:
        if case.ends == "done":
            assert await world.call(calls=calls, **case.options) == "done"
            assert [*calls] == []
        else:
            with pytest.raises((Unanswered, MCPError, TypeError), match=case.ends):
                await world.call(calls=calls, round_seconds=0.3, **case.options)
            assert bool([*calls]) == case.kept
    assert (len(world.requests), world.effects.count("bill")) == (case.sent, case.bills)
    assert world.asked == [f"Who is {key}?" for key in case.asked]


async def test_a_lost_round_is_sent_again_with_the_same_state_and_key_on_a_new_connection() -> None:
    async with guarded(lost={2, 3}) as world:
        await world.call()
    assert (len({each.request_state for each in world.requests[1:]}), world.connections) == (1, 3)
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
    world, calls = World(questions=("who",) * 8), CallFolder(tmp_path)
    with pytest.raises(TooManyRounds) as left:
        await world.call(rounds=5, calls=calls)
    assert (len(world.asked), [*calls]) == (5, [left.value.call])
    assert await world.resume(left.value.call, calls=calls) == "done"
    assert (world.effects, [*calls]) == (["audit", "bill"], [])


async def test_an_answer_that_does_not_fit_is_asked_again(tmp_path: Path) -> None:
    calls = CallFolder(tmp_path)

    async def number() -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": 7})

    async with guarded(answers=number) as world:
        with pytest.raises(MCPError, match="who"):
            await world.call(calls=calls)
        (call,), world.answers = calls, None
        assert await world.call(key=call.key, calls=calls) == "done"
    assert (world.effects, len(world.asked)) == (["audit", "bill"], 2)


@pytest.mark.parametrize("full_at", [1, 2, 3, 4])
async def test_a_folder_that_is_full_loses_nothing(full_at: int, tmp_path: Path) -> None:
    """No file may grow at one of the times at which a call is kept: as begun, asked, answered,
    sent.
    """
    size, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Full(CallFolder):
        times = 0

        def keep(self, call: KeptCall) -> None:
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


@pytest.mark.parametrize("times", [1, 2, 3, 4])
async def test_a_client_that_dies_goes_on_from_what_it_has_kept(times: int, tmp_path: Path) -> None:
    class Died(BaseException):
        """Nothing in the client sees it."""

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
    assert (world.effects, [*calls]) == (["audit", "bill"], [])


async def test_a_result_is_returned_where_its_call_cannot_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "calls"

    class Vanishing(CallFolder):
        def forget(self, call: KeptCall) -> None:
            path.rename(tmp_path / "elsewhere")
            path.touch()
            super().forget(call)

    async with guarded() as world:
        assert await world.call(calls=Vanishing(path)) == "done"


@pytest.mark.parametrize(
    "change",
    [{"tool": "other"}, {"arguments": {"x": 2}}, {"server": "other"}, {"principal": "other"}],
)
async def test_a_key_of_another_call_is_refused_unsent(
    change: dict[str, Any], tmp_path: Path
) -> None:
    calls, world = CallFolder(tmp_path), World()
    call = CALLED.model_copy(update=change)
    calls.keep(call)
    with pytest.raises(ValueError, match="another call"):
        await world.call(calls=calls, key=call.key)
    assert (world.requests, [*calls]) == ([], [call])


async def test_a_key_that_the_server_knows_for_another_call_is_free_for_that_call(
    tmp_path: Path,
) -> None:
    calls = CallFolder(tmp_path)
    async with guarded() as world, world.client(calls=calls, honours_keys=True) as client:
        key = new_call_key()
        assert text_of(await client.call_tool("tool", {"x": 1}, key=key)) == "done"
        with pytest.raises(MCPError) as reused:
            await client.call_tool("tool", {"x": 2}, key=key)
        assert (reused.value.error.data, [*calls]) == ({"reason": "call_reused"}, [])
        assert text_of(await client.call_tool("tool", {"x": 1}, key=key)) == "done"
    assert world.effects == ["audit", "bill"]


@pytest.mark.parametrize("content", ["", "{", "[]", "\0", '{"server": 1}'])
def test_calls_come_oldest_first_and_a_file_of_none_hides_none(
    content: str, tmp_path: Path
) -> None:
    calls, keys = CallFolder(tmp_path), [key_made(at) for at in range(5)]
    (tmp_path / "0.json").write_text(content)
    for key in keys:
        calls.keep(CALLED.model_copy(update={"key": key}))
    assert [call.key for call in calls] == keys
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert [mode for name, mode in modes.items() if name != "0.json"] == [0o600] * 5


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


def test_a_folder_not_ones_own_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o702)
    with pytest.raises(CannotKeep, match="not yours alone"):
        CallFolder(tmp_path)
    tmp_path.chmod(0o700)
    CallFolder(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CannotKeep, match="not yours alone"):
        CallFolder(tmp_path)


HOUR, DAY = 3600.0, 86_400.0


@dataclass
class Left:
    """A call that was left.

    Attributes:
        world: Its server, and who calls there now.
        call, path: How it stands, and the folder that it is kept in.
        principal: Whom the host connects as.
    """

    world: World
    call: KeptCall
    path: Path
    principal: str = "alice"

    @property
    def file(self) -> Path:
        (file,) = self.path.glob("*.json")
        return file

    def change(self, **fields: object) -> None:
        self.call = self.call.model_copy(update=fields)
        write(self.file, self.call)

    def bob_has_it(self, **edits: object) -> None:
        """The host connects as bob, who may have edited the file."""
        self.world.caller = self.principal = "bob"
        if edits:
            self.change(**edits)

    def replace(self, make: Callable[[Path, Path], object]) -> None:
        path = self.file
        path.unlink()
        make(path, path)

    def at(self, seconds: float) -> None:
        self.world.now = lambda: time.time() + seconds

    def renew_store(self) -> None:
        self.world.guard = single_use(SqliteStore(":memory:", keep_seconds=HOUR))


BEGUN: dict[str, Any] = {"principal": "bob", "pending": None, "answers": {}}
FORGED = types.InputRequiredResult(request_state="made up")
EVE = types.ElicitResult(action="accept", content={"name": "Eve"})

TROUBLES: dict[str, tuple[Callable[[Left], object], type[Exception] | None]] = {
    "bob takes the folder": (lambda left: left.bob_has_it(), ValueError),
    "bob writes his name into it": (lambda left: left.bob_has_it(principal="bob"), MCPError),
    "bob begins it again under her key": (lambda left: left.bob_has_it(**BEGUN), Unanswered),
    "bob waits for long": (
        lambda left: [left.bob_has_it(principal="bob"), left.at(1200)],
        MCPError,
    ),
    "the host has lost its login": (lambda left: setattr(left.world, "caller", None), MCPError),
    "the state is made up": (lambda left: left.change(pending=FORGED), MCPError),
    "the arguments are edited": (lambda left: left.change(arguments={"x": 2}), MCPError),
    "the key is edited": (lambda left: left.change(key=new_call_key()), ValueError),
    "the answer is edited": (lambda left: left.change(answers={"who": EVE}), MCPError),
    "the file is cut short": (lambda left: os.truncate(left.file, 20), CannotKeep),
    "others may write the file": (lambda left: left.file.chmod(0o602), CannotKeep),
    "the file is a link to itself": (lambda left: left.replace(Path.symlink_to), CannotKeep),
    "the file is a folder": (lambda left: left.replace(lambda path, _: path.mkdir()), CannotKeep),
    "the file is gone": (lambda left: left.file.unlink(), ValueError),
    "the folder is gone": (lambda left: shutil.rmtree(left.path), CannotKeep),
    "the lock is a folder": (lambda left: left.file.with_suffix(".lock").mkdir(), CannotKeep),
    "a lock is left over": (lambda left: left.file.with_suffix(".lock").touch(), None),
    "the file is there twice": (lambda left: shutil.copy(left.file, left.path / "copy.json"), None),
    "the server has other keys": (lambda left: left.world.keys.__setitem__(0, new_key()), MCPError),
    "the server has another store": (lambda left: left.renew_store(), MCPError),
    "the server is two days ahead": (lambda left: left.at(2 * DAY), None),
    "the server is a day behind": (lambda left: left.at(-DAY), None),
}
"""What happens to the call before somebody goes on, and how it then ends; None for its result."""


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_whatever_happens_to_a_left_call_it_is_paid_once(
    trouble: str, tmp_path: Path
) -> None:
    path, (happen, end) = tmp_path / "calls", TROUBLES[trouble]
    calls = CallFolder(path)
    async with guarded(lost={2, 3, 4, 5}, caller="alice") as world:
        with pytest.raises(Unanswered):
            await world.call(calls=calls, principal="alice", honours_keys=True)
        (call,) = calls
        left = Left(world, call, path)
        happen(left)
        sent = len(world.requests)
        goes_on = world.resume(left.call, calls=calls, principal=left.principal, honours_keys=True)
        if end is None:
            assert await goes_on == "done"
        else:
            with pytest.raises(end) as ended:
                await goes_on
            assert "\n" not in str(ended.value)
            assert end is not CannotKeep or len(world.requests) == sent
    assert (world.effects.count("bill"), world.asked) == (1, ["Who is who?"])


async def test_a_call_that_another_client_is_making_is_in_use(tmp_path: Path) -> None:
    calls, asked, said = CallFolder(tmp_path), anyio.Event(), anyio.Event()

    async def thinks() -> types.ElicitResult:
        asked.set()
        await said.wait()
        return ADA

    async with guarded(caller="alice", answers=thinks) as world:
        key = new_call_key()  # not older than the guard's store

        async def make() -> None:
            assert (
                await world.call(key=key, calls=calls, principal="alice", honours_keys=True)
                == "done"
            )

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            await asked.wait()
            with pytest.raises(CannotKeep, match="is in use"):
                await make()
            said.set()
    assert (world.effects, world.asked, [*calls]) == (["audit", "bill"], ["Who is who?"], [])


# --- a state that is refused --------------------------------------------------------------------


async def test_a_state_that_became_too_old_ends_in_one_outcome_and_its_call_is_dropped(
    tmp_path: Path,
) -> None:
    calls, now = CallFolder(tmp_path), [1.8e9]

    async def thinks_for_long() -> types.ElicitResult:
        now[0] += 24 * 3600
        return ADA

    world = World(now=lambda: now[0], answers=thinks_for_long)
    with pytest.raises(StateRefused, match="effects so far may have happened") as ended:
        await world.call(calls=calls)
    assert (ended.value.code, ended.value.is_over) == (INVALID, True)
    assert ended.value.call.tool == "tool"
    assert [*calls] == []
    with pytest.raises(ValueError, match="is not kept"):
        await world.resume(ended.value.call, calls=calls)


async def test_a_state_that_was_refused_otherwise_is_kept_and_marked_for_another_instance(
    tmp_path: Path,
) -> None:
    calls, world = CallFolder(tmp_path), World()
    right, wrong = world.keys, [new_key()]

    async def meets_another_instance() -> types.ElicitResult:
        world.keys = wrong
        return ADA

    world.answers = meets_another_instance
    world.lost = {2}  # its connection is replaced
    with pytest.raises(StateRefused) as refused:
        await world.call(calls=calls)
    assert not refused.value.is_over
    (kept,) = calls
    assert kept.refused == "invalid_request_state"
    world.keys = right
    assert await world.resume(kept, calls=calls) == "done"
    assert [*calls] == []


# --- whose question it is -----------------------------------------------------------------------


async def test_callbacks_of_two_calls_at_once_learn_whose_question_it_is() -> None:
    contexts: list[QuestionContext] = []
    both = anyio.Event()

    async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        contexts.append(context)
        if len(contexts) == 2:
            both.set()
        await both.wait()
        return ADA

    world = World()
    client = world.client()
    made = client.connect

    def connect() -> Client:
        new = made()
        new.elicitation_callback = fill_in
        return new

    client.connect = connect
    with anyio.fail_after(SECONDS):
        async with client, anyio.create_task_group() as group:
            for number in (1, 2):
                group.start_soon(partial(client.call_tool, "tool", {"x": number}))
    assert len({context.request_id for context in contexts}) == 2
    assert [context.key for context in contexts] == ["who"] * 2
    assert {(context.call.arguments or {})["x"] for context in contexts} == {1, 2}
    assert len({context.call.key for context in contexts}) == 2


# --- whose time it is ---------------------------------------------------------------------------


@pytest.mark.parametrize("thinks", [True, False])
async def test_the_time_of_an_old_clients_user_is_not_the_servers(thinks: bool) -> None:
    limit = 0.7

    async def slowly() -> None:
        await anyio.sleep(1.5 * limit)

    async def fill_in(context: Any, params: Any) -> types.ElicitResult:
        await (slowly() if thinks else anyio.lowlevel.checkpoint())
        return ADA

    async def call(ctx: Context, params: Params) -> Response:
        await (anyio.lowlevel.checkpoint() if thinks else slowly())
        return result((await push(ctx, who())).name)

    async def tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    def connect() -> Client:
        server = Server("tool", version="1", on_call_tool=call, on_list_tools=tools)
        return Client(server, elicitation_callback=fill_in, mode="legacy")

    with anyio.fail_after(SECONDS):
        async with ResumingClient(connect, legacy_seconds=limit, pause_seconds=0) as client:
            if thinks:
                assert text_of(await client.call_tool("tool", {})) == "Ada"
            else:
                with pytest.raises(Unanswered, match="without the user's time"):
                    await client.call_tool("tool", {})


async def test_a_time_limit_goes_on_where_it_stopped() -> None:
    time, user = 0.1, UserTime()
    with anyio.fail_after(SECONDS):
        with pytest.raises(MCPError, match=r"timed out after 0\.1 s"):
            await user.within(time, anyio.sleep_forever)

        async def asks() -> str:
            with user.stopped():
                await anyio.sleep(3 * time)
            await anyio.sleep_forever()
            return "never"

        begun = anyio.current_time()
        with pytest.raises(MCPError, match="timed out"):
            await user.within(time, asks)
        assert anyio.current_time() - begun >= 3.9 * time


# --- what is kept -------------------------------------------------------------------------------


NOT_JSON = {
    "no number": (float("nan"), "not JSON compliant"),
    "infinite": (float("inf"), "not JSON compliant"),
    "infinite within": ({"deep": [float("-inf")]}, "not JSON compliant"),
    "bytes": (b"x", "of type bytes"),
    "a set": ([{1}], "of type set"),
    "a date": (date(2026, 7, 28), "of type date"),
    "half a pair": ("\ud800", "half of a surrogate pair"),
    "half a pair as a key": ([{"\udc00": 1}], "half of a surrogate pair"),
    "a number as a key": ({"deep": ({1: 2},)}, "a key is no text: 1"),
    "a long number": (10**5000, "digits"),
}


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("name", NOT_JSON)
async def test_arguments_that_json_cannot_carry_are_refused_unsent(
    name: str, is_kept: bool, tmp_path: Path
) -> None:
    (x, why), world, calls = NOT_JSON[name], World(), CallFolder(tmp_path)
    async with world.client(calls=calls if is_kept else None) as client:
        with pytest.raises(ValueError, match=f"JSON cannot carry the argument 'x': .*{why}"):
            await client.call_tool("tool", {"x": x})
    assert (world.requests, [*calls]) == ([], [])


@pytest.mark.parametrize(
    "half", [{"name": "\ud800"}, {"name": "tool", "key": "\ud800"}, {"arguments": {"\ud800": 1}}]
)
async def test_a_name_or_a_key_with_half_a_pair_is_refused_unsent(
    half: dict[str, Any], tmp_path: Path
) -> None:
    world, calls = World(), CallFolder(tmp_path)
    request: dict[str, Any] = {"name": "tool", **half}
    async with world.client(calls=calls) as client:
        with pytest.raises(ValueError, match="has half of a surrogate pair"):
            await client.call_tool(**request)
    assert (world.requests, [*calls]) == ([], [])


async def test_a_call_made_again_under_its_key_may_have_its_arguments_as_python_has_them(
    tmp_path: Path,
) -> None:
    world, calls, key = World(lost={1}), CallFolder(tmp_path), new_call_key()
    async with world.client(calls=calls) as client:
        for _ in range(2):
            with pytest.raises(Unanswered, match="no response to the first request"):
                await client.call_tool("tool", {"x": (1, 2)}, key=key)
    assert len(world.requests) == 1


@pytest.mark.parametrize("suffix", [".json", ".lock"])
def test_a_pipe_among_kept_calls_keeps_no_reader_waiting(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls, call = CallFolder(tmp_path), KeptCall(server="", principal="", tool="tool")
    calls.keep(call)
    (path,) = tmp_path.glob("*.json")
    pipe = path.with_suffix(suffix)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(CannotKeep, match="is not a file"):  # noqa: SIM117
        with calls.held(call.key):
            raise AssertionError("was held")
    assert [*calls] == ([call] if suffix == ".lock" else [])
    assert ("is left out" in caplog.text) == (suffix == ".json")


def test_a_folder_that_others_may_write_later_is_used_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    calls, call = CallFolder(folder), KeptCall(server="", principal="", tool="tool")
    calls.keep(call)
    folder.chmod(0o777)
    uses: tuple[Callable[[], object], ...] = (
        lambda: calls.keep(call),
        lambda: calls.get(call.key),
        lambda: [*calls],
        lambda: calls.held(call.key).__enter__(),
    )
    for use in uses:
        with pytest.raises(CannotKeep, match="is not yours alone"):
            use()
    folder.chmod(0o700)
    assert [*calls] == [call]
