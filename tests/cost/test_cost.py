"""Tests of the cost review: it times what it names, and its tables and notes show the figures.

No test asserts a time: figures are either counted, or made up.
"""

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import anyio
import mcp_types as types
import pytest
from mcp import Client

from documents.parts import COSTS
from mrtr_options.review.bench import temporal
from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.tool.catalogue import all_options, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.sizes import stand_ins
from scoreboard.cost import __main__ as command
from scoreboard.cost import bounds, calls, engines, guard, http, named, parked, report
from scoreboard.cost.lines import count_again, count_lines
from scoreboard.cost.questions import WAYS
from scoreboard.cost.report import BY_HAND, DEFAULT, ENGINES_HEAD, FLOOR, SHARED, Spread
from scoreboard.cost.timing import in_turns, ratio, spread
from tests.bounds import SECONDS
from tests.sending import text_of

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
@pytest.mark.parametrize("way", WAYS)
async def test_each_question_of_the_generated_tool_names_the_answer_before_it(way: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": f"no {len(asked)}"})

    with anyio.fail_after(SECONDS):
        async with Client(
            WAYS[way](3), mode=MODES["modern"], elicitation_callback=answer
        ) as client:
            result = await client.call_tool(TOOL)
    assert text_of(result) == "no 1 no 2 no 3"
    assert asked == ["Question 1?", "Question 2, after 'no 1'?", "Question 3, after 'no 2'?"]


@pytest.mark.anyio
async def test_options_and_the_guard_are_timed_beside_the_floor() -> None:
    with anyio.fail_after(SECONDS):
        timed = await calls.time_calls(
            [subject_named("L"), subject_named("F+guard+call-key")], lambda: None
        )
        guards = await guard.time_guards(None, lambda: None)
    assert names(timed) == [FLOOR, SHARED, "L", "F+guard+call-key", DEFAULT]
    assert timed[0].ratio == Spread(median=1, low=1, high=1)
    assert [each.store for each in guards] == ["SQLite"]


@pytest.mark.evidence("how costs are measured")
@pytest.mark.anyio
async def test_calls_over_http_are_timed_for_each_number_of_callers() -> None:
    subjects = [subject_named("H"), subject_named("F+guard+call-key")]
    with anyio.fail_after(SECONDS):
        loads = await http.time_http(subjects, lambda: None)
    every = (FLOOR, "H", "F+guard+call-key", DEFAULT)
    assert [(each.callers, each.subject) for each in loads] == [*product((1, 3), every)]
    assert not multiprocessing.active_children()


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
    shown = COSTS.parts["costs"](old) or ""
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


def test_lines_are_counted_from_the_files() -> None:
    found = {each.subject: each for each in count_lines(list(all_options().values()))}
    of_e = {path.stem for path in stand_ins(option_named("E").source)}
    assert of_e == {
        "capabilities",
        "current_request",
        "handler",
        "keys",
        "questions",
        "reasons",
        "writing",
    }
    assert {path.stem for path in stand_ins(option_named("H").source)} >= {
        "questions",
        "continuations",
        "frame",
    }
    assert {path.stem for path in stand_ins(option_named("L").source)} >= {
        "engine",
        "embedded",
        "fleet",
    }
    assert found["E"].author > found["H"].author
    assert found["K"].sdk > found["L"].sdk > found["F"].sdk


def test_the_table_of_engines_has_each_tool_on_each_and_no_ratio_to_a_wait_for_an_interval() -> (
    None
):
    rows = report.engines_table(report.read())
    names = ["SQLite", "PostgreSQL", "Temporal", f"Temporal, {engines.WORKERS} workers"]
    assert [row[:2] for row in rows] == [*product(names, ("by hand", "K", "L"))]
    assert {len(row) for row in rows} == {len(ENGINES_HEAD)}
    assert {row[0] for row in rows if not row[4]} == {"SQLite"}


@pytest.mark.parametrize(
    ("flags", "shows"), [([], ("bare task", "Temporal, 3")), (["--json"], ('"calls"',))]
)
def test_the_command_prints_and_keeps_what_it_measured(
    flags: list[str],
    shows: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = report.read()
    monkeypatch.setattr(command, "FILE", tmp_path / "cost.json")
    monkeypatch.setattr(command, "measure", Mock(return_value=kept))
    assert command.main(flags) == 0
    said = capsys.readouterr().out
    assert all(each in said for each in shows)
    assert max(map(len, said.splitlines())) <= 100 or flags
    assert report.read(tmp_path / "cost.json") == kept


def test_a_run_that_left_something_out_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report.read().model_copy(update={"left_out": ["PostgreSQL: pip install it"]})
    monkeypatch.setattr(command, "FILE", tmp_path / "cost.json")
    monkeypatch.setattr(command, "measure", Mock(return_value=found))
    assert command.main([]) == 0
    assert "not measured: PostgreSQL" in capsys.readouterr().err
    assert not (tmp_path / "cost.json").exists()
