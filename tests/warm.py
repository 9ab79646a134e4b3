"""Python that has its imports behind it: `python()` is a command that begins in milliseconds.

A module of this package imports the SDK, which takes most of a second, and tests start a hundred
processes. So one server does the imports, for all processes of a test session, and forks. The command
hands the server its words, folder, variables, input and outputs; what is forked is given them, and is
a process like any other. The command passes signals on to it and ends as it ends.

Run as a script this file is that command, so it imports little; as a module it is the server. Knows what
is to be imported, and nothing of tests.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

FOLDER_VARIABLE = "MRTR_TESTS_WARM"
"""Names the folder of the server's socket, for the processes of a test session. The name of the folder
begins with the number of the session's first process, with which the server ends."""

ANEW = "--anew"
"""The first word of a command that imports the package and tests from its folder, as they are now."""

MOST_FILES = 64
"""How many files a command may have open."""

IMPORTS = (
    "anyio.pytest_plugin",
    "hypothesis",
    "ipykernel.kernelapp",
    "tests.chaos.outage",
    "mrtr_options.cost.report",
    "mrtr_options.demo.tour",
    "mrtr_options.examples.client_dual_path",
    "mrtr_options.sdk.resuming",
    "mrtr_options.sdk.single_use.postgres",
    "mrtr_options.sdk.tasks.store",
    "mrtr_options.show.check",
    "mrtr_options.show.docs",
    "tests.mutants.mutation",
    "opentelemetry.sdk.trace.export.in_memory_span_exporter",
    "trio",
    "xdist.remote",
)


def python(*, anew: bool = False) -> list[str]:
    """The command, to which `-m MODULE` or `-c CODE` and more words are added.

    Args:
        anew: Whether it imports the package from its folder, as it is now.
    """
    folder = os.environ[FOLDER_VARIABLE]
    return [sys.executable, "-I", "-S", __file__, _started(folder), *([ANEW] if anew else [])]


def executable() -> str:
    """A file that is this command, for `multiprocessing`, which adds flags and passes open files."""
    import shlex

    path = f"{os.environ[FOLDER_VARIABLE]}/python-{os.getpid()}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(python())} "$@"\n')
    os.chmod(path, 0o700)
    return path


def _started(folder: str) -> str:
    """The socket of the server."""
    from filelock import FileLock

    path = f"{folder}/socket"
    with FileLock(f"{folder}/lock"):
        if not os.path.exists(path):
            listens, says = os.pipe()
            os.set_inheritable(says, True)
            command = [sys.executable, "-m", "tests.warm", path, str(says)]
            os.posix_spawn(sys.executable, command, os.environ, setsid=True)
            os.close(says)
            with open(listens, "rb") as server:
                assert server.read() == b"listens", "the server of forks does not come up"
    return path


# --- the command --------------------------------------------------------------------------------


def _command(path: str, words: list[str]) -> int:
    """Have the server fork, and wait for the end of that process; its status."""
    files = [number for number in map(int, os.listdir("/dev/fd")) if _is_open(number)]
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        asked = json.dumps([files, words, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], files)
        server.sendall(asked)
        process = int.from_bytes(server.recv(4), "big")
        pass_on = os.killpg if os.getpid() == os.getsid(0) else os.kill

        def on_signal(number: int, _: object) -> None:
            pass_on(process, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in files:  # what is piped ends with the process
            os.dup2(nothing, number)
        return int.from_bytes(server.recv(4), "big", signed=True)


def _is_open(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # the listing's own
        return False


# --- the server ---------------------------------------------------------------------------------


def _serve(path: str, listens: int) -> list[str]:
    """Fork until the test session is over; only what is forked returns, with its words."""
    session = os.pidfd_open(int(os.path.basename(os.path.dirname(path)).partition("-")[0]))
    for name in IMPORTS:
        __import__(name)
    _keep_certificates()
    gc.freeze()  # else a pass of the collector in a fork copies what they share
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.write(listens, b"listens")
        os.close(listens)
        commands: dict[int, socket.socket] = {}
        processes: dict[int, tuple[int, socket.socket]] = {}
        while True:
            waits = [session, listener.fileno(), *commands, *processes]
            for ready in select.select(waits, [], [])[0]:
                if ready == session:
                    sys.exit()
                elif ready == listener.fileno():
                    command, _ = listener.accept()
                    files, asked = _read(command)
                    process = os.fork()
                    if process == 0:
                        for other in commands.values():
                            other.close()
                        for other in processes:
                            os.close(other)
                        command.close()
                        return _become(files, *asked)
                    for file in files:
                        os.close(file)
                    command.sendall(process.to_bytes(4, "big"))
                    processes[os.pidfd_open(process)] = process, command
                    commands[command.fileno()] = command
                elif ready in processes:
                    process, command = processes.pop(ready)
                    os.close(ready)
                    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                    if commands.pop(command.fileno(), None) is not None:
                        command.sendall(ended.to_bytes(4, "big", signed=True))
                    command.close()
                elif ready in commands:  # it was killed
                    command = commands.pop(ready)
                    for process, of in processes.values():
                        if of is command:
                            os.killpg(process, signal.SIGKILL)


def _keep_certificates() -> None:
    """Read what clients over HTTP trust once, which takes longer than most calls."""
    import httpcore2

    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
    for trusts in (True, False):
        httpcore2.default_ssl_context(_trust_env=trusts)


def _read(command: socket.socket) -> tuple[list[int], Any]:
    length, files, _, _ = socket.recv_fds(command, 4, MOST_FILES)
    with command.makefile("rb") as stream:
        return files, json.loads(stream.read(int.from_bytes(length, "big")))


def _become(
    files: list[int], numbers: list[int], words: list[str], folder: str, variables: dict[str, str]
) -> list[str]:
    """Be the process that was asked for; its words."""
    os.setsid()
    files = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 1 + max(numbers)) for file in files]
    for file, number in zip(files, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = variables.get("PYTHONPATH", "").split(os.pathsep)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    return words


def _run(words: list[str]) -> None:
    """Run `-m MODULE` or `-c CODE`, as Python does."""
    import runpy

    if words[0] == ANEW:
        del words[0]
        for name in [
            name for name in sys.modules if name.partition(".")[0] in ("mrtr_options", "tests")
        ]:
            del sys.modules[name]
    while words[0] not in ("-c", "-m"):  # flags of the interpreter
        del words[0]
    what, which, *rest = words
    if what == "-c":
        sys.argv = [what, *rest]
        main = type(sys)("__main__")
        sys.modules["__main__"] = main
        exec(compile(which, "<string>", "exec"), main.__dict__)
    else:
        sys.argv = [which, *rest]
        sys.modules.pop(which, None)  # a module that is there already cannot be run
        runpy.run_module(which, run_name="__main__", alter_sys=True)


def _end(run: Callable[[list[str]], None], words: list[str]) -> None:
    """Run, and end as Python does, but leave all objects where they are: freeing them takes long."""
    status: object = None
    try:
        run(words)
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    if sys.argv[0] == __file__ and not __package__:
        status = _command(sys.argv[1], sys.argv[2:])
        if status < 0:
            if status != -signal.SIGKILL:
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)
    _end(_run, _serve(sys.argv[1], int(sys.argv[2])))
