"""A call that alice left when she had been billed, and what may happen to it before somebody goes on.

Each trouble is played on its own. Whatever comes of it, nobody is billed once more and nobody is asked.
"""

from __future__ import annotations

import os
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

    def bob_has_it(self, **edits: object) -> None:
        """The host connects as bob, who may have edited the file."""
        self.world.caller = self.principal = "bob"
        if edits:
            self.change(**edits)

    def replace(self, make: Callable[[Path, Path], object]) -> None:
        """Something else is where the file was."""
        path = self.file
        path.unlink()
        make(path, path)

    def at(self, seconds: float) -> None:
        """The server's clock jumps."""
        self.world.now = lambda: time.time() + seconds

    def renew_store(self) -> None:
        store = SqliteStore(":memory:", keep_seconds=HOUR)
        self.world.guard = single_use(store, principal=lambda ctx: self.world.caller)


FORGED = types.InputRequiredResult(request_state="made up")
EVE = types.ElicitResult(action="accept", content={"name": "Eve"})

TROUBLES: dict[str, tuple[Callable[[Left], object], type[Exception] | None]] = {
    "bob takes the folder": (lambda left: left.bob_has_it(), ValueError),
    "bob writes his name into it": (lambda left: left.bob_has_it(principal="bob"), MCPError),
    "bob begins it again under her key": (
        lambda left: left.bob_has_it(principal="bob", pending=None, answers={}),
        Unanswered,
    ),
    "bob waits until her state is too old": (
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
"""What happens to the call, and how it then ends; None for its result."""


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_whatever_happens_to_a_call_that_was_left_nobody_is_billed_again(
    trouble: str, tmp_path: Path
) -> None:
    path, (happen, end) = tmp_path / "calls", TROUBLES[trouble]
    async with interrupted(path) as (world, calls, call):
        left = Left(world, calls, call, path)
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
            assert await world.call(key=key, calls=calls, principal="alice", honours_keys=True) == "done"

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            await asked.wait()
            with pytest.raises(CannotKeep, match="is in use"):
                await make()
            said.set()
    assert (world.effects, world.asked, [*calls]) == (["audit", "bill"], ["Who is who?"], [])
