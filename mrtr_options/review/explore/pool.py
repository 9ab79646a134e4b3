"""A pool of processes, one for each processor, that Ctrl-C ends cleanly."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from mrtr_options.review.bench.world.starting import context, end_with_the_bench

T = TypeVar("T")


@contextmanager
def pool(module: str) -> Generator[ProcessPoolExecutor]:
    """Start as many processes as there are processors, all of which have imported a module.

    They end with this one, and begin nothing after the block.
    """
    with ProcessPoolExecutor(_processors(), context(module), _begin_process) as processes:
        with _interrupted_later():
            processes.submit(int)
        try:
            yield processes
        finally:
            processes.shutdown(cancel_futures=True)


@contextmanager
def _interrupted_later() -> Generator[None]:
    """Delay Ctrl-C to the end of the block: processes that do not come up leave tracebacks."""
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if signals:
        raise KeyboardInterrupt


def _begin_process() -> None:
    end_with_the_bench()
    gc.freeze()  # the modules stay
    gc.set_threshold(20_000)  # a run leaves some hundreds of objects in cycles
    signal.signal(signal.SIGINT, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


_interrupted = threading.Event()


def _interrupt(*_: object) -> None:
    _interrupted.set()


def do_task(task: Callable[..., T], *args: Any) -> T:
    """Do a task in a process of the pool, until Ctrl-C, which reaches every process of a terminal.

    The pool by itself would go on with the tasks in its queue. A task that is interrupted closes
    all that it has open, and no task begins after it.

    Raises:
        KeyboardInterrupt: The process was told to end.
    """
    idle = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        return task(*args)
    except KeyboardInterrupt:
        _interrupted.set()
        raise
    finally:
        signal.signal(signal.SIGINT, idle)


def _processors() -> int | None:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
