"""Tests that a started process always ends."""

import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from mrtr_options.review.bench.world import starting
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow


@contextmanager
def pipe() -> Generator[tuple[Connection, Connection]]:
    """Open a pipe; its first end reads EOF when no process holds the second end."""
    ours, theirs = Pipe(duplex=False)
    with ours, theirs:
        yield ours, theirs


def heard(ours: Connection) -> object:
    """Return the next message of a process; raise EOFError if all of them are gone."""
    assert ours.poll(SECONDS), "no message came, though a process still runs"
    return ours.recv()


def resist(says: Connection) -> None:
    """Ignore signals, start another process, and keep the GIL."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        signal.pause()
    says.send("resists")
    re.match("(a+)+$", "a" * 64 + "b")


def be_a_bench(says: Connection, told_to_die: Connection) -> None:
    """Start a process that resists, and die when told to."""
    starting.start(resist, says)
    told_to_die.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def end_in_a_session_of_its_own(says: Connection) -> None:
    """Report whether this process leads a session and blocks SIGINT; end with status 3."""
    leads_a_session = os.getsid(0) == os.getpid()
    blocks_sigint = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    says.send((leads_a_session, blocks_sigint))
    raise SystemExit(3)


def test_a_process_that_resists_is_killed_with_what_it_started() -> None:
    with pipe() as (ours, theirs):
        process = starting.start(resist, theirs)
        theirs.close()
        assert heard(ours) == "resists"
        assert starting.end(process) == -signal.SIGKILL
        with pytest.raises(EOFError):
            heard(ours)


def test_a_process_that_resists_ends_with_the_bench_that_is_killed() -> None:
    with pipe() as (ours, theirs), pipe() as (dies, tell):
        bench = starting.start(be_a_bench, theirs, dies)
        theirs.close()
        assert heard(ours) == "resists"
        tell.send("die")
        with pytest.raises(EOFError):
            heard(ours)
        starting.end(bench)


def test_ctrl_c_does_not_reach_a_process_and_its_status_is_told() -> None:
    with pipe() as (ours, theirs):
        process = starting.start(end_in_a_session_of_its_own, theirs)
        assert heard(ours) == (True, True)
        process.join(SECONDS)
        assert starting.end(process) == 3
