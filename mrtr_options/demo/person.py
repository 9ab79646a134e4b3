"""The person at the terminal as the user who answers questions.

Knows the SDK's forms as far as this package's questions use them: every field is a choice. Waits for
input with `select`, which takes a terminal or a pipe on POSIX systems only.
"""

from __future__ import annotations

import os
import select
import signal
import sys

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskStatus
from rich.console import Console
from rich.text import Text

_POLL_SECONDS = 0.1


class Person:
    """Shows each form to the person at the terminal; an `Answerer` of the client.

    Args:
        console: Where the choices are listed.

    Attributes:
        has_left: The input ended, or there was a Ctrl-C. The open question was cancelled.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.has_left = False

    async def __call__(self, form: types.ElicitRequestFormParams) -> types.ElicitResult:
        content: dict[str, str | int | float | bool | list[str] | None] = {}
        for name, schema in form.requested_schema["properties"].items():
            choices: list[str] = schema["enum"]
            for number, choice in enumerate(choices, start=1):
                self._console.print(Text(f"      {number}  {choice}"))
            self._console.print(Text("      d  decline\n      c  cancel (or Ctrl-C)"))
            while True:
                self._console.print(Text(f"    {name}? "), end="")
                line = await _read_line()
                if line is not None and not sys.stdin.isatty():
                    self._console.print(Text(line))  # a terminal shows what is typed, a pipe does not
                if line is None:
                    self._console.print()
                    self.has_left = True
                    return types.ElicitResult(action="cancel")
                if line == "d":
                    return types.ElicitResult(action="decline")
                if line == "c":
                    return types.ElicitResult(action="cancel")
                if line in choices:
                    content[name] = line
                    break
                if line.isdecimal() and 1 <= int(line) <= len(choices):
                    content[name] = choices[int(line) - 1]
                    break
                self._console.print(Text(f"    type a number from 1 to {len(choices)}, d or c"))
        return types.ElicitResult(action="accept", content=content)


async def _read_line() -> str | None:
    """A line from standard input, stripped; None at its end or on Ctrl-C."""
    line = None
    async with anyio.create_task_group() as tasks:

        async def stop_on_interrupt(*, task_status: TaskStatus[None]) -> None:
            with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
                task_status.started()
                async for _ in interrupts:
                    tasks.cancel_scope.cancel()

        await tasks.start(stop_on_interrupt)
        line = await anyio.to_thread.run_sync(read_line_here)
        tasks.cancel_scope.cancel()
    return line


def read_line_here() -> str | None:
    """The same, in a thread: gives up when the task that waits for it is cancelled."""
    stdin = sys.stdin.fileno()
    line = b""
    while not line.endswith(b"\n"):
        # A thread inside read() cannot be cancelled and would keep the program from ending.
        while not select.select([stdin], [], [], _POLL_SECONDS)[0]:
            anyio.from_thread.check_cancelled()
        byte = os.read(stdin, 1)  # byte by byte: what is read ahead is invisible to `select`
        if not byte:
            return None
        line += byte
    return line.decode(errors="replace").strip()
