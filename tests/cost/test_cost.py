"""Tests of the cost review: it times what it names, and its tables and notes show the figures.

No test asserts a time: figures are either counted, or made up.
"""

import gc
import multiprocessing
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world import temporal
from mrtr_options.tool.catalogue import all_options
from scoreboard.cost import __main__ as command
from scoreboard.cost import bounds, calls, engines, guard, http, named, parked, report
from scoreboard.cost.lines import count_again, count_lines
from scoreboard.cost.report import BY_HAND, Spread
from scoreboard.cost.timing import in_turns, ratio, spread
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow


FEW: dict[ModuleType, dict[str, object]] = {
    calls: {"CALLS": 1, "TURNS": 2, "SLOW_CALLS": 1, "SLOW_TURNS": 2},
    guard: {"TURNS": 2},
    named: {"TURNS": 2, "CALLS": 1, "KEPT": 20},
    bounds: {"HTTP_TURNS": 2},
    http: {"CALLERS": (1, 3), "TURNS": 2, "CALLS": 4},
    parked: {"IN_MEMORY": 20, "ON_DISK": 20},
    engines: {"TURNS": 2, "WARM_UP": 0, "CALLS": 1, "AT_ONCE": (1, 4)},
}


@pytest.fixture(autouse=True)
def as_small_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure few calls, and keep the garbage collector from scanning the imported modules."""
    for module, sizes in FEW.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)


def names(rows: Iterable[Any]) -> list[str]:
    return [row.subject for row in rows]


def test_a_ratio_is_of_two_readings_of_one_turn() -> None:
    assert ratio([2, 20, 200], [1, 10, 100]) == Spread(median=2, low=2, high=2)
    assert spread([1, 2, 3, 4, 5]) == Spread(median=3, low=2, high=4)


@pytest.mark.anyio
async def test_everything_is_timed_once_in_every_turn_and_the_first_turn_is_not_counted() -> None:
    order: list[str] = []

    def work(name: str) -> Callable[[], Any]:
        async def do() -> None:
            order.append(name)

        return do

    told: list[None] = []
    readings = await in_turns({name: work(name) for name in "abc"}, 9, lambda: told.append(None))
    turns = ["".join(order[start : start + 3]) for start in range(0, 30, 3)]
    assert {"".join(sorted(turn)) for turn in turns} == {"abc"}
    assert len(set(turns)) > 3  # the order varies, so none always follows the same other one
    assert {len(each) for each in readings.values()} == {9} == {len(told)}


@pytest.mark.anyio
async def test_a_repeat_of_a_named_call_takes_one_read_and_no_write() -> None:
    with anyio.fail_after(SECONDS):
        assert await named.statements_of_a_repeat() == (1, 0)


@pytest.mark.evidence("how costs are measured")
@pytest.mark.anyio
async def test_everything_with_a_bound_is_measured() -> None:
    told: list[None] = []
    with anyio.fail_after(2 * SECONDS):
        found = await bounds.measure_bounds(lambda: told.append(None))
    assert len(told) == bounds.steps()
    assert [each.what.split(",")[0] for each in found] == [
        "server in memory",
        "E in memory",
        "J in memory",
        "default over HTTP",
        "a repeat of a named call",
        "a first request beside 20 named calls",
    ]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("median", "code"), [(1.0, 0), (1.2, 1)])
def test_a_bound_that_is_not_kept_is_said_and_fails_the_command(
    median: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measured(progress: Callable[[], None]) -> list[report.Bound]:
        found = Spread(median=median, low=1, high=2)
        return [report.Bound(what="E in memory", found=found, at_most=1.1)]

    monkeypatch.setattr(command, "measure_bounds", measured)
    assert command.main(["--bounds"]) == code
    assert ("over" if code else "kept") in capsys.readouterr().out


def test_lines_in_the_documents_are_those_of_the_files_and_not_of_the_last_run() -> None:
    old = report.read().model_copy(update={"lines": []})
    now = count_lines(list(all_options().values()))
    assert count_again(old).lines == now
    (of_e,) = [each for each in now if each.subject == "E"]
    shown = report.with_notes(count_again(old))
    (row,) = [line for line in shown.splitlines() if line.startswith("| E |")]
    assert row.endswith(f"| {of_e.author} | {of_e.sdk} |")


@pytest.mark.evidence("how costs are measured")
@pytest.mark.anyio
async def test_an_open_call_of_h_takes_more_than_a_bare_task_and_one_of_l_is_on_disk() -> None:
    with anyio.fail_after(SECONDS):
        found = await parked.measure_parked([subject_named("F"), subject_named("L")])
    assert names(found) == ["H", "task", "L"]
    frame, task, row = found
    assert frame.bytes > task.bytes > 0
    assert row.bytes > 0
    assert frame.ended_bytes is None


@pytest.mark.evidence("how costs are measured")
@pytest.mark.parametrize(("name", "workers"), [("SQLite", 1), ("Temporal, 3 workers", 3)])
def test_rounds_of_l_are_timed_beside_the_tool_by_hand(name: str, workers: int) -> None:
    if workers > 1 and not temporal.installed():
        pytest.skip(temporal.MISSING)
    with engines.engines(None) as found:
        (engine,) = (each for each in found if each.name == name)
        assert engine.workers == workers
        timed = engines.time_rounds([subject_named("L")], engine, lambda: None)
    assert [(each.engine, each.callers, each.subject) for each in timed] == [
        (name, callers, subject) for callers in (1, 4) for subject in (BY_HAND, "L")
    ]
    assert timed[0].ratio == Spread(median=1, low=1, high=1)
    assert not multiprocessing.active_children()


def test_a_run_that_left_something_out_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report.read().model_copy(update={"left_out": ["PostgreSQL: pip install it"]})
    monkeypatch.setattr(command, "FILE", tmp_path / "cost.json")
    monkeypatch.setattr(command, "measure", Mock(return_value=found))
    assert command.main([]) == 0
    assert "not measured: PostgreSQL" in capsys.readouterr().err
    assert not (tmp_path / "cost.json").exists()
