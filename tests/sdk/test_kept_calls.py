"""Tests of the calls that the client's half keeps in a folder."""

import fcntl
import os
import resource
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.resuming import (
    CallFolder,
    Unanswered,
)
from mrtr_options.sdk.resuming.open_calls import MAX_BYTES, CannotKeep, KeptCall, read, write
from mrtr_options.sdk.single_use import SqliteStore, single_use
from tests.sdk.fakes import key_made
from tests.sdk.resuming_world import ADA, CALLED, World, guarded

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("full_at", [1, 2, 3, 4])
async def test_a_folder_that_is_full_loses_nothing(full_at: int, tmp_path: Path) -> None:
    """Let no file grow at one of the times when a call is kept: begun, asked, answered, sent."""
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
    assert world.effects == ["audit", "bill"]
    assert world.asked == ["Who is who?"]
    assert os.listdir(tmp_path) == []


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
    calls = CallFolder(tmp_path)
    world = World()
    call = CALLED.model_copy(update=change)
    calls.keep(call)
    with pytest.raises(ValueError, match="another call"):
        await world.call(calls=calls, key=call.key)
    assert world.requests == []
    assert [*calls] == [call]


@pytest.mark.parametrize("content", ["", "{", "[]", "\0", '{"server": 1}'])
def test_calls_come_oldest_first_and_a_file_of_none_hides_none(
    content: str, tmp_path: Path
) -> None:
    calls = CallFolder(tmp_path)
    keys = [key_made(at) for at in range(5)]
    (tmp_path / "0.json").write_text(content)
    for key in keys:
        calls.keep(CALLED.model_copy(update={"key": key}))
    assert [call.key for call in calls] == keys
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert [mode for name, mode in modes.items() if name != "0.json"] == [0o600] * 5


def test_what_cannot_be_kept_or_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    call = CALLED
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


HOUR = 3600.0
DAY = 86_400.0


@dataclass
class Left:
    """A call that was left.

    Attributes:
        world: Its server and its caller.
        call: The call as it was kept.
        path: The folder in which it is kept.
        principal: The principal as which the host connects.
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
        """Connect as bob, who may have edited the file."""
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
"""Changes before the call goes on, and the error with which it then ends; None for its result."""


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_whatever_happens_to_a_left_call_it_is_paid_once(
    trouble: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls"
    happen, end = TROUBLES[trouble]
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
    assert world.effects.count("bill") == 1
    assert world.asked == ["Who is who?"]


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(
    ("trouble", "then"),
    [({"refused": {1, 2, 3, 4}}, nullcontext()), ({"lost": {1}}, pytest.raises(Unanswered))],
    ids=["never sent", "lost"],
)
async def test_a_left_call_is_begun_later_only_if_it_was_never_sent(
    trouble: dict[str, Any],
    then: AbstractContextManager[object],
    is_kept: bool,
    tmp_path: Path,
) -> None:
    calls = CallFolder(tmp_path) if is_kept else None
    world = World(questions=(), **trouble)
    with pytest.raises(Unanswered) as left:
        await world.call(calls=calls)
    with then:
        await world.resume(left.value.call, calls=calls)
    assert world.effects == ["bill"]


@pytest.mark.parametrize(
    ("keep_seconds", "ends", "bills"),
    [
        (600, pytest.raises(MCPError, match="call key is too old"), 0),
        (3600, nullcontext(), 1),
    ],
)
async def test_a_call_outlives_its_states_if_the_guard_keeps_its_key_for_longer(
    keep_seconds: float, ends: AbstractContextManager[Any], bills: int
) -> None:
    now = [1.8e9]

    async def thinks_for_eleven_minutes() -> types.ElicitResult:
        now[0] += 660
        return ADA

    with closing(SqliteStore(":memory:", keep_seconds=keep_seconds, clock=lambda: now[0])) as store:
        world = World(
            now=lambda: now[0], answers=thinks_for_eleven_minutes, guard=single_use(store)
        )
        with ends:
            await world.call(key=key_made(now[0]), honours_keys=True)
    assert world.effects.count("bill") == bills


@pytest.mark.parametrize("refusals", [{}, {1: refusal(Reason.CALL_KEY_EXPIRED)}])
async def test_a_call_that_another_client_is_making_is_in_use_also_under_a_renewed_key(
    refusals: dict[int, MCPError], tmp_path: Path
) -> None:
    calls = CallFolder(tmp_path)
    asked = anyio.Event()
    said = anyio.Event()

    async def thinks() -> types.ElicitResult:
        asked.set()
        await said.wait()
        return ADA

    async with guarded(caller="alice", answers=thinks, raises=refusals) as world:

        async def make(key: str | None) -> None:
            reply = await world.call(key=key, calls=calls, principal="alice", honours_keys=True)
            assert reply == "done"

        async with anyio.create_task_group() as group:
            group.start_soon(make, None)
            await asked.wait()
            (call,) = calls
            with pytest.raises(CannotKeep, match="is in use"):
                await make(call.key)
            said.set()
    assert world.effects == ["audit", "bill"]
    assert world.asked == ["Who is who?"]
    assert [*calls] == []


def test_a_lock_that_its_holder_removed_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = CallFolder(tmp_path)
    flock = fcntl.flock
    is_made_by_a_third = [False, True]

    def removed(file: IO[bytes], how: int) -> None:
        flock(file, how)
        if is_made_by_a_third:
            (lock,) = tmp_path.glob("*.lock")
            lock.unlink()
            if is_made_by_a_third.pop(0):
                lock.touch()

    monkeypatch.setattr(fcntl, "flock", removed)
    with calls.held(CALLED.key):
        assert is_made_by_a_third == []
        with pytest.raises(CannotKeep, match="is in use"), calls.held(CALLED.key):
            pass
    assert os.listdir(tmp_path) == []


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
"""Values that JSON cannot carry, and a part of the refusal."""
HALF = "has half of a surrogate pair"
UNSENDABLE: dict[str, tuple[dict[str, Any], str]] = {
    **{
        name: ({"arguments": {"x": x}}, f"JSON cannot carry the argument 'x': .*{why}")
        for name, (x, why) in NOT_JSON.items()
    },
    "half a pair as a name": ({"name": "\ud800"}, HALF),
    "half a pair as a call key": ({"key": "\ud800"}, HALF),
    "half a pair as an argument's name": ({"arguments": {"\ud800": 1}}, HALF),
}


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("name", UNSENDABLE)
async def test_what_json_cannot_carry_is_refused_unsent(
    name: str, is_kept: bool, tmp_path: Path
) -> None:
    unsendable, why = UNSENDABLE[name]
    request: dict[str, Any] = {"name": "tool", **unsendable}
    world = World()
    calls = CallFolder(tmp_path)
    async with world.client(calls=calls if is_kept else None) as client:
        with pytest.raises(ValueError, match=why):
            await client.call_tool(**request)
    assert world.requests == []
    assert [*calls] == []


async def test_a_call_made_again_under_its_key_may_have_its_arguments_as_python_has_them(
    tmp_path: Path,
) -> None:
    world = World(lost={1})
    calls = CallFolder(tmp_path)
    key = new_call_key()
    async with world.client(calls=calls) as client:
        for _ in range(2):
            with pytest.raises(Unanswered, match="no response to the first request"):
                await client.call_tool("tool", {"x": (1, 2)}, key=key)
    assert len(world.requests) == 1


@pytest.mark.parametrize("suffix", [".json", ".lock"])
def test_a_pipe_among_kept_calls_keeps_no_reader_waiting(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = CallFolder(tmp_path)
    calls.keep(CALLED)
    (path,) = tmp_path.glob("*.json")
    pipe = path.with_suffix(suffix)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(CannotKeep, match="is not a file"):  # noqa: SIM117
        with calls.held(CALLED.key):
            raise AssertionError("a pipe was held as a call")
    assert [*calls] == ([CALLED] if suffix == ".lock" else [])
    assert ("is left out" in caplog.text) == (suffix == ".json")


@pytest.mark.parametrize("others", ["may write", "own it"])
def test_a_folder_that_is_not_ones_own_alone_later_is_used_no_more(
    others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "calls"
    calls = CallFolder(folder)
    calls.keep(CALLED)
    uses: tuple[Callable[[], object], ...] = (
        lambda: CallFolder(folder),
        lambda: calls.keep(CALLED),
        lambda: calls.get(CALLED.key),
        lambda: [*calls],
        lambda: calls.held(CALLED.key).__enter__(),
    )
    with monkeypatch.context() as patch:
        if others == "may write":
            folder.chmod(0o702)
        else:
            patch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
        for use in uses:
            with pytest.raises(CannotKeep, match="not yours alone"):
                use()
    folder.chmod(0o700)
    assert [*calls] == [CALLED]
