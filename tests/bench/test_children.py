"""Tests of a stranger's file in processes of its own, which can be stopped, aged, made to fail."""

import json
import re
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

import anyio
import mcp_types as types
import pytest

from mrtr_options.demo.diff import written
from mrtr_options.review.bench.deployments import child_process
from mrtr_options.review.bench.deployments.child_process import Child
from mrtr_options.review.bench.deployments.children import (
    CannotStart,
    Children,
)
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Crashed
from mrtr_options.review.bench.messages import HUNG, LOST, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.steps import Send
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.judge.observation import Observation, observe
from mrtr_options.tool.catalogue import all_options, option_at
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

E = all_options()["E"].source
FIRST = "    location = location_of(params)\n"
BILL = "    await desk.bill(place)\n"
ANY = Subject(all_options()["E"])
"""A subject to name the runs by; the processes serve the test's file in any case."""


CALL = named("clean-tokyo")
"""What a test that sends its own requests names as its run."""


@asynccontextmanager
async def children(folder: Path, *, source: str = E) -> AsyncGenerator[Children]:
    """Run two processes that serve a file with this text."""
    file = folder / "stranger.py"
    file.write_text(source, encoding="utf-8")
    shared = folder / "shared"
    shared.mkdir()
    with anyio.fail_after(2 * SECONDS):
        async with Children(option_at(file), shared, hang_seconds=SECONDS).running() as found:
            yield found


def inserted(where: str, line: str) -> str:
    assert where in E
    return E.replace(where, f"    {line}\n{where}")


async def played(found: Children, slug: str, instances: int = 1) -> Observation:
    scenario = named(slug) if instances == 2 else named(slug).on_one()
    return observe(await run(ANY, scenario, found))


async def test_the_same_processes_serve_many_runs_whatever_they_print_and_each_sees_its_own_effects(
    tmp_path: Path,
) -> None:
    source = inserted(FIRST, "print('x' * 1_000_000)") + "\nprint('hello' * 100_000)\n"
    async with children(tmp_path, source=source) as found:
        pids = [found.child(place).process.pid for place in range(2)]
        seen = [await played(found, "clean-springfield") for _ in range(3)]
        assert [found.child(place).process.pid for place in range(2)] == pids
    clean = ("completed", {"audit": 3, "bill": 1})
    assert [(each.outcome, each.effects) for each in seen] == [clean] * 3


CLOCKS = """
import asyncio, json, sqlite3, time, uuid
from datetime import UTC, datetime
from sqlite3 import dbapi2
from time import time as by_name

class Mine(sqlite3.Connection):
    pass

def of_database(connect=sqlite3.connect, **named):
    return connect(":memory:", **named).execute("SELECT unixepoch()").fetchone()[0]

def of_default(read=time.time):
    return read()

def clocks():
    now = {
        "time": time.time(),
        "by name": by_name(),
        "as a default": of_default(),
        "clock_gettime": time.clock_gettime(time.CLOCK_REALTIME),
        "datetime": datetime.now(UTC).timestamp(),
        "uuid1": (uuid.uuid1().time - 0x01B21DD213814000) / 1e7,
        "connect": of_database(),
        "dbapi2": of_database(dbapi2.connect),
        "Connection": of_database(sqlite3.Connection),
        "a connection of one's own": of_database(factory=Mine),
        "monotonic": time.monotonic(),
        "loop": asyncio.get_running_loop().time(),
    }
    steady = {"perf_counter": time.perf_counter()}
    return json.dumps([now, steady])
"""

DAYS = 5 * 24 * 60 * 60.0


async def test_time_passes_in_each_process_also_in_one_that_starts_later(tmp_path: Path) -> None:
    source = inserted(FIRST, "return text(clocks())") + CLOCKS
    async with children(tmp_path, source=source) as found, found.started(ANY, CALL) as deployment:
        before = [await deployment.send(place, Request("Tokyo")) for place in range(2)]
        await deployment.wait(DAYS - 1)
        await deployment.wait(1)
        after = [await deployment.send(place, Request("Tokyo")) for place in range(2)]
        await deployment.crash(0)
        after.append(await deployment.send(0, Request("Tokyo")))
        await deployment.restart("same")
        after.append(await deployment.send(1, Request("Tokyo")))
    for place, reply in zip((0, 1, 0, 1), after, strict=True):
        clocks = zip(*(json.loads(each.text or "") for each in (before[place], reply)), strict=True)
        now, steady = ({name: b[name] - a[name] for name in a} for a, b in clocks)
        assert {
            name: moved for name, moved in now.items() if not DAYS - 1 <= moved < 1.1 * DAYS
        } == {}
        assert now["time"] > DAYS  # time has gone on since
        assert {name: moved for name, moved in steady.items() if not 0 < moved < DAYS} == {}


@pytest.mark.parametrize(
    "line",
    [
        "[0 for _ in iter(int, 1)]",
        "await __import__('anyio').sleep_forever()",
        "await __import__('anyio').to_thread.run_sync("
        "lambda: __import__('threading').Event().wait())",
        "__import__('re').match('(a+)+$', 'a' * 64 + 'b')",
    ],
)
async def test_a_request_that_hangs_names_the_authors_line_and_the_next_is_answered(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "match" in line:  # it holds the GIL, so no thread can report the line; give up soon
        monkeypatch.setattr("mrtr_options.review.bench.deployments.child_process.WORD_SECONDS", 0.5)
    source = inserted(FIRST, f"if params.arguments['location'] == 'Tokyo': {line}")
    async with children(tmp_path, source=source) as found, found.started(ANY, CALL) as deployment:
        await deployment.send(0, Request("Springfield"))  # a first request takes longer
        deployment.hang_seconds = found.hang_seconds = 0.5
        hung = await deployment.send(0, Request("Tokyo"))
        deployment.hang_seconds = found.hang_seconds = SECONDS
        after = await deployment.send(0, Request("Springfield"))
    number = source[: source.index("if params.arguments")].count("\n") + 1
    assert hung.nothing == HUNG
    assert f"line {number}, in " in (hung.message or "")
    assert line in (hung.message or "")
    assert after.questions == {"place": "Which Springfield?"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("__import__('os')._exit(3)", "the process ended with exit code 3"),
        ("__import__('os').abort()", "the process was killed by SIGABRT"),
    ],
)
async def test_a_process_that_ends_is_recorded_and_replaced(
    line: str, why: str, tmp_path: Path
) -> None:
    source = inserted(FIRST, f"if params.arguments['location'] == 'Tokyo': {line}")
    async with children(tmp_path, source=source) as found, found.started(ANY, CALL) as deployment:
        lost = await deployment.send(0, Request("Tokyo"))
        after = await deployment.send(0, Request("Springfield"))
    assert lost.nothing == LOST or lost.code == types.INTERNAL_ERROR
    events = deployment.recording.events
    assert [event for event in events if isinstance(event, Crashed)] == [Crashed(0, None, why)]
    assert after.questions == {"place": "Which Springfield?"}


@pytest.mark.parametrize(
    ("source", "reason", "details"),
    [
        ("def f(:\n", "stranger.py does not load", "line 1\n    def f(:\n"),
        ("x = 1\n", "stranger.py has no `server`", ""),
        ("raise SystemExit(3)\n", "stranger.py does not load", "line 1, in <module>\n"),
        ("import os; os._exit(3)\n", "ended with exit code 3 while stranger.py was loading", ""),
        (
            "import threading\nthreading.Event().wait()\n",
            "stranger.py is still loading after",
            "line ",
        ),
    ],
)
async def test_a_file_that_does_not_come_up_says_why(
    source: str, reason: str, details: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "still" in reason:
        monkeypatch.setattr("mrtr_options.review.bench.deployments.children.START_SECONDS", 2.0)
    with pytest.raises(CannotStart) as refused:
        async with children(tmp_path, source=source):
            pass
    assert reason in refused.value.reason
    assert details in refused.value.details
    assert "mrtr_options/" not in refused.value.details


@pytest.mark.parametrize(
    ("slug", "audits", "bills"),
    [("failed-bill", 4, 1), ("crash-after-effect", 4, 2), ("disconnect-after-effect", 4, 2)],
)
async def test_what_goes_wrong_at_an_effect_reaches_a_ledger_that_the_file_opens_itself(
    slug: str, audits: int, bills: int, tmp_path: Path
) -> None:
    async with children(tmp_path) as found:
        seen = await played(found, slug)
        clean = await played(found, "clean-springfield")
    assert seen.outcome == "completed"
    assert seen.effects == {"audit": audits, "bill": bills}
    assert clean.effects == {"audit": 3, "bill": 1}


TRIES = """

import os, sqlite3, anyio

async def effect(kind, subject):
    with open(os.path.dirname(__file__) + "/tries", "a") as tries:
        while True:
            try:
                with sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=0) as db:
                    values = [kind, subject, "now"]
                    db.execute("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)", values)
                    return tries.write(kind[0])
            except sqlite3.OperationalError:
                tries.write("x")
                await anyio.sleep(0.05)
"""


@pytest.mark.parametrize(("what", "tries"), [("once", "aaxb"), ("lock", "ax+ab")])
async def test_an_effect_that_fails_for_a_moment_happens_when_it_is_tried_again(
    what: Literal["once", "lock"], tries: str, tmp_path: Path
) -> None:
    steps = (Send("first"), Send("units", fault=f"{what}@bill"))
    source = E.replace("desk.audit(", 'effect("audit", ').replace("desk.bill(", 'effect("bill", ')
    async with children(tmp_path, source=source + TRIES) as found:
        history = await run(ANY, replace(calling("Tokyo", "one"), script=steps), found)
    assert observe(history).outcome == "completed"
    assert observe(history).effects == {"audit": 2, "bill": 1}
    assert re.fullmatch(tries, (tmp_path / "tries").read_text())


async def test_two_instances_share_no_module(tmp_path: Path) -> None:
    source = inserted(FIRST, "import json; json.seen = getattr(json, 'seen', 0) + 1")
    source = source.replace("return text(", "return text(str(json.seen) + ")
    async with children(tmp_path, source=source) as found:
        # The rounds go to 0, 1, 0 in turn, and an instance counts its own.
        seen = await played(found, "clean-springfield", 2)
    assert seen.text is not None
    assert seen.text.startswith("2Springfield")


async def test_a_process_that_crashes_at_an_effect_does_nothing_after_it(tmp_path: Path) -> None:
    """Find no result recorded by the guard, which the client would then get."""
    guarded = written("F+guard").source.replace(
        '"rounds.sqlite"', repr(str(tmp_path / "rounds.sqlite"))
    )
    async with children(tmp_path, source=guarded) as found:
        for _ in range(2):
            history = await run(ANY, calling().under(parse("crash@bill3")), found)
            assert anomalies_in(history) == {"charged, told of an error", "call lost"}


async def test_the_time_in_which_a_process_waits_for_a_processor_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [Counter(thread=nanoseconds) for nanoseconds in (0, 5 * 10**8, 5 * 10**8, 5 * 10**8)]

    def next_look(_: Child) -> Counter[str]:
        return looks.pop(0)

    async with children(tmp_path) as found:
        with monkeypatch.context() as patched:
            patched.setattr(Child, "_in_line", next_look)
            await found.child(0).wait_for(anyio.Event(), 0.02)
    assert looks == []


async def test_a_process_that_has_ended_stands_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "WORD_SECONDS", 0.02)
    async with children(tmp_path) as found:
        child = found.child(0)
        child.process.kill()
        child.process.join()
        assert await child.position_in(tmp_path / "stranger.py") == ""


async def test_processes_end_where_their_block_is_cancelled(tmp_path: Path) -> None:
    processes: list[ForkServerProcess] = []
    with anyio.CancelScope() as scope:
        async with children(tmp_path) as found:
            processes += [found.child(place).process for place in range(2)]
            scope.cancel()
            await anyio.sleep_forever()
    assert [each.exitcode for each in processes] == 2 * [-signal.SIGKILL]


async def test_a_server_whose_threads_are_in_line_has_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "PROCESSES", str(tmp_path))
    thread = tmp_path / "1" / "task" / "2"
    thread.mkdir(parents=True)
    (thread / "schedstat").write_text("0 0 0", encoding="utf-8")
    child = Child(Mock(pid=1), "", Mock(), Mock())
    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(child.wait_for, anyio.Event(), 0.2)
        await anyio.wait_all_tasks_blocked()
        (thread / "schedstat").write_text("0 1000000000 0", encoding="utf-8")
    assert anyio.current_time() - began > 0.2 + child_process.MOST_IN_LINE * 0.2
