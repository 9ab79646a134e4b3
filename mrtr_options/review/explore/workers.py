"""Explorations that share out their runs among processes.

Calls that differ in the client's policy alone are explored together, since a run is made once for
all clients that make the same choices in it, or end it earlier. First a process makes their runs
without faults, which tells the faults that can happen in them. Then each share, the sets of faults
that begin with some of those, is a task of its own. What a killed command has done is in a file,
and the next one goes on from there.

Knows the exploration of a call; nothing of how results are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mrtr_options.review.bench.faults import Faults, names_of
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.loop import swift
from mrtr_options.review.explore.counterexamples import (
    Explored,
    Made,
    counterexamples,
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
    calls: Mapping[Called, int],
    keep_in: Path | None,
    on_share: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> list[Explored]:
    """Explore calls in as many processes as there are processors. Return the results in order.

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
                shares = work.finish(future)
                done += 1
                on_share(done, done + len(work.begun), _name_of(shares))
    return [work.join_parts(called) for called in calls]


def _name_of(shares: Sequence[Share]) -> str:
    """Return the subject, its clients, and some of the first faults."""
    policies = " and ".join(share.scenario.setup.policy for share in shares)
    first = shares[0].first
    faults = names_of(first[:MOST_NAMED]) or "no fault"
    more = ", ..." if len(first) > MOST_NAMED else ""
    return f"{shares[0].subject.title}, {policies}, {faults}{more}"


class _Work:
    """The progress of the explorations.

    Attributes:
        begun: The shares of each task that is not finished, by the future of their results: shares
            with the same first faults, of calls that differ in the client's policy alone.
    """

    def __init__(
        self, calls: Mapping[Called, int], stored: StoredShares, processes: ProcessPoolExecutor
    ) -> None:
        self._calls = calls
        self._stored = stored
        self._processes = processes
        self._parts: dict[Called, dict[Share, Explored | None]] = {called: {} for called in calls}
        self.begun: dict[Future[Any], list[Share]] = {}
        for alike in _group_alike(calls):
            self._begin([Share(*called, 0) for called in alike])

    def _begin(self, shares: list[Share]) -> None:
        self.begun[self._processes.submit(do_task, _explore_shares, shares)] = shares

    def finish(self, future: Future[Any]) -> list[Share]:
        """Take the results of a task, and return its shares."""
        shares = self.begun.pop(future)
        results: list[Explored] = future.result()
        for share, result in zip(shares, results, strict=True):
            self._parts[share.called][share] = result
            if share.first:
                self._stored.store(share, result)
        if not shares[0].first:
            self._share_out(results)
        return shares

    def _share_out(self, clean: Sequence[Explored]) -> None:
        """Begin the shares that are not stored, of calls whose runs without faults are made."""
        missing: dict[Faults, list[Share]] = {}
        for each in clean:
            called = each.subject, each.scenario
            for share in _shares_of(called, self._calls[called], each.possible):
                stored = self._stored.load(share)
                self._parts[called][share] = stored
                if stored is None:
                    missing.setdefault(share.first, []).append(share)
        for shares in missing.values():
            self._begin(shares)

    def join_parts(self, called: Called) -> Explored:
        """Return the result of a call whose parts are done."""
        done = filter(None, self._parts[called].values())
        return join(self._calls[called], [*done])


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


def _explore_shares(shares: Sequence[Share]) -> list[Explored]:
    """Explore the shares of clients that differ in their policy alone.

    A run is made once for all clients that make the same choices in it, or end it earlier. So the
    client that ends first comes last.
    """
    made: Made = {}
    results: dict[Share, Explored] = {}
    for share in sorted(shares, key=lambda share: POLICIES[share.scenario.setup.policy].stops):
        explore = partial(
            counterexamples,
            share.subject,
            share.scenario,
            share.bound,
            first=share.first or None,
            made=made,
        )
        results[share] = anyio.run(explore, backend_options=options_of(share.subject))
    return [results[share] for share in shares]


def options_of(subject: Subject) -> dict[str, Any]:
    """Return the options of the event loop: a swift one, unless the code may use threads."""
    option = subject.option
    return {} if option.extra is not None or option.is_foreign else swift()
