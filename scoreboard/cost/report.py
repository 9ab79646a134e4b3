"""The figures of one run of `scoreboard.cost`, as tables for the terminal and the documents.

The figures of the last whole run are in docs/data/cost.json; `python -m documents --kept` writes
the
documents' tables from it. Knows nothing of how figures are measured, nor of how a table is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.terminal import markdown
from mrtr_options.tool import notation
from mrtr_options.tool.notation import in_text
from scoreboard import ROOT

FILE = ROOT / "docs" / "data" / "cost.json"
FLOOR = "floor"

SHARED = "server"
"""The floor's handler on the shared server.

Its cost above the floor is that of the argument check, the call's name and the signed state, which
every option has.
"""

DEFAULT = "default"
"""J's author code in the guard, with calls named by an argument; see `named`."""

BY_HAND = "by hand"
"""The tool by hand on the engine."""

QUESTIONS = 10
"""The number of questions of the longer call."""

CALLERS = (1, 16)
"""The numbers of callers at once over HTTP."""

AT_ONCE = (1, 4, 16, 64)
"""The numbers of callers at once on an engine."""


class Spread(BaseModel, frozen=True):
    """A figure that was measured several times.

    Attributes:
        median: The figure.
        low, high: The bounds of the middle half of the readings.
    """

    median: float
    low: float
    high: float


class Cost(BaseModel, frozen=True):
    """The cost of a call of one subject.

    Attributes:
        subject: The name of the subject, as in "F+guard", or of a baseline.
        ms: The processor time of a call in milliseconds, client and server together.
        ratio: The ratio to the floor's processor time.
    """

    subject: str
    ms: Spread
    ratio: Spread


class Load(Cost, frozen=True):
    """The cost of a call of one subject over HTTP; the processor time is the server's.

    Attributes:
        callers: The number of callers at once.
    """

    callers: int


class Parked(BaseModel, frozen=True):
    """The size of one open call.

    Attributes:
        subject: H, K, L, or "task": a bare asyncio task that waits, for a comparison with H.
        bytes: The bytes in memory by tracemalloc, or on disk.
        ended_bytes: The bytes of an ended call in a database; None without a database.
    """

    subject: str
    bytes: float
    ended_bytes: float | None = None


class Round(Cost, frozen=True):
    """The cost of a round of one subject on an engine.

    Attributes:
        subject: K, L, or `BY_HAND`.
        engine: The name of the engine, as in "SQLite".
        callers: The number of callers at once.
        ms: The client's wait for a round in milliseconds: half of a call with two rounds.
        cpu_ms: The processor time of a round in milliseconds, server and client together.
        ratio: The ratio of `ms` to that of `BY_HAND`. On SQLite `BY_HAND` waits until its engine
            polls for messages, once a second, so there the ratio shows a setting of the engine and
            no quality of the option.
    """

    engine: str
    callers: int
    cpu_ms: Spread

    @property
    def per_second(self) -> float:
        """The number of calls with two rounds that end in a second."""
        return self.callers / (2 * self.ms.median / 1000)


class Guard(BaseModel, frozen=True):
    """The cost of the guard.

    Attributes:
        store: "SQLite" or "PostgreSQL".
        added_ms: The milliseconds that it adds to a round with a state.
    """

    store: str
    added_ms: Spread


class Bound(BaseModel, frozen=True):
    """A figure and its upper bound.

    Attributes:
        what: The name of the figure, with its unit.
        found: The figure.
        at_most: The bound.
    """

    what: str
    found: Spread
    at_most: float


class Lines(BaseModel, frozen=True):
    """The size of one option.

    Attributes:
        subject: The letter of the option.
        author: The lines that the author types; see `author_code`.
        sdk: The lines of code in the stand-in and in the modules that it needs.
    """

    subject: str
    author: int
    sdk: int


class Report(BaseModel, frozen=True):
    """The figures of one run.

    Attributes:
        calls: One call with one question, in memory.
        questions: One call with `QUESTIONS` questions, in memory.
        http: Calls over HTTP.
        parked: Bytes of an open call.
        rounds: A round on an engine.
        guards: The costs of the single-use guard.
        lines: The sizes of the options.
        left_out: The figures that were not measured, one line each.
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
    """Return the report in a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is no report.
    """
    return KeptFile(path, Report).read()


# --- as one table -------------------------------------------------------------------------------

HEAD: tuple[str, ...] = (
    "",
    "one\nquestion",
    f"{QUESTIONS}\nquestions",
    "HTTP, 1\ncaller",
    "HTTP, 16\ncallers",
    "open call,\nbytes",
    "author\nlines",
    "SDK\nlines",
)
"""The columns. The second to the fifth are multiples of the floor."""


def table(report: Report) -> list[tuple[str, ...]]:
    """Return a row for each baseline and each subject.

    The cells are medians; a cell is blank if its figure does not apply.
    """
    ratios: list[tuple[int, Cost]] = [
        *((1, each) for each in report.calls),
        *((2, each) for each in report.questions),
        *((3 + CALLERS.index(each.callers), each) for each in report.http),
    ]
    cells = {(each.subject, HEAD[at]): f"{each.ratio.median:.2f}" for at, each in ratios}
    cells |= {(each.subject, HEAD[5]): f"{each.bytes:,.0f}" for each in report.parked}
    for each in report.lines:
        cells[each.subject, HEAD[6]] = str(each.author)
        cells[each.subject, HEAD[7]] = str(each.sdk)
    return [
        (
            NAMES.get(subject, in_text(subject)),
            *(cells.get((subject, column), "") for column in HEAD[1:]),
        )
        for subject in dict.fromkeys(subject for subject, _ in cells)
    ]


NAMES = {
    FLOOR: "floor",
    SHARED: "shared server",
    DEFAULT: f"default: {in_text(notation.DEFAULT)}",
    "task": "bare task",
}

ENGINES_HEAD: tuple[str, ...] = (
    "",
    "",
    "ms a\nround",
    "of the\nprocessor",
    "times\nby hand",
    *(f"calls/s,\n{callers} at once" for callers in AT_ONCE),
)
"""The columns of the table of engines."""


def engines_table(report: Report) -> list[tuple[str, ...]]:
    """Return a row for each engine and each tool on it.

    The cells are medians. The first figures are those of one caller.
    """
    found = {(each.engine, each.subject, each.callers): each for each in report.rounds}
    rows: list[tuple[str, ...]] = []
    for engine, subject in dict.fromkeys((each.engine, each.subject) for each in report.rounds):
        one, *more = (found[engine, subject, callers] for callers in AT_ONCE)
        ratio = "" if engine == "SQLite" else f"{one.ratio.median:.2f}"
        rates = [_short(each.per_second) for each in (one, *more)]
        rows.append(
            (engine, subject, _short(one.ms.median), _short(one.cpu_ms.median), ratio, *rates)
        )
    return rows


def _short(figure: float) -> str:
    return f"{figure:.1f}" if figure < 10 else f"{figure:,.0f}"


def notes(report: Report) -> Iterator[str]:
    """Yield the remarks below the table."""
    floor = next(each for each in report.calls if each.subject == FLOOR)
    yield (
        "The first four columns are processor time, as multiples of the floor: the tool by hand"
        " with nothing but the SDK, its state sealed, which takes"
        f" {floor.ms.median:.2f} ms a call in memory."
        " Over HTTP it is the server's alone. The shared server runs the floor's handler; what an"
        " option takes above that is its stand-in. Ten questions are those of a generated tool."
    )
    yield (
        "A guard records rounds on SQLite. The lines of a guarded option include the guard's, with"
        " its two stores."
    )
    added = " and ".join(
        f"{each.added_ms.median:.1f} ms on {each.store} (the middle half of rounds:"
        f" {each.added_ms.low:.1f} to {each.added_ms.high:.1f})"
        for each in report.guards
    )
    yield f"On the clock, the guard adds {added} to a round."
    for each in report.parked:
        if each.subject == "L":
            yield (
                "An open call of H is in memory, one of K and L on SQLite. There a call of L that"
                f" has ended takes {each.ended_bytes or 0:,.0f} bytes until it is deleted."
                " The bare"
                " task is one of asyncio that only waits, to compare H with."
            )


def engines_notes(report: Report) -> Iterator[str]:
    """Yield the remarks below the table of engines."""
    if not report.rounds:
        return
    yield (
        "A call has two rounds. The first three figures are those of one caller; the processor's"
        " are the server's with its client, without a database or an engine that is a process of"
        " its own."
    )
    yield (
        "On SQLite, DBOS with its default settings looks for messages once a second, and the tool"
        " by hand waits for that. K and L send none of these messages. The difference is DBOS's"
        " interval and not a gain of K and L, so no ratio is given."
    )


BOUNDS_HEAD: tuple[str, ...] = ("", "measured", "middle half", "at most", "")
"""The columns of the table of bounds."""


def bounds_table(bounds: Sequence[Bound]) -> list[tuple[str, ...]]:
    """Return a row for each bound."""
    return [
        (
            each.what,
            f"{each.found.median:.2f}",
            f"{each.found.low:.2f} to {each.found.high:.2f}",
            f"{each.at_most:g}",
            "kept" if each.found.median <= each.at_most else "over",
        )
        for each in bounds
    ]


# --- in the documents ---------------------------------------------------------------------------


def with_notes(report: Report) -> str:
    """Return the table in Markdown, with its remarks."""
    head = [each.replace("\n", " ") for each in HEAD]
    return "\n\n".join([markdown(head, table(report)), *notes(report)])


def engines_with_notes(report: Report) -> str:
    """Return the table of engines in Markdown, with its remarks."""
    head = [each.replace("\n", " ") for each in ENGINES_HEAD]
    return "\n\n".join([markdown(head, engines_table(report)), *engines_notes(report)])
