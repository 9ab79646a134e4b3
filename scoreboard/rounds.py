"""`python -m scoreboard.rounds`: the rounds of the scoreboard, and the run behind a cell.

A round is what all rows said at a commit, under a name. Rounds are kept in docs/data/rounds as
JSON with
a schema, so that a library can show its own row. Exit code: 0, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.terminal import Parser, markdown, plural, refuse
from mrtr_options.terminal import run as run_command
from scoreboard import ROOT
from scoreboard.board import FILE, Scoreboard
from scoreboard.board import read as read_board
from scoreboard.clients.kept import read as read_clients
from scoreboard.clients.page import runs as runs_of_clients
from scoreboard.frameworks import first as frameworks
from scoreboard.frameworks.page import about as about_frameworks
from scoreboard.frameworks.page import failures as framework_failures
from scoreboard.libraries import Library, files, libraries
from scoreboard.proxies import page as proxies
from scoreboard.proxies.upstream import FAULTS
from scoreboard.rows import UNKNOWN, Board, Cell, Heads, Row, Runs, table
from scoreboard.servers import cells
from scoreboard.servers import first as servers
from scoreboard.servers.cells import AllRuns
from scoreboard.servers.page import about as about_servers
from scoreboard.servers.page import failures as server_failures

T = TypeVar("T")

FOLDER = ROOT / "docs" / "data" / "rounds"
"""A file for each round, and the schema of these files."""

PAGE = ROOT / "docs" / "results" / "SCOREBOARD_CHANGES.md"

SCHEMA = FOLDER / "schema.json"
SCHEMA_VERSION = 1
"""The version of the schema. A change that breaks a reader makes it one more."""

HEADS: dict[Board, Heads] = {
    "servers": servers.HEADS,
    "frameworks": frameworks.HEADS,
    "proxies": {**FAULTS},
}
"""The columns of each board."""

SHOWN: dict[Board, Sequence[str]] = {
    "servers": (
        "state-rewritten",
        "state-of-another-call",
        "last-round-again-here",
        "last-round-again-there",
        "two-instances",
        "old-client",
    ),
    "frameworks": ("clean", "last-twice", "at-once", "crash-bill", "added-second", "others"),
}
"""The columns that SCOREBOARD shows; the pages of libraries show all."""

FIRST: dict[Board, str] = {
    "servers": "library, as its guide writes it → what its options add",
    "frameworks": "framework, and its documented form",
}
"""The head of each board's first column."""

NAME = re.compile(r"\d{4}-\d\d(\.\d+)?")


class Round(BaseModel):
    """A round of the scoreboard.

    Attributes:
        schema_version: The version of this form.
        name: The round's name: a month, and a number after the month's first round.
        commit: The commit of this repository that has the results and the programs.
        machine: The machine, without its name.
        project, mcp: The versions of this project and of the Python SDK that played the clients.
        columns: The columns of each board, and their heads.
        rows: The rows. A cell's address is its row's id, a stroke, and its column.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, ge=1)
    name: str = Field(pattern=NAME.pattern)
    commit: str
    machine: str
    project: str
    mcp: str
    columns: dict[Board, dict[str, str]]
    rows: list[Row]

    @property
    def days(self) -> str:
        """The first and the last day of its runs."""
        days = [row.date for row in self.rows]
        return f"{min(days)} to {max(days)}"


def present() -> tuple[Scoreboard, AllRuns]:
    """Return the kept results and the runs of cells."""
    return read_board(), cells.read()


def rows_of(board: Scoreboard, runs: AllRuns) -> list[Row]:
    """Return all rows, in the order of the boards."""
    return [*servers.rows(board, runs), *frameworks.first(board), *proxies.first(board)]


def board_table(board: Board, rows: Sequence[Row]) -> str:
    """Return a board in Markdown."""
    own = [row for row in rows if row.id.startswith(f"{board}/")]
    return table(FIRST[board], {name: HEADS[board][name] for name in SHOWN[board]}, own)


def every_library(board: Scoreboard, runs: AllRuns) -> list[Library]:
    """Return the libraries of servers and frameworks."""
    return libraries(rows_of(board, runs), runs_of(board, runs))


def files_of_libraries(board: Scoreboard, runs: AllRuns) -> dict[Path, str]:
    """Return the page, the JSON and the badge of each library, by file."""
    return files(every_library(board, runs), HEADS, runs_of(board, runs))


def runs_of(board: Scoreboard, runs: AllRuns) -> Runs:
    """Return the runs of cells, failures and clients, and lines on libraries, by address."""
    every = servers.runs_of(board, runs) | runs_of_clients(read_clients())
    every |= server_failures(board) | framework_failures(board)
    return every | about_servers(board) | about_frameworks(board)


def schema() -> str:
    """Return the JSON schema of a round."""
    return json.dumps(Round.model_json_schema(), indent=1) + "\n"


def read(folder: Path = FOLDER) -> list[Round]:
    """Return the kept rounds, oldest first."""
    files = (path for path in folder.glob("*.json") if path.name != SCHEMA.name)
    found = [KeptFile(path, Round).read() for path in files]
    return sorted(found, key=lambda each: _place(each.name))


def _place(name: str) -> tuple[str, int]:
    """Return the sort key of a round's name; the first round of a month has no number."""
    month, _, number = name.partition(".")
    return month, int(number or 1)


# --- making a round -----------------------------------------------------------------------------


def made_at(name: str, commit: str) -> Round:
    """Return the round of the results that a commit has."""
    own = json.loads(_shown(commit, FILE) or "{}")
    runs = json.loads(_shown(commit, cells.FILE) or "{}")
    board = Scoreboard.model_validate(own)
    project = tomllib.loads(_shown(commit, ROOT / "pyproject.toml"))["project"]
    pinned = re.search(r"^mcp==(\S+)", _shown(commit, ROOT / "constraints.txt"), re.MULTILINE)
    return Round(
        name=name,
        commit=_git("rev-parse", "--short=12", commit).strip(),
        machine=machine(),
        project=project["version"],
        mcp=pinned[1] if pinned else "",
        columns={each: dict(heads) for each, heads in HEADS.items()},
        rows=rows_of(board, AllRuns.model_validate(runs)),
    )


def machine() -> str:
    """Return what kind of machine this is."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"


def _shown(commit: str, path: Path) -> str:
    """Return a file as a commit has it; empty if it has none."""
    name = str(path.relative_to(ROOT))
    is_there = _git("ls-tree", "--name-only", commit, "--", name)
    return _git("show", f"{commit}:{name}") if is_there else ""


def _git(*arguments: str) -> str:
    git = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout


def keep(found: Round, folder: Path = FOLDER) -> None:
    """Write a round and the schema."""
    folder.mkdir(exist_ok=True)
    KeptFile(folder / f"{found.name}.json", Round).write(found)
    (folder / SCHEMA.name).write_text(schema(), encoding="utf-8")


# --- what changed -------------------------------------------------------------------------------

Change = tuple[str, str, str, str]
"""A row's name, its column, and the cell before and after."""


def changes(before: Round, after: Round) -> list[Change]:
    """Return what changed between two rounds. A column or a board that is new is one line."""
    old = {row.id: row for row in before.rows}
    new = {row.id: row for row in after.rows}
    found = [*_new_boards(before, after), *_new_columns(old, after)]
    named = {(board, column) for board, column, *_ in found}
    boards = {board for board, column, *_ in found if not column}
    for name, row in new.items():
        board = name.partition("/")[0]
        if name in old:
            cells_of = _changed_cells(old[name], row)
            found += [each for each in cells_of if (board, each[1]) not in named]
        elif board not in boards:
            found.append((_words(row), "", "", "new"))
    return found + [(_words(row), "", "", "gone") for name, row in old.items() if name not in new]


def _words(row: Row) -> str:
    return f"{row.title}, {row.form}" if row.form else row.title


def _new_boards(before: Round, after: Round) -> Iterator[Change]:
    known = {row.id.partition("/")[0] for row in before.rows}
    for board in after.columns:
        rows = [row for row in after.rows if row.id.startswith(f"{board}/")]
        if board not in known and rows:
            yield board, "", "", f"a new board with {plural(len(rows), 'row')}"


def _new_columns(old: dict[str, Row], after: Round) -> Iterator[Change]:
    for board, heads in after.columns.items():
        both = [row for row in after.rows if row.id in old and row.id.startswith(f"{board}/")]
        for column in heads if both else ():
            was = [old[row.id].cells.get(column) for row in both]
            if not any(map(_is_known, was)):
                yield board, column, "", "a new column"


def _is_known(cell: Cell | None) -> bool:
    return cell is not None and cell.says not in (*UNKNOWN, "not spoken")


def _changed_cells(before: Row, after: Row) -> Iterator[Change]:
    name = _words(after)
    if before.version != after.version:
        yield name, "version", before.version, after.version
    for column, cell in after.cells.items():
        was = before.cells.get(column, Cell(says=""))
        if was.words != cell.words:
            yield name, column, was.words, cell.words
    if before.upstream != after.upstream:
        yield name, "upstream", before.upstream, after.upstream


def kept_table(rounds: Sequence[Round]) -> str:
    """Return a table of the kept rounds, newest first."""
    lines = (
        (
            f"[{each.name}](../data/{FOLDER.name}/{each.name}.json)",
            each.days,
            f"`{each.commit}`",
            str(len(each.rows)),
            each.machine,
            f"mrtr-options {each.project}, mcp {each.mcp}",
        )
        for each in reversed(rounds)
    )
    return markdown(("round", "runs of", "commit", "rows", "machine", "versions"), lines)


def changes_table(rounds: Sequence[Round]) -> str:
    """Return what changed from each round to the next, newest first."""
    pairs = [*pairwise(rounds)]
    sections = [_section(before, after) for before, after in reversed(pairs)]
    return "\n\n".join(sections) or "One round is kept; the next one will show what changed."


def changed_lines(before: Round, after: Round) -> list[Change]:
    """Return what changed between two rounds, with the heads of the columns."""
    heads = {column: head for each in after.columns.values() for column, head in each.items()}
    return [
        (name, heads.get(column, column), was, now)
        for name, column, was, now in changes(before, after)
    ]


def _section(before: Round, after: Round) -> str:
    lines = changed_lines(before, after)
    title = f"### {before.name} to {after.name}"
    if not lines:
        return f"{title}\n\nNothing changed."
    return f"{title}\n\n" + markdown(("row", "column", before.name, after.name), lines)


# --- the command --------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.rounds",
        description="The rounds of the scoreboard. Without arguments: the kept rounds, and what"
        " changed in the last one.",
        allow_abbrev=False,
    )
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--run", metavar="CELL", help="print the run behind a cell, by its address")
    wanted.add_argument("--row", metavar="ROW", help="print a row of the present results as JSON")
    wanted.add_argument("--keep", metavar="NAME", help="keep a round, such as 2026-11 or 2026-11.2")
    parser.add_argument(
        "--of", metavar="COMMIT", default="HEAD", help="with --keep: the commit (default HEAD)"
    )
    args = parser.parse_args(argv)
    return run_command(lambda: _rounds(args))


def _rounds(args: argparse.Namespace) -> int:
    if args.keep:
        _keep(args.keep, args.of)
    elif args.run:
        print("\n".join(_found(runs_of(*present()), args.run, "cell with a run")))
    elif args.row:
        rows = {row.id: row for row in rows_of(*present())}
        print(_found(rows, args.row, "row").model_dump_json(indent=1))
    else:
        rounds = read()
        print(kept_table(rounds))
        print(changes_table(rounds[-2:]))
    return 0


def _keep(name: str, commit: str) -> None:
    if not NAME.fullmatch(name):
        refuse(f"{name!r} is no name of a round; name a month, as in 2026-11 or 2026-11.2")
    try:
        keep(made_at(name, commit))
    except subprocess.CalledProcessError:
        refuse(f"there is no commit {commit!r} here")


def _found(known: Mapping[str, T], name: str, what: str) -> T:
    if name not in known:
        near = [each for each in known if each.startswith(name)] or [*known]
        refuse(f"there is no {what} {name!r}; there are {', '.join(near[:12])}")
    return known[name]


if __name__ == "__main__":
    sys.exit(main())
