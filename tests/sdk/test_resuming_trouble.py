"""A call that alice left when she had been billed, and what may happen to it before somebody goes on.

Each trouble is played on its own. Whatever comes of it, nobody is billed once more and nobody is asked.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.resuming import Call, CallFolder, CannotKeep, Unanswered
from mrtr_options.sdk.resuming.kept import write
from mrtr_options.sdk.single_use import SqliteStore, single_use
from tests.sdk.test_resuming import ADA, World, guarded, interrupted

pytestmark = pytest.mark.anyio

HOUR, DAY = 3600.0, 86_400.0


@dataclass
class Left:
    """A call that was left.

    Attributes:
        world: Its server, and who calls there now.
        calls, call: Where it is kept, and how it stands.
        path: The folder.
        principal: Whom the host connects as.
    """

    world: World
    calls: CallFolder
    call: Call
    path: Path
    principal: str = "alice"

    @property
    def file(self) -> Path:
        (file,) = self.path.glob("*.json")
        return file

    def change(self, **fields: object) -> None:
        """Somebody edits the file."""
        self.call = self.call.model_copy(update=fields)
        write(self.file, self.call)

    def at(self, seconds: float) -> None:
        """The server's clock jumps."""
        self.world.now = lambda: time.time() + seconds


def bob_takes_the_folder(left: Left) -> None:
    left.world.caller = left.principal = "bob"


def bob_writes_his_name_into_it(left: Left) -> None:
    left.world.caller = left.principal = "bob"
    left.change(principal="bob")


def bob_begins_it_again_under_her_key(left: Left) -> None:
    bob_writes_his_name_into_it(left)
    left.change(pending=None, answers={})


def bob_waits_until_her_state_is_too_old(left: Left) -> None:
    bob_writes_his_name_into_it(left)
    left.at(1200)


def the_host_does_not_know_that_it_is_bob(left: Left) -> None:
    left.world.caller = "bob"


def the_host_has_lost_its_login(left: Left) -> None:
    left.world.caller = None


def the_state_is_of_another_call(left: Left) -> None:
    pending = left.call.pending
    assert pending is not None
    left.change(pending=pending.model_copy(update={"request_state": "made up"}))


def the_arguments_are_edited(left: Left) -> None:
    left.change(arguments={"x": 2})


def the_tool_is_edited(left: Left) -> None:
    left.change(tool="other")


def the_key_is_edited(left: Left) -> None:
    left.change(key=new_call_key())


def the_answer_is_edited(left: Left) -> None:
    left.change(answers={"who": types.ElicitResult(action="accept", content={"name": "Eve"})})


def the_file_is_cut_short(left: Left) -> None:
    left.file.write_bytes(left.file.read_bytes()[:-2])


def the_file_is_of_zeros(left: Left) -> None:
    left.file.write_bytes(bytes(left.file.stat().st_size))


def the_file_is_gone(left: Left) -> None:
    left.file.unlink()


def the_folder_is_gone(left: Left) -> None:
    shutil.rmtree(left.path)


def the_lock_is_a_folder(left: Left) -> None:
    left.file.with_suffix(".lock").mkdir()


def the_server_has_other_keys(left: Left) -> None:
    left.world.keys[:] = [new_key()]


def the_server_has_another_store(left: Left) -> None:
    store = SqliteStore(":memory:", keep_seconds=HOUR)
    left.world.guard = single_use(store, principal=lambda ctx: left.world.caller)


def the_server_is_two_days_ahead(left: Left) -> None:
    left.at(2 * DAY)


def the_server_is_a_day_behind(left: Left) -> None:
    left.at(-DAY)


def it_is_dropped(left: Left) -> None:
    left.calls.forget(left.call)


def the_key_is_empty(left: Left) -> None:
    left.change(key="")


def a_lock_is_left_over(left: Left) -> None:
    left.file.with_suffix(".lock").touch()


def the_file_is_there_twice(left: Left) -> None:
    shutil.copy(left.file, left.path / "copy.json")


ENDS: dict[Callable[[Left], None], type[Exception] | None] = {
    bob_takes_the_folder: ValueError,
    bob_writes_his_name_into_it: MCPError,
    bob_begins_it_again_under_her_key: Unanswered,
    bob_waits_until_her_state_is_too_old: MCPError,
    the_host_does_not_know_that_it_is_bob: MCPError,
    the_host_has_lost_its_login: MCPError,
    the_state_is_of_another_call: MCPError,
    the_arguments_are_edited: MCPError,
    the_tool_is_edited: MCPError,
    the_key_is_edited: ValueError,
    the_answer_is_edited: MCPError,
    the_file_is_cut_short: CannotKeep,
    the_file_is_of_zeros: CannotKeep,
    the_file_is_gone: ValueError,
    the_folder_is_gone: CannotKeep,
    the_lock_is_a_folder: CannotKeep,
    the_server_has_other_keys: MCPError,
    the_server_has_another_store: MCPError,
    the_server_is_two_days_ahead: None,
    the_server_is_a_day_behind: None,
    a_lock_is_left_over: None,
    the_file_is_there_twice: None,
    it_is_dropped: ValueError,
    the_key_is_empty: ValueError,
}
"""The troubles, and how the call then ends; None for its result."""


@pytest.mark.parametrize("trouble", ENDS, ids=lambda trouble: trouble.__name__)
async def test_whatever_happens_to_a_call_that_was_left_nobody_is_billed_again(
    trouble: Callable[[Left], None], tmp_path: Path
) -> None:
    path = tmp_path / "calls"
    async with interrupted(path) as (world, calls, call):
        left = Left(world, calls, call, path)
        trouble(left)
        end = ENDS[trouble]
        goes_on = world.resume(left.call, calls=calls, principal=left.principal, honours_keys=True)
        if end is None:
            assert await goes_on == "done"
        else:
            with pytest.raises(end) as ended:
                await goes_on
            assert "\n" not in str(ended.value)
    assert (world.effects.count("bill"), world.asked) == (1, ["Who is who?"])


async def test_a_call_that_bob_takes_over_before_its_bill_asks_him_nothing_and_bills_nobody(
    tmp_path: Path,
) -> None:
    async def closed() -> types.ElicitResult:
        raise EOFError("the terminal is closed")

    calls = CallFolder(tmp_path)
    async with guarded(caller="alice", answers=closed) as world:
        with pytest.raises(EOFError):
            await world.call(calls=calls, principal="alice", honours_keys=True)
        (call,) = calls
        world.answers, world.caller, asked = None, "bob", len(world.asked)
        with pytest.raises(ValueError, match="another server or principal"):
            await world.resume(call, calls=calls, principal="bob")
        calls.keep(call.answered("who", ADA))
        with pytest.raises(MCPError):
            await world.resume(call, calls=calls, principal="alice", honours_keys=True)
        assert (world.effects, len(world.asked)) == (["audit"], asked)
        world.caller = "alice"
        assert await world.resume(call, calls=calls, principal="alice", honours_keys=True) == "done"
    assert (world.effects, len(world.asked)) == (["audit", "bill"], asked)


async def test_a_call_that_another_client_is_making_is_in_use(tmp_path: Path) -> None:
    calls, asked, said = CallFolder(tmp_path), anyio.Event(), anyio.Event()

    async def thinks() -> types.ElicitResult:
        asked.set()
        await said.wait()
        return ADA

    async with guarded(caller="alice", answers=thinks) as world:
        key = new_call_key()  # not older than the guard's store

        async def make() -> None:
            assert await world.call(key=key, calls=calls, principal="alice", honours_keys=True) == "done"

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            await asked.wait()
            with pytest.raises(CannotKeep, match="is in use"):
                await make()
            said.set()
    assert (world.effects, world.asked, [*calls]) == (["audit", "bill"], ["Who is who?"], [])
