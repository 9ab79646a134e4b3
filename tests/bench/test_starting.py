"""A process that was started ends for sure."""

import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from mrtr_options.review.bench import starting
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow


@contextmanager
def pipe() -> Generator[tuple[Connection, Connection]]:
    """Both ends of a pipe; the first one is at its end when no process holds the second."""
    ours, theirs = Pipe(duplex=False)
    with ours, theirs:
        yield ours, theirs


def heard(ours: Connection) -> object:
    """What a process says, in time; EOFError where all are gone."""
    assert ours.poll(SECONDS), "nothing is said, and processes live"
    return ours.recv()


def resist(says: Connection) -> None:
    """Ignore signals, have another process, and leave no thread a turn."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        signal.pause()
    says.send("resists")
    re.match("(a+)+$", "a" * 64 + "b")


def be_a_bench(says: Connection, told_to_die: Connection) -> None:
    """Start one that resists, and die when told to."""
    starting.start(resist, says)
    told_to_die.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def end_in_a_session_of_its_own(says: Connection) -> None:
    """Say whether this is one, and whether SIGINT is blocked; end with a status."""
    says.send(
        (os.getsid(0) == os.getpid(), signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
    )
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
