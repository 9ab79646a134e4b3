"""The workers of explorations: processes that share the runs, and a file that stores the results.

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
"""A subject that is called, and the scenario with its client."""

PACKAGE = Path(__file__).parents[2]

FIRST_FAULTS = {2: 6}
"""The number of first faults of a share, by the number of faults at a time; 1 for more."""

MOST_NAMED = 3
"""The number of its first faults that name a share at work."""


class CannotResume(UsageError):
    """A file that does not hold shares of this code. The text is one line that says what to do."""


@dataclass(frozen=True)
class Share:
    """A part of an exploration.

    Attributes:
        subject: The subject that is called.
        scenario: The call without faults.
        bound: The most faults at a time.
        first: The faults with which its sets begin.
    """

    subject: Subject
    scenario: Scenario
    bound: int
    first: Faults

    @property
    def name(self) -> str:
        """The key under which the result is stored."""
        option = self.subject.option
        about = Explored(self.subject, self.scenario, self.bound).as_json()
        files = option.source + next_versions(option)
        about["source"] = hashlib.sha256(files.encode()).hexdigest()
        return json.dumps([*about.values(), names_of(self.first)])


@dataclass
class Kept:
    """The stored results of shares, in a file.

    Args:
        path: The file; made if it is not there. None to store nothing.

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
        """Return the result of a share; None if it is not done."""
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
        """Store the result of a share."""
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
    """Return a digest that changes with any file of this package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def explored(
    calls: Mapping[Called, int],
    keep_in: Path | None = None,
    on_share: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> Generator[Explored]:
    """Explore several calls in as many processes as there are processors.

    Each call is yielded when it is done.

    Args:
        calls: The calls, with the most faults of each.
        keep_in: A file that stores results, also those of an earlier command; None to store none.
        on_share: Called with how many shares are done, how many are known, and the last one's name.

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
    """Explore calls. Return the results in their order, and the proofs about their subjects."""
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
    """The progress of the explorations.

    Attributes:
        begun: The tasks that have begun, each with a function that takes its result. The function
            returns the task's calls, and the faults with which their sets began.
    """

    def __init__(
        self, calls: Mapping[Called, int], kept: Kept, processes: ProcessPoolExecutor
    ) -> None:
        self._calls = calls
        self._kept = kept
        self._processes = processes
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
                found = self._kept.found(share)
                self._parts[called][share] = found
                if found is None:
                    together.setdefault(share.first, []).append(share)
        for shares in together.values():
            self.begun[self._processes.submit(at_work, _explore, shares)] = partial(
                self._keep, shares
            )
        return alike, ()

    def _keep(self, shares: list[Share], found: list[Explored]) -> tuple[list[Called], Faults]:
        """Take the results of shares, and store them."""
        alike = [(share.subject, share.scenario) for share in shares]
        for called, share, part in zip(alike, shares, found, strict=True):
            self._parts[called][share] = part
            self._kept.keep(share, part)
        return alike, shares[0].first

    def whole(self, called: Called) -> Explored | None:
        """Return the result of a call; None if a part of it is not done."""
        parts = [*self._parts[called].values()]
        done = [part for part in parts if part is not None]
        return joined(self._calls[called], done) if len(done) == len(parts) else None


def _name(alike: Sequence[Called], first: Faults) -> str:
    """Return the name of a task: the subject, its clients, and some of its first faults."""
    faults = names_of(first[:MOST_NAMED]) or "no fault"
    policies = " and ".join(scenario.setup.policy for _, scenario in alike)
    more = ", ..." if len(first) > MOST_NAMED else ""
    return f"{alike[0][0].name}, {policies}, {faults}{more}"


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


def _shares(called: Called, bound: int, first: Faults) -> list[Share]:
    if bound == 0:
        return []
    size = FIRST_FAULTS.get(bound, 1) if bound > 1 else max(len(first), 1)
    return [Share(*called, bound, first[at : at + size]) for at in range(0, len(first), size)]


def _alike(calls: Mapping[Called, int]) -> list[list[Called]]:
    """Group the calls that differ in the client's policy alone."""
    found: dict[tuple[Called, int], list[Called]] = {}
    for (subject, scenario), bound in calls.items():
        of_any = replace(scenario, setup=replace(scenario.setup, policy="stops"))
        found.setdefault(((subject, of_any), bound), []).append((subject, scenario))
    return [*found.values()]


def _begin(alike: list[Called]) -> list[tuple[Explored, Faults]]:
    options = options_of(alike[0][0])
    return [anyio.run(begin, *called, backend_options=options) for called in alike]


def _explore(shares: list[Share]) -> list[Explored]:
    """Explore the shares of clients that differ in their policy alone.

    A run in which the policy never mattered is made once, and reused.
    """
    made: dict[Faults, History] = {}
    found: list[Explored] = []
    for each in shares:
        some = partial(counterexamples, each.subject, each.scenario, each.bound, first=each.first)
        found.append(anyio.run(partial(some, made=made), backend_options=options_of(each.subject)))
    return found


def options_of(subject: Subject) -> dict[str, Any]:
    """Return the options of the event loop: a swift one, unless the code may use threads."""
    option = subject.option
    return {} if option.extra is not None or option.is_foreign else swift()
