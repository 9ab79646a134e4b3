"""The person at the terminal as the user who answers questions.

Knows the SDK's forms as far as this package's questions use them: every field is a choice. Waits
for input with `select`, which takes a terminal or a pipe on POSIX systems only.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Mapping

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskStatus
from rich.console import Console
from rich.text import Text

_POLL_SECONDS = 0.1

CANCELS = "the input ended, which counts as cancel"
GOES_ON = "the input ended, which counts as Enter"


class Person:
    """Shows each form to the person at the terminal; a `User` of a call.

    Args:
        console: Where the choices are listed.

    Attributes:
        has_left: The input ended, or there was a Ctrl-C. The open question was cancelled.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.has_left = False

    async def __call__(self, form: types.ElicitRequestFormParams) -> types.ElicitResult:
        said = await self.answer(form, {})
        assert isinstance(said, types.ElicitResult)
        return said

    async def answer(
        self, form: types.ElicitRequestFormParams, others: Mapping[str, str]
    ) -> types.ElicitResult | str:
        """Their answer, or the key of something else that they do instead.

        Args:
            form: What is asked.
            others: What else they can do: what it does by the key they type.
        """
        content: dict[str, str | int | float | bool | list[str] | None] = {}
        for name, schema in form.requested_schema["properties"].items():
            choices: list[str] = schema["enum"]
            numbers = {str(number): choice for number, choice in enumerate(choices, start=1)}
            for number, choice in numbers.items():
                self._print(f"      {number}  {choice}")
            self._list({"d": "decline", "c": "cancel (or Ctrl-C)", **others})
            while (line := await self._read(name, CANCELS)) not in (*numbers, *choices):
                match line:
                    case None | "c":
                        return types.ElicitResult(action="cancel")
                    case "d":
                        return types.ElicitResult(action="decline")
                    case _ if line in others:
                        return line
                    case _:
                        keys = ", ".join(["d", "c", *others])
                        self._print(f"    type a number from 1 to {len(choices)}, or one of {keys}")
            content[name] = numbers.get(str(line), line)
        return types.ElicitResult(action="accept", content=content)

    async def choose(self, others: Mapping[str, str]) -> str:
        """Return the key that they choose of `others`, or "" for none."""
        if self.has_left:
            return ""
        self._list({"Enter": "goes on", **others})
        while (line := await self._read("and then", GOES_ON)) not in others:
            if not line:
                return ""
            self._print(f"    press Enter, or type one of {', '.join(others)}")
        return line or ""

    def _list(self, choices: Mapping[str, str]) -> None:
        self._print("      " + ", ".join(f"{key} {says}" for key, says in choices.items()))

    def _print(self, text: str, end: str = "\n") -> None:
        self._console.print(Text(text), end=end)

    async def _read(self, what: str, at_end: str) -> str | None:
        """Return a line, or None if they have left; at the end of the input, print `at_end`."""
        self._print(f"    {what}? ", end="")
        line = await _read_line()
        if not line:
            self._print("" if line is None else f"\n    {at_end}")
            self.has_left = True
            return None
        line = line.strip()
        if not sys.stdin.isatty():
            self._print(line)  # a terminal shows what is typed, a pipe does not
        return line


async def _read_line() -> str | None:
    """Return a line of standard input with its end; "" at the end of the input, None on Ctrl-C."""
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


def read_line_here() -> str:
    """Read a line in a thread; give up when the task that waits for it is cancelled."""
    stdin = sys.stdin.fileno()
    line = b""
    while not line.endswith(b"\n"):
        # A thread inside read() cannot be cancelled and would keep the program from ending.
        while not select.select([stdin], [], [], _POLL_SECONDS)[0]:
            anyio.from_thread.check_cancelled()
        byte = os.read(stdin, 1)  # byte by byte: what is read ahead is invisible to `select`
        if not byte:
            return ""
        line += byte
    return line.decode(errors="replace")
