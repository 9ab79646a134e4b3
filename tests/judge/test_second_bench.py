"""Tests of the second bench: a process makes runs, and the first bench takes them by number."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.deployments.children import CannotStart
from mrtr_options.review.bench.deployments.memory import Memory
from mrtr_options.review.bench.history import Effect, History
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.check import review as review_module
from mrtr_options.review.check import second_bench as module
from mrtr_options.review.check.breaches import Breach, Made
from mrtr_options.review.check.cases import systematic
from mrtr_options.review.check.plan import Extent, Pace, Plan, Proposal, requests_of
from mrtr_options.review.check.report import Report
from mrtr_options.review.check.review import NOBODY, Review
from mrtr_options.review.check.second_bench import SecondBench, second_bench
from mrtr_options.review.explore import Play
from mrtr_options.review.judge.contract.allowed import ROOM
from mrtr_options.tool.catalogue import all_options, option_at
from tests.bounds import SECONDS
from tests.judge.test_breaches import ROUNDED_UP, slipped

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

CASES = {case.name: case for case in systematic()}
TOKYO = named("clean-tokyo").on_one()
SPRINGFIELD = named("clean-springfield").on_one()
F = subject_named("F")


def places_of(history: History) -> set[str]:
    """Return the places that a run has effects for."""
    subjects = [each.effect.subject for each in history.events if isinstance(each, Effect)]
    return {place for place in ("Tokyo", "Springfield") for each in subjects if place in each}


async def test_runs_are_made_ahead_and_each_is_that_of_its_scenario() -> None:
    scenarios = [CASES["every-place"], TOKYO, SPRINGFIELD]  # the first fills a pipe
    with anyio.fail_after(SECONDS):
        async with second_bench(F, SECONDS, scenarios) as bench:
            taken = [await bench.take(scenario) for scenario in reversed(scenarios)]
    assert [id(history.scenario) for history in taken] == [id(each) for each in reversed(scenarios)]
    assert [places_of(history) for history in taken[:2]] == [{"Springfield"}, {"Tokyo"}]


async def test_a_scenario_that_is_equal_and_not_the_same_is_not_of_the_second_bench() -> None:
    bench = SecondBench([TOKYO])
    assert bench.makes(TOKYO)
    assert not bench.makes(replace(TOKYO))


async def test_a_file_that_does_not_start_there_is_refused_where_its_run_is_taken(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise ValueError('not today')\n", encoding="utf-8")
    with pytest.raises(CannotStart) as refused:
        async with second_bench(Subject(option_at(path)), SECONDS, [TOKYO]) as bench:
            await bench.take(TOKYO)
    assert "not today" in refused.value.details


def die(*_: object) -> None:
    """End the process as if the system had killed it."""
    os._exit(1)


async def test_a_second_bench_that_dies_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_make_runs", die)
    with anyio.fail_after(SECONDS), pytest.raises(UsageError) as refused:
        async with second_bench(F, SECONDS, [TOKYO, SPRINGFIELD]) as bench:
            await bench.take(SPRINGFIELD)
    assert str(refused.value) == (
        "a process that makes runs of the review has ended; check the file again"
    )


@contextmanager
def holders(fifo: Path) -> Generator[int]:
    """Open a pipe by its path: its end reads EOF as soon as no process holds it for writing."""
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_no_server_of_the_second_bench_outlives_it(
    is_cancelled: bool, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    path = tmp_path / "holds.py"
    path.write_text(f"{all_options()['F'].source}\nheld = open({str(fifo)!r}, 'w')\n", "utf-8")
    subject = Subject(option_at(path))
    with anyio.fail_after(SECONDS), holders(fifo) as reader:
        with anyio.CancelScope() as scope:
            async with second_bench(subject, SECONDS, [TOKYO, CASES["every-place"]]) as bench:
                await bench.take(TOKYO)
                with pytest.raises(BlockingIOError):
                    os.read(reader, 1)  # the servers hold it
                if is_cancelled:
                    scope.cancel()
                    await bench.take(CASES["every-place"])
        await anyio.wait_readable(reader)
        assert os.read(reader, 1) == b""


def result_of(history: History) -> Future[module.Result]:
    """Return the result of a run that a second bench has made."""
    found = Future[module.Result]()
    found.set_result((history, []))
    return found


@pytest.mark.parametrize("is_second", [False, True])
async def test_a_breach_needs_only_earlier_runs_on_its_own_servers(
    is_second: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = slipped(ROUNDED_UP, tmp_path)
    breaks = CASES["forks"]
    there = [SPRINGFIELD, breaks] if is_second else [SPRINGFIELD]
    needed: list[list[Scenario]] = []

    async def as_it_is(play: Play, breach: Breach, *_: object, **__: object) -> Breach:
        return breach

    async def on_its_own(
        play: Play, breach: Breach, whole: Breach, earlier: Sequence[Made], *_: object
    ) -> Breach:
        needed.append([made.scenario for made in earlier])
        return breach

    monkeypatch.setattr(review_module, "smallest", as_it_is)
    monkeypatch.setattr(review_module, "on_its_own", on_its_own)
    proposal = Proposal(subject, fresh=lambda: nullcontext(Memory()))
    review = Review(proposal, Memory(), Extent(only=("forks",)), Report("a file"), NOBODY)
    results = [result_of(await run(subject, scenario)) for scenario in there]
    review.second = SecondBench(there, results)
    quick = [TOKYO, SPRINGFIELD, breaks]
    await review.make_runs(Plan([], quick, [], [], [], [], Pace()))
    assert needed
    assert needed[0] == [SPRINGFIELD if is_second else TOKYO, breaks]


def test_both_benches_have_about_as_many_requests_and_the_crowd_is_the_first_benchs() -> None:
    cases = list(CASES.values())
    quick = cases[: list(CASES).index("crowd")]
    schedules = [each.modern for each in SCHEDULES.values() if each.modern is not None]
    plan = Plan([], quick, schedules, cases[len(quick) :], [TOKYO], [SPRINGFIELD], Pace())
    second = plan.second_part
    mine = {id(scenario) for scenario in second}
    first = [each for each in (*quick, *schedules, *plan.long) if id(each) not in mine]
    assert all(len(each.callers) < ROOM for each in second)
    assert second[-2:] == [TOKYO, SPRINGFIELD]
    requests = [sum(requests_of(each.script) for each in part) for part in (first, second)]
    assert 0.4 < requests[0] / sum(requests) < 0.6
