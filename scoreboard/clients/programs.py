"""A client's program, which takes jobs on its standard input and reports what it sees.

README.md describes the lines that go in and out. Knows nothing of any client's library.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.world.starting import kill_group
from mrtr_options.sdk.handler import JsonObject
from scoreboard import ROOT
from scoreboard.clients.peers import FOLDER, Peer
from scoreboard.servers.peers import running_service, started

LEAVE_SECONDS = 3.0
"""The time that a program has to end after its last job. With a call that hangs, it never ends."""


@dataclass
class Said:
    """The reports of a client's program about one job.

    Attributes:
        asked: How often the user was asked.
        made_again: Whether the application made the call once more.
        ended: The line about the end of the call; None before the end.
        usable: Whether the client was of use afterwards; None before this is known.
        over, is_over: Whether the whole job is done.
    """

    asked: int = 0
    made_again: bool = False
    ended: JsonObject | None = None
    usable: bool | None = None
    over: anyio.Event = field(default_factory=anyio.Event)
    is_over: bool = False

    def take(self, said: JsonObject) -> None:
        """Record one line."""
        if "asked" in said:
            self.asked += 1
        elif "usable" in said:
            self.usable = said["usable"]
        elif "over" in said:
            self.is_over = True
            self.over.set()
        elif self.ended is None:
            self.ended = said


class Player(Protocol):
    """A player of jobs.

    Attributes:
        ended: Whether it has ended, and its jobs with it.
    """

    ended: bool

    async def do(self, job: JsonObject, seconds: float) -> Said:
        """Play one job.

        Args:
            job: The job.
            seconds: The time limit.
        """
        ...


@dataclass
class Program:
    """A client's program, which takes jobs for as long as it runs."""

    process: anyio.abc.Process
    jobs: dict[int, Said] = field(default_factory=dict[int, Said])
    errors: list[str] = field(default_factory=list[str])
    ready: anyio.Event = field(default_factory=anyio.Event)
    ended: bool = False

    @staticmethod
    @asynccontextmanager
    async def of(peer: Peer, starting: anyio.CapacityLimiter) -> AsyncGenerator[Program]:
        """Run a client's program for the block, and yield it once it is ready for jobs."""
        path = f"{ROOT}{os.pathsep}{FOLDER}"
        async with AsyncExitStack() as held, anyio.create_task_group() as group:
            async with starting:
                folder = held.enter_context(scratch())
                service = running_service(peer.service, peer.built, folder)
                port = await held.enter_async_context(service)
                environment = {"PYTHONPATH": path, "NO_COLOR": "1", "MRTR_PORT": str(port)}
                run = started(peer.starting(), Path(), environment, None, talks=True)
                process = await held.enter_async_context(run)
                program = Program(process)
                group.start_soon(program._read)
                group.start_soon(program._read_errors)
                await program.ready.wait()
            yield program
            await program._end()

    async def _end(self) -> None:
        """End the program: close its input, and kill it if it does not end by itself."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with anyio.move_on_after(LEAVE_SECONDS):
            await self.process.wait()
        if self.process.returncode is None:
            kill_group(self.process.pid)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self.process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                try:
                    said = json.loads(line)
                    if "ready" in said:
                        self.ready.set()
                        continue
                    self.jobs[said["job"]].take(said)
                except (ValueError, TypeError, KeyError):
                    continue  # a library's own output
        self.ended = True
        self.ready.set()
        for said in self.jobs.values():
            said.over.set()

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for text in TextReceiveStream(self.process.stderr, errors="replace"):
            self.errors += [line for line in text.splitlines() if line.strip()]

    async def do(self, job: JsonObject, seconds: float) -> Said:
        said = Said()
        self.jobs[job["id"]] = said
        assert self.process.stdin is not None
        with anyio.move_on_after(seconds), suppress(anyio.BrokenResourceError):
            await self.process.stdin.send(json.dumps(job).encode() + b"\n")
            await said.over.wait()
        return said
