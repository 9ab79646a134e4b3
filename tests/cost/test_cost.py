"""Tests of the cost review: it times what it names, and its tables and notes show the figures.

No test asserts a time: figures are either counted, or made up.
"""

import gc
import multiprocessing
from collections.abc import Callable, Generator, Iterable
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import AsyncMock, Mock

import anyio
import mcp_types as types
import pytest
from mcp import Client
from rich.progress import Progress

from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world import temporal
from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.server import TOOL
from scoreboard.cost import __main__ as command
from scoreboard.cost import bounds, calls, engines, guard, http, named, parked, questions, report
from scoreboard.cost import measure as measuring
from scoreboard.cost.lines import count_again, count_lines
from scoreboard.cost.questions import WAYS
from scoreboard.cost.report import BY_HAND, DEFAULT, FLOOR, SHARED, Spread
from scoreboard.cost.timing import in_turns, ratio, spread
from tests.bounds import SECONDS
from tests.sending import text_of

pytestmark = pytest.mark.slow


FEW: dict[ModuleType, dict[str, object]] = {
    calls: {"CALLS": 1, "TURNS": 2, "SLOW_CALLS": 1, "SLOW_TURNS": 2},
    guard: {"TURNS": 2},
    named: {"TURNS": 2, "CALLS": 1, "KEPT": 20},
    bounds: {"HTTP_TURNS": 2},
    questions: {"TURNS": 2},
    http: {"CALLERS": (1, 3), "TURNS": 2, "CALLS": 4},
    parked: {"IN_MEMORY": 20, "ON_DISK": 20},
    engines: {"TURNS": 2, "CALLS": 1, "AT_ONCE": (1, 4)},
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


@pytest.fixture
def nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None]:
    """Check that the processes of a test leave no temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    assert not [*tmp_path.iterdir()]


@pytest.mark.evidence("how costs are measured")
@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_is_left")
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


def test_lines_are_counted_again_whenever_times_were_measured() -> None:
    old = report.read().model_copy(update={"lines": []})
    assert count_again(old).lines == count_lines(list(all_options().values()))


MEASURED = ("H", "L", "F+guard+call-key")


@pytest.mark.evidence("how costs are measured")
def test_every_part_is_measured_for_each_of_its_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "subjects", lambda: [subject_named(each) for each in MEASURED])
    monkeypatch.setattr(measuring, "_postgres", nullcontext)
    *_, found = measuring.measure(Progress(disable=True), measuring.PARTS, measuring.NOTHING)
    assert names(found.calls) == [FLOOR, SHARED, *MEASURED, DEFAULT]
    assert names(found.questions) == [*WAYS]
    served = product((1, 3), (FLOOR, "H", "F+guard+call-key", DEFAULT))
    assert [(each.callers, each.subject) for each in found.http] == [*served]
    assert [each.store for each in found.guards] == ["SQLite"]
    frame, task, row = found.parked
    assert names(found.parked) == ["H", "task", "L"]
    assert frame.bytes > task.bytes > 0
    assert row.bytes > 0
    assert frame.ended_bytes is None
    on_engines = dict.fromkeys(each.engine for each in found.rounds)
    assert ("Temporal, 3 workers" in on_engines) == temporal.installed()
    assert [(each.engine, each.callers, each.subject) for each in found.rounds] == [
        *product(on_engines, (1, 4), (BY_HAND, "L"))
    ]
    for each in (found.calls[0], found.http[0], found.rounds[0]):
        assert each.ratio == Spread(median=1, low=1, high=1)
    assert not multiprocessing.active_children()


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


def test_a_part_is_kept_when_it_is_measured_though_a_later_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "cost.json"
    monkeypatch.setattr(command, "FILE", kept)
    with pytest.raises(SystemExit, match="2"):
        command.main(["--only", "calls"])
    before = report.read()
    KeptFile(kept, report.Report).write(before)
    monkeypatch.setattr(measuring, "_left_out", Mock(return_value=[]))
    monkeypatch.setattr(measuring, "_postgres", Mock(return_value=nullcontext()))
    monkeypatch.setattr(measuring, "time_calls", AsyncMock(return_value=before.calls[:1]))
    monkeypatch.setattr(measuring, "measure_parked", AsyncMock(side_effect=RuntimeError("full")))
    with pytest.raises(RuntimeError, match="full"):
        command.main(["--only", "calls", "--only", "parked"])
    assert report.read(kept) == before.model_copy(update={"calls": before.calls[:1]})


@pytest.mark.parametrize(
    "case",
    [
        ([], [], "Temporal, 3"),
        (["--json"], [], '"calls"'),
        ([], ["PostgreSQL: pip install it"], "not measured: PostgreSQL"),
    ],
)
def test_the_command_prints_what_it_measured_and_keeps_it_if_nothing_was_left_out(
    case: tuple[list[str], list[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags, left_out, shows = case
    found = report.read().model_copy(update={"left_out": left_out})
    file = tmp_path / "cost.json"
    monkeypatch.setattr(command, "FILE", file)
    monkeypatch.setattr(command, "measure", Mock(return_value=[found]))
    assert command.main(flags) == 0
    said = capsys.readouterr()
    assert shows in said.out + said.err
    assert file.exists() != bool(left_out)
    assert left_out or report.read(file) == found
