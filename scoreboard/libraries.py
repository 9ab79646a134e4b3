"""Each library of the scoreboard: what it does about six questions, its page, its JSON, its badge.

Everything is made from the rows, from the descriptions in the folders and from first.toml. Knows
nothing of any library.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from rich.table import Column, Table

from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.terminal import markdown
from scoreboard import ROOT
from scoreboard.board import Kept, date_of, kept_of
from scoreboard.rows import Board, Heads, Row, Runs, marked, slug
from scoreboard.servers.peers import Described

FAILURES = {slug(each.name): each.name for each in ANOMALIES}
"""The columns of a table of failures, and their heads."""

PAGES = ROOT / "docs" / "results" / "libraries"
DATA = ROOT / "docs" / "data" / "libraries"
REPORTS = ROOT / "scoreboard" / "reports"
ANSWERS = ROOT / "scoreboard" / "first.toml"

BOARDS: tuple[Board, ...] = ("servers", "frameworks")
"""The boards that have libraries."""

QUESTIONS: Heads = {
    "state-rewritten": "a rewritten state",
    "cannot-be-asked": "a client that cannot be asked",
    "last-round-again-here": "the last round again",
    "two-instances": "two instances, with what comes out of the box",
    "old-client": "an old client, two questions",
    "exception-to-old-client": "an exception's text",
}
"""The questions of the first table; most of their names are columns of the results."""

WORDS: Mapping[str, str] = {
    "by itself": "**by itself**",
    "offers it": "**offers it** ({how})",
    "the guide says so": "left to you, the guide says so",
    "the guide is silent": "left to you, the guide is silent",
    "the guide was not read": "left to you, the guide was not read for this",
    "the guide says otherwise": "the guide says otherwise",
    "not spoken": "not spoken",
    "not played": "not played",
}
"""What a library does about a question, and the words of a cell."""

SHORT: Mapping[str, str] = {
    "by itself": "the library refuses, or gets it right, without a line of yours",
    "offers it": "you switch it on, or call it",
    "says so": "you write it, and the guide says so",
    "silent": "you write it, and the guide is silent",
    "not read": "you write it; the guide was not read for this",
    "otherwise": "the guide says otherwise: who takes it at its word gets the harm",
}
"""The words of a terminal's cells, each the end of one of `WORDS`, and what they mean."""


class Answer(BaseModel):
    """What a library does about a question.

    Attributes:
        says: One of `WORDS`.
        how: What it offers, and in how many lines.
        note: A quotation of the guide, or a remark.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: Literal[
        "by itself",
        "offers it",
        "the guide says so",
        "the guide is silent",
        "the guide was not read",
        "the guide says otherwise",
        "not spoken",
        "not played",
    ]
    how: str = ""
    note: str = ""

    @property
    def words(self) -> str:
        """The answer in the words of a cell."""
        return WORDS[self.says].format(how=self.how)


class Library(BaseModel):
    """A library on all boards.

    Attributes:
        name: The name of its folders.
        title, version: Its usual name, and the version that was played.
        rows: Its rows. The first one names it.
        known: What is known of it, by board, a line for each thing.
        answers: Its answers, by question; none for a framework.
        report: Whether a report for its maintainers is ready.
        upstream: What its maintainers know.
    """

    name: str
    title: str
    version: str
    rows: list[Row]
    known: dict[Board, list[str]]
    answers: dict[str, Answer] = {}
    report: bool = False
    upstream: str

    @property
    def told(self) -> str:
        """Return what its maintainers know, and whether a report is ready."""
        return "report ready, not sent" if self.report and "not" in self.upstream else self.upstream


def answers() -> dict[str, dict[str, Answer]]:
    """Return what each library does about each question."""
    read = tomllib.loads(ANSWERS.read_text(encoding="utf-8"))
    return {
        name: {question: Answer(**found[question]) for question in QUESTIONS}
        for name, found in read.items()
    }


def libraries(rows: Iterable[Row], runs: Runs) -> list[Library]:
    """Return the libraries of servers and frameworks, in the order of their rows."""
    own: dict[str, list[Row]] = {}
    for row in rows:
        board, name, *_ = row.id.split("/")
        if board != "proxies":
            own.setdefault(name, []).append(row)
    said = answers()
    return [
        Library(
            name=name,
            title=found[0].title,
            version=found[0].version,
            rows=found,
            known={
                board: runs[f"{board}/{name}/about"]
                for board in BOARDS
                if any(row.id.startswith(f"{board}/") for row in found)
            },
            answers=said.get(name, {}),
            report=(REPORTS / f"{name}.md").is_file(),
            upstream=found[0].upstream,
        )
        for name, found in own.items()
    ]


# --- the first table ----------------------------------------------------------------------------


def answered(every: Sequence[Library]) -> str:
    """Return the first table: a row for each library, and its answer to each question."""
    heads = ("library", *(f"{says} (`{name}`)" for name, says in QUESTIONS.items()))
    lines = (
        (
            f"[{each.title} {each.version}](libraries/{each.name}.md); {each.told}",
            *(
                f"{each.answers[name].words} [{number}](libraries/{each.name}.md#{name})"
                for number, name in enumerate(QUESTIONS, 1)
            ),
        )
        for each in every
        if each.answers
    )
    return markdown(heads, lines)


def in_short(every: Sequence[Library]) -> Table:
    """Return the first table for a terminal of 100 columns."""
    name = Column("library", min_width=22, no_wrap=True)
    table = Table(name, *QUESTIONS.values(), box=None, padding=(0, 1, 0, 0))
    for each in every:
        if each.answers:
            words = (_short(each.answers[name].says) for name in QUESTIONS)
            table.add_row(f"{each.name} {each.version}", *words)
    return table


def _short(says: str) -> str:
    return next((word for word in SHORT if says.endswith(word)), says.removeprefix("the "))


# --- the files of a library ---------------------------------------------------------------------


def files(every: Iterable[Library], heads: Mapping[Board, Heads], runs: Runs) -> dict[Path, str]:
    """Return the page, the JSON and the badge of each library, by file."""
    found: dict[Path, str] = {}
    for each in every:
        found[PAGES / f"{each.name}.md"] = page(each, heads, runs)
        found[DATA / f"{each.name}.json"] = each.model_dump_json(indent=1, exclude={"known"}) + "\n"
        found[DATA / f"{each.name}.svg"] = badge(each)
    return found


def write(found: Mapping[Path, str]) -> None:
    """Write the files, and remove those of libraries that are gone."""
    for folder in (PAGES, DATA):
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path not in found:
                path.unlink()
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")


def page(library: Library, heads: Mapping[Board, Heads], runs: Runs) -> str:
    """Return the page of a library."""
    parts = [f"# {library.title} {library.version}", f"Maintainers: {library.told}."]
    if library.report:
        parts.append(f"[The report](../../../scoreboard/reports/{library.name}.md).")
    parts += _answers(library, runs)
    for board, lines in library.known.items():
        rows = [row for row in library.rows if row.id.startswith(f"{board}/")]
        parts += [f"## As a row of {board}", *(_results(row, heads[board], runs) for row in rows)]
        parts += ["\n".join(f"- {line}" for line in lines), _play(board, library.name)]
    parts.append(
        "## How to answer\n\nCorrect a sentence, with the page that says otherwise: answers are in"
        " [first.toml](../../../scoreboard/first.toml), the rest in `peer.toml` or `about.toml` of"
        " the library's folder ([how](../../../CONTRIBUTING.md#an-entry-of-the-scoreboard))."
        f" The badge is [{library.name}.svg](../../data/libraries/{library.name}.svg), the data are"
        f" [{library.name}.json](../../data/libraries/{library.name}.json)."
    )
    return "\n\n".join(parts) + "\n"


def _answers(library: Library, runs: Runs) -> Iterator[str]:
    if not library.answers:
        return
    row = library.rows[0]
    lines = (
        (
            f'<a id="{name}"></a>{number}. {says}',
            library.answers[name].words,
            library.answers[name].note,
            f"`{row.id}/{name}`" if f"{row.id}/{name}" in runs else "",
        )
        for number, (name, says) in enumerate(QUESTIONS.items(), 1)
    )
    yield "## What it does about six questions"
    yield markdown(("question", "answer", "note", "run"), lines)


def _results(row: Row, heads: Heads, runs: Runs) -> str:
    title = f"`{row.id}`" + (f", {row.form}" if row.form else "") + f", run on {row.date}"
    lines = (
        (f"{says} (`{name}`)", marked(row.cells[name]), _addressed(f"{row.id}/{name}", runs))
        for name, says in heads.items()
        if name in row.cells
    )
    return f"{title}\n\n" + markdown(("what happens", "outcome", "has a run"), lines)


def _addressed(cell: str, runs: Runs) -> str:
    """Return whether a cell has a run, and what its address ends in with other settings."""
    if cell not in runs:
        return ""
    more = [f"`/{name.rsplit('/', 1)[1]}`" for name in runs if name.startswith(f"{cell}/")]
    return ", ".join(["yes", *more])


def _play(board: str, name: str) -> str:
    return (
        f"```console\n$ python -m scoreboard.{board} --only {name}\n```\n\n"
        "`python -m scoreboard.rounds --run ADDRESS` shows a run."
    )


LETTER = 7
"""The width of a letter of a badge."""


def badge(library: Library) -> str:
    """Return a badge: how many of the questions a library answers by itself, or its outcomes."""
    says = [each.says for each in library.answers.values()]
    what = (
        f"{says.count('by itself')} of {len(says)} by itself, {says.count('offers it')} offered"
        if says
        else f"{len(library.rows)} forms played"
    )
    left, right = LETTER * len("MRTR board") + 10, LETTER * len(what) + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="MRTR board: {what}"><title>{library.title} {library.version}: {what}</title>'
        f'<rect width="{left}" height="20" fill="#555"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="#36a"/>'
        '<g fill="#fff" font-family="sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">MRTR board</text>'
        f'<text x="{left + right / 2}" y="14">{what}</text></g></svg>\n'
    )


# --- what is known of a library -----------------------------------------------------------------


def about(
    board: Board,
    known: Mapping[str, Described],
    kept: Mapping[str, Kept[Any]],
    forms: Sequence[tuple[Described, str]],
) -> Runs:
    """Return what is known of each library, by its address, a line for each thing.

    Args:
        board: The board of the libraries.
        known: The libraries, by name.
        kept: Their kept results.
        forms: A line for each setting or form, with its library.
    """
    return {
        f"{board}/{who.name}/about": [
            *_about(who, found),
            *(line for of, line in forms if of.name == who.name),
        ]
        for who, found in kept_of(known, kept)
    }


def _about(who: Described, kept: Kept[Any]) -> list[str]:
    quote = who.quote
    page = quote.address or who.documentation
    says = f'"{quote.says}"' if quote.says else "does not mention them"
    seconds = sum(each.seconds for each in kept.variants.values())
    cpu_seconds = sum(getattr(each, "cpu_seconds", 0) for each in kept.variants.values())
    return [
        f"{who.title}, {who.language}: {who.package} {who.version}; run {date_of(who, kept)}",
        f"written after {who.documentation}",
        f"its documentation on effects above a pause: {says} ({page}, {quote.date})",
        *([f"departs from its guide: {who.departs}"] if who.departs else []),
        *([f"note: {who.note}"] if who.note else []),
        f"the build took {_took(kept.build_seconds, kept.build_cpu_seconds)};"
        f" the runs took {_took(seconds, cpu_seconds)}",
        *([f"could not be built: {kept.cannot}"] if kept.cannot else []),
    ]


def _took(seconds: int, cpu_seconds: int) -> str:
    if not seconds:
        return "a time that was not measured"
    return f"{seconds} s" + (f" ({cpu_seconds} s of processor)" if cpu_seconds else "")
