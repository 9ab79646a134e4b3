"""Explorations in shares: several processes work on them, and a file keeps those that are done.

A share is a part of the sets of faults of one call: those that begin with certain faults. What a
killed command has done is in the file, and the next one goes on from there.

Knows the exploration of a call, and proofs; nothing of how results are shown.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from pydantic import BaseModel

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.faults import Faults, names_of, parse
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.loop import swift
from mrtr_options.review.bench.redeploys import next_versions
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.starting import context, end_with_the_bench
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore.counterexamples import Explored, begin, counterexamples, joined
from mrtr_options.review.explore.proof import Proof, prove

T = TypeVar("T")

Called = tuple[Subject, Scenario]
"""What is called, and where and by which client."""

PACKAGE = Path(__file__).parents[2]

FIRST_FAULTS = {2: 6}
"""How many faults a share has sets begin with, by how many there are at a time; 1 for more."""

MOST_NAMED = 3
"""How many of its first faults name a share at work."""


class CannotResume(UsageError):
    """A file is no file of shares of this code. The text is one line that says what to do."""


@dataclass(frozen=True)
class Share:
    """A part of an exploration.

    Attributes:
        subject: What is called.
        scenario: Where and by which client.
        bound: How many faults at most.
        first: Each of its sets begins with one of these.
    """

    subject: Subject
    scenario: Scenario
    bound: int
    first: Faults

    @property
    def name(self) -> str:
        """Names it in a file."""
        option = self.subject.option
        about = Explored(self.subject, self.scenario, self.bound).as_json()
        files = option.source + next_versions(option)
        about["source"] = hashlib.sha256(files.encode()).hexdigest()
        return json.dumps([*about.values(), names_of(self.first)])


@dataclass
class Kept:
    """The shares in a file.

    Args:
        path: The file; made if it is not there. None to keep nothing.

    Raises:
        CannotResume: It cannot be used.
    """

    path: Path | None
    done: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def __post_init__(self) -> None:
        if self.path is None:
            return
        try:
            with self.path.open("a+b") as file:
                file.seek(0)
                lines = file.read().splitlines(keepends=True)
                if not lines:
                    file.write(json.dumps({"code": _code()}).encode() + b"\n")
                    return
                if json.loads(lines[0])["code"] != _code():
                    raise CannotResume(f"{self.path} was started with other code; name a new file")
                if not lines[-1].endswith(b"\n"):  # half a line: the command was killed
                    file.truncate(sum(map(len, lines[:-1])))
                    lines.pop()
            self.done = {row["share"]: row for row in map(json.loads, lines[1:])}
        except OSError as error:
            raise CannotResume(f"cannot use {self.path}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError):
            raise CannotResume(
                f"{self.path} does not hold saved explorations; name a new file"
            ) from None

    def found(self, share: Share) -> Explored | None:
        """The result of a share; None if it is not done."""
        row = self.done.get(share.name)
        if row is None:
            return None
        return Explored(
            share.subject,
            share.scenario,
            share.bound,
            row["histories"],
            {name: [_faults(each) for each in sets] for name, sets in row["witnesses"].items()},
            {_faults(faults): what for faults, what in row["unclassified"].items()},
        )

    def keep(self, share: Share, found: Explored) -> None:
        """Write down the result of a share."""
        if self.path is None:
            return
        written = found.as_json()
        row = {"share": share.name} | {name: written[name] for name in ("histories", "witnesses")}
        row["unclassified"] = {names_of(at): what for at, what in found.unclassified.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _faults(text: str) -> Faults:
    return tuple(fault for name in text.split() for fault in parse(name))


@cache
def _code() -> str:
    """What changes with any file of this package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def explored(
    calls: Mapping[Called, int],
    keep_in: Path | None = None,
    on_share: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> Generator[Explored]:
    """Explore several calls in as many processes as there are processors; each is yielded when it
    is done.

    Args:
        calls: Which, and up to how many faults each.
        keep_in: A file for what is done, with what an earlier command has done; None for none.
        on_share: Told how many shares are done, of those that are known, and which was the last.

    Raises:
        CannotResume: The file cannot be used.
    """
    kept = Kept(keep_in)
    done = 0
    with pool(__name__) as processes:
        work = _Work(calls, kept, processes)
        while work.begun:
            for future in wait(work.begun, return_when=FIRST_COMPLETED).done:
                done += 1
                alike, first = work.begun.pop(future)(future.result())
                on_share(done, done + len(work.begun), _name(alike, first))
                yield from filter(None, map(work.whole, alike))


def results(
    calls: Mapping[Called, int], keep_in: Path | None, on_share: Callable[[int, int, str], None]
) -> tuple[list[Explored], dict[Subject, Proof]]:
    """As `explored`: what is found of calls, in their order, and what is proved of their
    subjects.
    """
    place = {called: number for number, called in enumerate(calls)}
    done: list[Explored] = []
    proofs: dict[Subject, Proof] = {}
    for found in explored(calls, keep_in, on_share):
        done.append(found)
        subject = found.subject
        if subject not in proofs and subject.option.extra is None and not subject.keyed:
            proofs[subject] = anyio.run(prove, subject)
    done.sort(key=lambda found: place[found.subject, found.scenario])
    return done, proofs


class _Work:
    """What is done of some explorations, and what has begun.

    Attributes:
        begun: What takes the result of each task, and says which calls it was of, and with which
            faults their sets began.
    """

    def __init__(
        self, calls: Mapping[Called, int], kept: Kept, processes: ProcessPoolExecutor
    ) -> None:
        self._calls, self._kept, self._processes = calls, kept, processes
        self._parts: dict[Called, dict[Share, Explored | None]] = {}
        self.begun: dict[Future[Any], Callable[[Any], tuple[list[Called], Faults]]] = {
            processes.submit(at_work, _begin, alike): partial(self._share_out, alike)
            for alike in _alike(calls)
        }

    def _share_out(
        self, alike: list[Called], begun: list[tuple[Explored, Faults]]
    ) -> tuple[list[Called], Faults]:
        """Take the clean calls, and begin the shares that the file does not have."""
        together: dict[Faults, list[Share]] = {}
        for called, (clean, possible) in zip(alike, begun, strict=True):
            self._parts[called] = {Share(*called, 0, ()): clean}
            for share in _shares(called, self._calls[called], possible):
                self._parts[called][share] = found = self._kept.found(share)
                if found is None:
                    together.setdefault(share.first, []).append(share)
        for shares in together.values():
            self.begun[self._processes.submit(at_work, _explore, shares)] = partial(
                self._keep, shares
            )
        return alike, ()

    def _keep(self, shares: list[Share], found: list[Explored]) -> tuple[list[Called], Faults]:
        """Take what was found, and write it down."""
        alike = [(share.subject, share.scenario) for share in shares]
        for called, share, part in zip(alike, shares, found, strict=True):
            self._parts[called][share] = part
            self._kept.keep(share, part)
        return alike, shares[0].first

    def whole(self, called: Called) -> Explored | None:
        """The result of a call; None if a part of it is not done."""
        parts = [*self._parts[called].values()]
        done = [part for part in parts if part is not None]
        return joined(self._calls[called], done) if len(done) == len(parts) else None


def _name(alike: Sequence[Called], first: Faults) -> str:
    """What a task is called: the subject, its clients, and some of the faults that sets began
    with.
    """
    faults = names_of(first[:MOST_NAMED]) or "no fault"
    policies = " and ".join(scenario.setup.policy for _, scenario in alike)
    return f"{alike[0][0].name}, {policies}, {faults}{', ...' if len(first) > MOST_NAMED else ''}"


@contextmanager
def pool(module: str) -> Generator[ProcessPoolExecutor]:
    """As many processes as there are processors, which all have a module imported. They end with
    this one, and begin nothing after the block.
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
    """Ctrl-C is taken at the end of the block: processes that do not come up leave tracebacks."""
    told: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if told:
        raise KeyboardInterrupt


def _begin_process() -> None:
    end_with_the_bench()
    gc.freeze()
    gc.set_threshold(20_000)  # a run leaves some hundreds of objects in cycles
    # A model has one schema, which each run would make again.
    schema = vars(BaseModel)["model_json_schema"].__func__
    setattr(BaseModel, schema.__name__, classmethod(lru_cache(maxsize=100)(schema)))
    signal.signal(signal.SIGINT, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


_interrupted = threading.Event()


def _interrupt(*_: object) -> None:
    _interrupted.set()


def at_work(task: Callable[..., T], *args: Any) -> T:
    """Do a task in a process of the pool, until Ctrl-C, which reaches every process of a terminal.

    The pool would have all done that is in its queue by then. A task that is interrupted closes
    what it has open, and none after it begins.

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
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _shares(called: Called, bound: int, first: Faults) -> list[Share]:
    if bound == 0:
        return []
    size = FIRST_FAULTS.get(bound, 1) if bound > 1 else max(len(first), 1)
    return [Share(*called, bound, first[at : at + size]) for at in range(0, len(first), size)]


def _alike(calls: Mapping[Called, int]) -> list[list[Called]]:
    """The calls, together those that differ in the client's policy alone."""
    found: dict[tuple[Called, int], list[Called]] = {}
    for (subject, scenario), bound in calls.items():
        of_any = replace(scenario, setup=replace(scenario.setup, policy="retry"))
        found.setdefault(((subject, of_any), bound), []).append((subject, scenario))
    return [*found.values()]


def _begin(alike: list[Called]) -> list[tuple[Explored, Faults]]:
    options = options_of(alike[0][0])
    return [anyio.run(begin, *called, backend_options=options) for called in alike]


def _explore(shares: list[Share]) -> list[Explored]:
    """Shares of clients that differ in their policy alone: a run to which that makes no difference
    is made once.
    """
    made: dict[Faults, History] = {}
    found: list[Explored] = []
    for each in shares:
        some = partial(counterexamples, each.subject, each.scenario, each.bound, first=each.first)
        found.append(anyio.run(partial(some, made=made), backend_options=options_of(each.subject)))
    return found


def options_of(subject: Subject) -> dict[str, Any]:
    """What the event loop is told. A durable engine and a stranger's code may work in threads."""
    option = subject.option
    return {} if option.extra is not None or option.is_foreign else swift()
