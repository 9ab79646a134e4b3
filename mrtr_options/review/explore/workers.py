"""Explorations that share out their runs among processes.

Calls that differ in the client's policy alone are explored together, since a run in which the
policy never mattered is made once for all of them. First a process makes their runs without
faults, which tells the faults that can happen in them. Then each share, the sets of faults that
begin with some of those, is a task of its own. What a killed command has done is in a file, and the
next one goes on from there.

Knows the exploration of a call; nothing of how results are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mrtr_options.review.bench.faults import Faults, names_of
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.loop import swift
from mrtr_options.review.explore.counterexamples import (
    Explored,
    counterexamples,
    explore_clean,
    join,
)
from mrtr_options.review.explore.pool import do_task, pool
from mrtr_options.review.explore.stored import Share, StoredShares

Called = tuple[Subject, Scenario]
"""A subject that is called, and the scenario with its client."""

FIRST_FAULTS = {2: 6}
"""The number of first faults of a share, by the number of faults at a time; 1 for more."""

MOST_NAMED = 3
"""The number of its first faults that name a share at work."""


def explore_all(
    calls: Mapping[Called, int], keep_in: Path | None, on_share: Callable[[int, int, str], None]
) -> list[Explored]:
    """Explore calls. Return the results in their order."""
    place = {called: number for number, called in enumerate(calls)}
    done = explore_each(calls, keep_in, on_share)
    return sorted(done, key=lambda result: place[result.subject, result.scenario])


def explore_each(
    calls: Mapping[Called, int],
    keep_in: Path | None = None,
    on_share: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> Generator[Explored]:
    """Explore calls in as many processes as there are processors. Yield each when it is done.

    Args:
        calls: The calls, with the most faults of each.
        keep_in: A file that stores results, also those of an earlier command; None to store none.
        on_share: Called with how many shares are done, how many are known, and the last one's name.

    Raises:
        CannotResume: The file cannot be used.
    """
    stored = StoredShares(keep_in)
    with pool(__name__) as processes:
        work = _Work(calls, stored, processes)
        done = 0
        while work.begun:
            for future in wait(work.begun, return_when=FIRST_COMPLETED).done:
                task = work.finish(future)
                done += 1
                on_share(done, done + len(work.begun), task.name)
                for called in task.calls:
                    whole = work.join_parts(called)
                    if whole is not None:
                        yield whole


@dataclass(frozen=True)
class _Task:
    """A task of a process: the runs without faults of some calls, or a share of each.

    Attributes:
        calls: Calls that differ in the client's policy alone.
        shares: A share of each of them, with the same first faults; none for the runs without
            faults.
    """

    calls: list[Called]
    shares: list[Share]

    @property
    def name(self) -> str:
        """The subject, its clients, and some of the first faults."""
        subject, _ = self.calls[0]
        policies = " and ".join(scenario.setup.policy for _, scenario in self.calls)
        first = self.shares[0].first if self.shares else ()
        faults = names_of(first[:MOST_NAMED]) or "no fault"
        more = ", ..." if len(first) > MOST_NAMED else ""
        return f"{subject.title}, {policies}, {faults}{more}"


class _Work:
    """The progress of the explorations.

    Attributes:
        begun: The tasks that are not finished, by the future of their results.
    """

    def __init__(
        self, calls: Mapping[Called, int], stored: StoredShares, processes: ProcessPoolExecutor
    ) -> None:
        self._calls = calls
        self._stored = stored
        self._processes = processes
        self._parts: dict[Called, dict[Share, Explored | None]] = {}
        self.begun: dict[Future[Any], _Task] = {}
        for alike in _group_alike(calls):
            future = processes.submit(do_task, _explore_clean, alike)
            self.begun[future] = _Task(alike, [])

    def finish(self, future: Future[Any]) -> _Task:
        """Take the results of a task, and return the task."""
        task = self.begun.pop(future)
        if task.shares:
            self._store(task.shares, future.result())
        else:
            self._share_out(task.calls, future.result())
        return task

    def _share_out(self, calls: list[Called], results: list[tuple[Explored, Faults]]) -> None:
        """Take the runs without faults, and begin the shares that are not stored."""
        missing: dict[Faults, list[Share]] = {}
        for called, (clean, possible) in zip(calls, results, strict=True):
            parts: dict[Share, Explored | None] = {Share(*called, 0, ()): clean}
            for share in _shares_of(called, self._calls[called], possible):
                parts[share] = self._stored.load(share)
                if parts[share] is None:
                    missing.setdefault(share.first, []).append(share)
            self._parts[called] = parts
        for shares in missing.values():
            future = self._processes.submit(do_task, _explore_shares, shares)
            called = [(share.subject, share.scenario) for share in shares]
            self.begun[future] = _Task(called, shares)

    def _store(self, shares: list[Share], results: list[Explored]) -> None:
        for share, result in zip(shares, results, strict=True):
            self._parts[share.subject, share.scenario][share] = result
            self._stored.store(share, result)

    def join_parts(self, called: Called) -> Explored | None:
        """Return the result of a call; None if a part of it is not done."""
        parts = self._parts[called].values()
        done = [part for part in parts if part is not None]
        if len(done) < len(parts):
            return None
        return join(self._calls[called], done)


def _shares_of(called: Called, bound: int, first: Faults) -> list[Share]:
    if bound == 0:
        return []
    size = max(len(first), 1)
    if bound > 1:
        size = FIRST_FAULTS.get(bound, 1)
    starts = range(0, len(first), size)
    return [Share(*called, bound, first[start : start + size]) for start in starts]


def _group_alike(calls: Mapping[Called, int]) -> list[list[Called]]:
    """Group the calls that differ in the client's policy alone."""
    groups: dict[tuple[Called, int], list[Called]] = {}
    for (subject, scenario), bound in calls.items():
        of_any = replace(scenario, setup=replace(scenario.setup, policy="stops"))
        groups.setdefault(((subject, of_any), bound), []).append((subject, scenario))
    return [*groups.values()]


def _explore_clean(calls: Sequence[Called]) -> list[tuple[Explored, Faults]]:
    subject, _ = calls[0]
    options = options_of(subject)
    return [anyio.run(explore_clean, *called, backend_options=options) for called in calls]


def _explore_shares(shares: Sequence[Share]) -> list[Explored]:
    """Explore the shares of clients that differ in their policy alone.

    A run in which the policy never mattered is made once, and reused.
    """
    made: dict[Faults, History] = {}
    results: list[Explored] = []
    for share in shares:
        explore = partial(
            counterexamples,
            share.subject,
            share.scenario,
            share.bound,
            first=share.first,
            made=made,
        )
        results.append(anyio.run(explore, backend_options=options_of(share.subject)))
    return results


def options_of(subject: Subject) -> dict[str, Any]:
    """Return the options of the event loop: a swift one, unless the code may use threads."""
    option = subject.option
    return {} if option.extra is not None or option.is_foreign else swift()
