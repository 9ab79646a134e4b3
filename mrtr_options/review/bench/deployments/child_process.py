"""The bench's end of one server process: what the process says, prints, and how it ends.

The process runs `child`, which explains their messages.
"""

from __future__ import annotations

import json
import linecache
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import anyio

PROCESSES = "/proc"
"""The folder in which the kernel says for how long each thread has been in line."""

WORD_SECONDS = 2.0
"""The longest time for a process to say where it stands."""

MOST_IN_LINE = 0.9
"""The largest share of a time that does not count, since a process is in line."""

END_SECONDS = 2.0
"""The longest time for a process to end in order, before it is killed."""

OUTPUT_BYTES = 64 * 1024
"""The length of a process's output that is kept."""


@dataclass
class Child:
    """One server process.

    Attributes:
        process: The process itself.
        origin: The URL of its listener, without a path.
        talk: The socket to it; see `child`.
        output: The pipe with its output.
        up, dead: Set when it serves, and when it is gone.
        failed: The reason if its file does not load: the author's traceback or a line.
        raised: The tracebacks of exceptions that the author's code raised, the latest last.
        printed: The end of what it printed.
        rest: The beginning of an unfinished line.
        answers: Its last answers, by the question.
        news: Set, and replaced, when it has answered or printed something.
        ended: Its exit status, or minus the number of the signal that ended it.
        passed: The seconds by which its clock has gone ahead by itself.
    """

    process: ForkServerProcess
    origin: str
    talk: socket.socket
    output: Connection
    up: anyio.Event = field(default_factory=anyio.Event)
    dead: anyio.Event = field(default_factory=anyio.Event)
    failed: str = ""
    raised: list[str] = field(default_factory=list[str])
    printed: bytes = b""
    rest: bytes = b""
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    news: anyio.Event = field(default_factory=anyio.Event)
    ended: int | None = None
    passed: float = 0.0

    async def listen(self) -> None:
        """Read the process's messages until it ends. Its own children may still hold the socket."""
        self.talk.setblocking(False)
        try:
            with self.talk:
                async with anyio.create_task_group() as group:

                    async def read() -> None:
                        while self._read_messages():
                            await anyio.wait_readable(self.talk)
                        group.cancel_scope.cancel()

                    group.start_soon(read)
                    await anyio.wait_readable(self.process.sentinel)
                    group.cancel_scope.cancel()
                self._read_messages()
        finally:  # also where the bench is cancelled: it still waits for the end of the process
            self.dead.set()
            self.up.set()
            self.news.set()

    def _read_messages(self) -> bool:
        """Read its messages so far; return whether more can come."""
        try:
            while more := self.talk.recv(64 * 1024):
                *lines, self.rest = (self.rest + more).split(b"\n")
                for line in lines:
                    self._handle(json.loads(line))
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def _handle(self, message: dict[str, Any]) -> None:
        ((what, value),) = message.items()
        match what:
            case "up":
                self.up.set()
            case "failed":
                self.failed = value
            case "passed":
                self.passed += value
            case "raised":
                self.raised = [*self.raised[-9:], value]
            case _:
                self.answers[what] = value
                self._tell_news()

    async def drain(self) -> None:
        """Read its output until no process holds it."""
        with self.output as output:
            while True:
                await anyio.wait_readable(output)
                more = os.read(output.fileno(), OUTPUT_BYTES)
                if not more:
                    return
                self.printed = (self.printed + more)[-OUTPUT_BYTES:]
                self._tell_news()

    def _tell_news(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def ask(self, what: str, seconds: float) -> Any:
        """Return its answer; None if it does not answer within `seconds`."""
        self.answers.pop(what, None)
        with suppress(OSError), anyio.move_on_after(seconds):
            self.talk.sendall(what.encode() + b"\n")
            while what not in self.answers and not self.dead.is_set():
                await self.news.wait()
        return self.answers.get(what)

    async def wait_for(self, event: anyio.Event, seconds: float) -> None:
        """Wait for an event, for seconds in which neither this process nor the bench is in line.

        A process in line waits for a processor, which takes longer on a busy machine.
        """
        while seconds > 0.01 and not event.is_set():
            before = self._in_line()
            with anyio.move_on_after(seconds):
                await event.wait()
            waited = self._in_line() - before  # without threads that are gone
            seconds = min(waited.total() / 1e9, MOST_IN_LINE * seconds)

    def _in_line(self) -> Counter[str]:
        """Return for how many nanoseconds each thread has been in line, where the kernel says so.

        A server may be at work in any of its threads, the bench only in its main thread.
        """
        server = f"{PROCESSES}/{self.process.pid}/task"
        bench = f"{PROCESSES}/{os.getpid()}"
        threads = [bench]
        found = Counter[str]()
        with suppress(OSError):  # the process is gone
            threads += [f"{server}/{thread}" for thread in os.listdir(server)]
        for thread in threads:
            with suppress(OSError):  # the thread is gone
                found[thread] = int(Path(thread, "schedstat").read_text().split()[1])
        return found

    async def position_in(self, file: Path) -> str:
        """Return the author's lines in this absolute file at which the process stands."""
        found = await self.ask("where", WORD_SECONDS)
        if found is None:  # its threads get no turn: the interpreter itself says where they are
            self.printed = b""
            assert self.process.pid is not None
            try:
                os.kill(self.process.pid, signal.SIGUSR1)
            except ProcessLookupError:  # another request that hangs has ended it
                return ""
            for _ in range(2):  # it comes in pieces; one wait without news ends it
                with anyio.move_on_after(WORD_SECONDS / 2) as quiet:
                    while not self.dead.is_set():
                        await self.news.wait()
                        quiet.deadline = anyio.current_time() + WORD_SECONDS / 4
            stack = re.findall(
                r'File "(.*)", line (\d+) in (.*)', self.printed.decode(errors="replace")
            )
            found = [(int(line), name) for path, line, name in stack if path == str(file)][:1]
        return "\n".join(
            f"line {line}, in {name}: {linecache.getline(str(file), line).strip()}"
            for line, name in found
        )


async def end_in_order(children: Sequence[Child]) -> None:
    """Tell processes to end, and wait for a moment until they have."""
    for child in children:
        child.process.terminate()
    for child in children:
        await child.wait_for(child.dead, END_SECONDS)
