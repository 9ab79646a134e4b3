"""`check --watch`: the command once more whenever a file beside the proposal is saved.

Each time in a process of its own, so that nothing of the file before is left. Knows files and processes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio

from mrtr_options.show.terminal import console
from mrtr_options.tool.catalogue import require_file

LOOK_SECONDS = 0.3
"""How often the files are looked at."""

SUFFIXES = (".py", ".toml")
"""Of a proposal, its guarantees, and what it imports from beside it."""


def watch(file: Path, arguments: Sequence[str]) -> int:
    """Run a command of this program at once and at each change, until Ctrl-C.

    Args:
        file: The proposal.
        arguments: The command.

    Raises:
        CannotLoad: There is no such file.
    """
    require_file(file)
    anyio.run(_watch, file, [sys.executable, "-m", "mrtr_options", *arguments])
    return 0


async def _watch(file: Path, command: Sequence[str]) -> None:
    out = console(stderr=True)
    async with aclosing(saved(file)) as times, anyio.create_task_group() as group:
        running = anyio.CancelScope()
        async for _ in times:
            running.cancel()
            running = anyio.CancelScope()
            await group.start(_run, command, running)
            out.print(f"watching {file.parent.resolve()}; Ctrl-C ends it", style="dim", soft_wrap=True)


async def _run(
    command: Sequence[str],
    scope: anyio.CancelScope,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    task_status.started()
    with scope:
        # Cancelled, it is killed: its servers end with it.
        await anyio.run_process(command, stdin=subprocess.DEVNULL, stdout=None, stderr=None, check=False)


async def saved(file: Path, look_seconds: float = LOOK_SECONDS) -> AsyncGenerator[None]:
    """Yields at once, and whenever a file in the same folder has been saved, made or removed.

    Args:
        file: One of them.
        look_seconds: How often to look.
    """
    before: dict[Path, int] | None = None
    while True:
        now = _times(file.parent)
        if now != before:
            before = now
            yield
        await anyio.sleep(look_seconds)


def _times(folder: Path) -> dict[Path, int]:
    times: dict[Path, int] = {}
    for path in folder.iterdir():
        if path.suffix in SUFFIXES:
            try:
                times[path] = path.stat().st_mtime_ns
            except FileNotFoundError:  # an editor has just replaced it
                continue
    return times
