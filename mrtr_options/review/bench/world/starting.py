"""The start and the end of processes: forks that run a task, and programs.

A fork is of one process that has the imports behind it, which take seconds: multiprocessing's fork
server does them once. It ends when it is told to, or when the process that started it is gone,
together with all that it started itself. Ctrl-C does not reach it.

Knows nothing of what the processes do.
"""

from __future__ import annotations

import atexit
import fcntl
import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any
from unittest.mock import patch

import anyio
from anyio.abc import Process

START_SECONDS = 60.0
"""The longest time for a process to come up, or to end when it is asked to."""


def context(*modules: str) -> ForkServerContext:
    """Return multiprocessing's context, with a fork server that runs.

    The server has imported these modules, unless it ran before. Modules that are not installed are
    left out.
    """
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([*modules])
    resource_tracker.ensure_running()  # the fork server needs it, and its start unblocks signals
    # What is forked has SIGINT blocked from its first moment on; a handler would come too late.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return found


def start(
    task: Callable[..., object], *arguments: Any, apart: Mapping[str, str] | None = None
) -> ForkServerProcess:
    """Start a process that runs a task, a function of a module. Blocks for a moment.

    Its arguments are pickled; sockets and ends of pipes are handed over.

    Args:
        task: The task.
        arguments: The task's arguments.
        apart: Environment variables of an interpreter of its own; None for the common one.
    """
    process = context(task.__module__).Process(target=_do, args=(task, arguments))
    if apart is None:
        process.start()
        return process
    server = _server_apart()
    server.set_forkserver_preload([task.__module__])
    with patch.dict(os.environ, apart):
        server.ensure_running()
    with patch.object(forkserver, "connect_to_new_process", server.connect_to_new_process):
        process.start()
    return process


@cache
def _server_apart() -> forkserver.ForkServer:
    """Return a second fork server, whose interpreter is started in another environment."""
    return forkserver.ForkServer()


def start_server(
    task: Callable[..., object], *arguments: Any, apart: Mapping[str, str] | None = None
) -> tuple[ForkServerProcess, str]:
    """Start a process that serves on a socket, its task's last argument. Return it and its origin.

    An origin is as in "http://127.0.0.1:8000". See `start` for `apart`.
    """
    from mrtr_options.sdk.serving import listen  # takes longer than all that is needed to begin

    # Bound here: the port is known at once, and a request waits until the process comes up.
    with listen(0) as listener:
        process = start(task, *arguments, listener, apart=apart)
        return process, f"http://127.0.0.1:{listener.getsockname()[1]}"


def end(process: ForkServerProcess) -> int:
    """Kill a process, unless it has ended, and the processes that it started. Blocks for a moment.

    Returns:
        Its exit status, or minus the number of the signal that killed it.
    """
    assert process.pid is not None
    kill_group(process.pid)
    with suppress(ProcessLookupError):  # it may not head its group yet, or have ended by now
        process.kill()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _do(task: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    end_with_the_bench()
    task(*arguments)


def end_with_the_bench() -> None:
    """Have this process, and the group that it heads, end with the process that started it."""
    bench = multiprocessing.parent_process()
    assert bench is not None
    me = os.getpid()
    whole = -me if os.getpgrp() == me else me

    def end_with_it() -> None:
        bench.join()
        os.kill(whole, signal.SIGKILL)

    threading.Thread(target=end_with_it, daemon=True).start()
    if hasattr(fcntl, "F_SETSIG"):  # the kernel does it, too, where a task leaves no thread a turn
        pipe = bench.sentinel  # it ends with the bench
        fcntl.fcntl(pipe, fcntl.F_SETOWN, whole)
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


# --- programs -----------------------------------------------------------------------------------


@contextmanager
def program(command: Sequence[str], **how: Any) -> Generator[subprocess.Popen[str]]:
    """Run a program for the block; kill it and what it started at the end, unless they have ended.

    Args:
        command: The program and its arguments.
        how: Arguments of `Popen`.
    """
    with subprocess.Popen(command, text=True, start_new_session=True, **how) as process:
        try:
            yield process
        finally:
            kill_group(process.pid)


@asynccontextmanager
async def awaited_program(command: Sequence[str], **how: Any) -> AsyncGenerator[Process]:
    """Do what `program` does, for a caller that awaits what the program says.

    Args:
        command: The program and its arguments.
        how: Arguments of `anyio.open_process`.
    """
    process = await anyio.open_process(command, start_new_session=True, **how)
    try:
        yield process
    finally:
        kill_group(process.pid)
        with anyio.CancelScope(shield=True):
            await process.aclose()


def kill_group(head: int) -> None:
    """Kill the process that heads a group, and the processes that it started, if any goes on."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(head, signal.SIGKILL)


@atexit.register
def _end_all() -> None:
    for process in multiprocessing.active_children():
        process.kill()
