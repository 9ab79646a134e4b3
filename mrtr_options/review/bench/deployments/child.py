"""The code of the processes that `children` starts: each loads one file and serves it over HTTP.

Between the bench and an instance is one socket, with a line for each message. The bench sends
`stats`, `where`, or `wait` and the seconds that pass. The instance sends JSON: `up`, `failed` (its
file does not load), `raised` (an exception of the author's code), `passed` (the seconds by which
its clock went ahead), and the answers to requests.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import logging
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from sqlite3 import dbapi2
from types import CoroutineType, FrameType, GeneratorType
from typing import Any, Literal, NoReturn

import anyio

from mrtr_options.review.bench.client import principal_of
from mrtr_options.review.bench.faults.effects import SLOW_SECONDS
from mrtr_options.review.bench.world import clock
from mrtr_options.review.bench.world.ledger import DESTINATION_IS_DOWN
from mrtr_options.review.bench.world.ledger_file import DIES, ONCE, UNSURE, ends_process_after
from mrtr_options.sdk.protection import MIN_KEY_BYTES
from mrtr_options.sdk.serving import web_server
from mrtr_options.tool.catalogue import CannotLoad, load
from mrtr_options.tool.settings import DATABASE_VARIABLE, LEDGER_VARIABLE, Settings
from mrtr_options.tool.weather import Effect, SqliteLedger

MOST_LINES = 5
"""The most lines of a waiting server that are named."""

LONGEST_WAIT_SECONDS = 30 * 86_400
"""A time longer than any run waits."""

SLOW_BY_THE_CLOCK = 40.0
"""The duration of a slow effect by the clock of the instance, which runs ahead meanwhile."""

Line = tuple[int, str]
"""A line number of the author's file, and the name of its function."""


# --- the process --------------------------------------------------------------------------------


def run(
    file: Path,
    environment: dict[str, str],
    ahead: float,
    talk: socket.socket,
    output: Connection,
    listener: socket.socket,
) -> NoReturn:
    """Be an instance; a task for `starting`.

    Args:
        file: The author's.
        environment: Names its ledger, its keys and its database.
        ahead: The seconds by which its clock runs ahead.
        talk: The socket to the bench.
        output: The pipe for its output.
        listener: The socket that it serves on.
    """
    gc.freeze()  # a pass of the collector copies what this process shares with the fork server
    for standard in (1, 2):
        os.dup2(output.fileno(), standard)
    os.environ.update(environment)
    folder = str(Path(environment[LEDGER_VARIABLE]).parent)
    current = os.getcwd()
    absolute = [each or current for each in sys.path]
    sys.path[:] = [*absolute, folder]  # as in PATH
    # Else a store with a relative path would be the one that the author's server has.
    os.chdir(folder)
    status = 1
    try:
        _serve(file, listener, _Talk(talk), ahead)
        status = 0
    except SystemExit as error:
        if isinstance(error.code, int):
            status = error.code
        elif error.code is None:
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:  # threads of the author's may go on
        sys.stdout.flush()
        os._exit(status)


# --- one instance -------------------------------------------------------------------------------


class _Talk:
    """The socket to the bench, which threads share."""

    def __init__(self, bench: socket.socket) -> None:
        self._bench = bench
        self._one = threading.Lock()

    def say(self, what: str, value: Any) -> None:
        line = json.dumps({what: value}).encode() + b"\n"
        with self._one:
            self._bench.sendall(line)

    def questions(self) -> Iterator[str]:
        with self._bench.makefile(encoding="ascii") as lines:
            for line in lines:
                yield line.strip()


def _serve(file: Path, listener: socket.socket, talk: _Talk, ahead: float) -> None:
    let_pass = clock.start(ahead)
    faulthandler.register(signal.SIGUSR1)  # where the thread that answers `where` gets no turn
    loop: list[asyncio.AbstractEventLoop] = []

    def wait(seconds: float) -> None:
        let_pass(seconds)
        loop[0].call_soon_threadsafe(_nothing)  # it waits by the clock as it was

    def take_long() -> None:
        wait(SLOW_BY_THE_CLOCK)
        talk.say("passed", SLOW_BY_THE_CLOCK)

    threading.Thread(target=_answer, args=(talk, file, loop, wait), daemon=True).start()
    logging.basicConfig(handlers=[_Raised(talk, file)], force=True)
    sqlite3.Connection = dbapi2.Connection = FaultyConnection
    sqlite3.connect = dbapi2.connect = partial(sqlite3.connect, factory=FaultyConnection)
    _taking_long.append(take_long)
    ring = os.environ["MRTR_STATE_KEYS"]
    has_keys = len(ring) >= MIN_KEY_BYTES
    settings = Settings(
        _Ledger(os.environ[LEDGER_VARIABLE]),
        keys=[key.encode() for key in ring.split(",")] if has_keys else None,
        principal=principal_of,
        database=os.environ[DATABASE_VARIABLE],
    )
    try:
        server = load(file, settings)
    except CannotLoad as error:
        cause = error.__cause__
        lines = [] if cause is None else authors_traceback(cause, file)
        talk.say("failed", "".join(lines) if len(lines) > 1 else str(error))
        return

    async def serve() -> None:
        loop.append(asyncio.get_running_loop())
        talk.say("up", True)
        http = web_server(server, listener)
        http.config.timeout_keep_alive = LONGEST_WAIT_SECONDS  # else a wait would end connections
        await http.serve(sockets=[listener])

    anyio.run(serve)


class _Ledger(SqliteLedger):
    """A ledger that ends the process at the effect at which it is to crash.

    The bench watches the file, but may be late. It does this alone if the author's code opens the
    ledger by itself.
    """

    async def record(self, effect: Effect) -> None:
        await super().record(effect)
        if ends_process_after(self.path, effect.kind):
            os.kill(os.getpid(), signal.SIGKILL)


_seen: set[int] = set()
_taking_long: list[Callable[[], None]] = []
"""The function that lets the time of a slow effect pass by the instance's clock."""


def _once(unsure: list[int], number: int, seconds: float) -> None:
    if seconds == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    if number not in _seen:
        _seen.add(number)
        if seconds == UNSURE:
            unsure.append(number)
            return
        if not seconds:
            raise OSError(DESTINATION_IS_DOWN)
        if seconds == SLOW_SECONDS:
            _taking_long[0]()
        time.sleep(seconds)


class FaultyConnection(sqlite3.Connection):
    """A connection that reads the instance's clock and has the function `ONCE` of `ledger_file`.

    By that function the ledger's file makes one try of an effect fail, wait, or end the process.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._unsure: list[int] = []
        self.create_function(ONCE, 2, partial(_once, self._unsure))
        clock.move_sqlite(self)

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Run a statement, which may be a whole transaction or the end of one."""
        cursor = super().execute(*args)
        if self._unsure and not self.in_transaction:
            cursor.close()  # a statement that returns rows ends with its cursor
            self._fail_if_unsure()
        return cursor

    def commit(self) -> None:
        super().commit()
        self._fail_if_unsure()

    def __exit__(self, *error: Any) -> Literal[False]:
        super().__exit__(*error)
        if error[0] is None:
            self._fail_if_unsure()
        return False

    def _fail_if_unsure(self) -> None:
        """Report that a transaction failed which the database has committed."""
        if self._unsure:
            self._unsure.clear()
            raise sqlite3.OperationalError(DESTINATION_IS_DOWN)


class _Raised(logging.Handler):
    """A handler that reports each logged exception: the SDK logs those of the author's code."""

    def __init__(self, talk: _Talk, file: Path) -> None:
        super().__init__(logging.WARNING)
        self._talk = talk
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._talk.say("raised", "".join(authors_traceback(error, self._file)))


def authors_traceback(error: BaseException, file: Path) -> list[str]:
    """Return the lines of a traceback, with only the frames in the author's file or folder."""
    whole = traceback.TracebackException.from_exception(error)
    parts = set[int]()
    todo = [whole]
    while todo:
        part = todo.pop()
        if id(part) in parts:
            continue
        parts.add(id(part))
        ours = [frame for frame in part.stack if _is_authors(frame.filename, file)]
        part.stack = traceback.StackSummary.from_list(ours)
        todo += [each for each in (part.__cause__, part.__context__) if each is not None]
        todo += part.exceptions or []
    return list(whole.format())


def _is_authors(name: str, file: Path) -> bool:
    return Path(name) == file or Path(name).parent == file.parent


def _answer(
    talk: _Talk, file: Path, loop: list[asyncio.AbstractEventLoop], wait: Callable[[float], None]
) -> None:
    for asked in talk.questions():
        match asked.split():
            case ["stats"]:
                says: Any = _stats(loop[0])
            case ["wait", seconds]:
                says = wait(float(seconds))
            case _:
                says = _where(file)
        try:
            talk.say(asked, says)
        except OSError:
            break
    os.kill(os.getpid(), signal.SIGKILL)  # the bench is gone


def _nothing() -> None:
    return


def _stats(loop: asyncio.AbstractEventLoop) -> dict[str, int]:
    gc.collect()
    resident = Path("/proc/self/statm")
    pages = int(resident.read_text().split()[1]) if resident.exists() else 0
    handles = Path("/dev/fd")
    return {
        "tasks": len(asyncio.all_tasks(loop)),
        "threads": threading.active_count(),
        "files": sum(1 for _ in handles.iterdir()) if handles.exists() else 0,
        "bytes": pages * os.sysconf("SC_PAGE_SIZE"),
    }


def _where(file: Path) -> list[Line]:
    """Return the author's lines at which threads run and coroutines wait, the innermost of each."""
    own = threading.get_ident()
    stacks = [_outwards(frame) for thread, frame in sys._current_frames().items() if thread != own]  # pyright: ignore[reportPrivateUsage]
    # We cannot use asyncio's tasks: a task's awaitable does not expose the coroutine below it.
    waiting: list[Any] = gc.get_objects()
    kinds = (CoroutineType, GeneratorType)
    stacks += [list(_awaited(each)) for each in waiting if isinstance(each, kinds)]
    found = [_innermost(stack, file) for stack in stacks]
    return list(dict.fromkeys(line for line in found if line is not None))[:MOST_LINES]


def _outwards(frame: FrameType | None) -> list[FrameType]:
    """Return a thread's frames, the innermost last."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.insert(0, frame)
        frame = frame.f_back
    return frames


def _awaited(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a waiting coroutine or generator, the innermost last.

    Each waits for the next one.
    """
    while waiting is not None:
        kind = "cr" if hasattr(waiting, "cr_frame") else "gi"
        frame = getattr(waiting, f"{kind}_frame", None)
        if frame is None:
            return
        yield frame
        waiting = getattr(waiting, "cr_await" if kind == "cr" else "gi_yieldfrom")


def _innermost(stack: list[FrameType], file: Path) -> Line | None:
    for frame in reversed(stack):
        if Path(frame.f_code.co_filename) == file:
            return frame.f_lineno, frame.f_code.co_name
    return None
