"""`python -m scoreboard.rounds`: the rows of the scoreboard, the run behind a cell, what changed.

The file of a library has its rows, so what they said at a commit can be read again. Exit code: 0, 2
for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from mrtr_options.terminal import Parser, markdown, refuse
from mrtr_options.terminal import run as run_command
from scoreboard import ROOT
from scoreboard.board import Scoreboard
from scoreboard.board import read as read_board
from scoreboard.clients.kept import read as read_clients
from scoreboard.clients.page import runs as runs_of_clients
from scoreboard.frameworks import first as frameworks
from scoreboard.frameworks.page import about as about_frameworks
from scoreboard.frameworks.page import failures as framework_failures
from scoreboard.libraries import DATA, Library, files, libraries
from scoreboard.proxies import page as proxies
from scoreboard.proxies.upstream import FAULTS
from scoreboard.rows import Board, Heads, Row, Runs, table
from scoreboard.servers import cells
from scoreboard.servers import first as servers
from scoreboard.servers.cells import AllRuns
from scoreboard.servers.page import about as about_servers
from scoreboard.servers.page import failures as server_failures

T = TypeVar("T")

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


# --- what changed -------------------------------------------------------------------------------

Change = tuple[str, str, str, str]
"""A row's name, its column, and the cell before and after."""


def rows_at(commit: str) -> list[Row]:
    """Return the rows of libraries as their files had them at a commit.

    Raises:
        CalledProcessError: There is no such commit here.
    """
    names = _git("ls-tree", "--name-only", commit, f"{DATA.relative_to(ROOT)}/").split()
    files = [json.loads(_git("show", f"{commit}:{name}")) for name in names if ".json" in name]
    return [Row.model_validate(row) for file in files for row in file["rows"]]


def _git(*arguments: str) -> str:
    git = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout


def changes(before: Sequence[Row], after: Sequence[Row]) -> list[Change]:
    """Return each cell that changed, each version, and each row that is new or gone."""
    old = {row.id: _words(row) for row in before}
    new = {row.id: _words(row) for row in after}
    return [
        (name, column, old.get(name, {}).get(column, ""), new.get(name, {}).get(column, ""))
        for name in {**new, **old}
        for column in {**new.get(name, {}), **old.get(name, {})}
        if old.get(name, {}).get(column, "") != new.get(name, {}).get(column, "")
    ]


def _words(row: Row) -> dict[str, str]:
    """Return what a row says, by column."""
    said = {column: cell.words for column, cell in row.cells.items()}
    return {"version": row.version, "upstream": row.upstream, **said}


# --- the command --------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.rounds",
        description="The run behind a cell of the scoreboard, a row, or what changed.",
        allow_abbrev=False,
    )
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--run", metavar="CELL", help="print the run behind a cell, by its address")
    wanted.add_argument("--row", metavar="ROW", help="print a row of the present results as JSON")
    wanted.add_argument(
        "--since", metavar="COMMIT", help="print each cell that has changed since a commit"
    )
    args = parser.parse_args(argv)
    return run_command(lambda: _rounds(args))


def _rounds(args: argparse.Namespace) -> int:
    if args.run:
        print("\n".join(_found(runs_of(*present()), args.run, "cell with a run")))
        return 0
    now = rows_of(*present())
    if args.row:
        print(_found({row.id: row for row in now}, args.row, "row").model_dump_json(indent=1))
        return 0
    try:
        before = rows_at(args.since)
    except subprocess.CalledProcessError:
        refuse(f"there is no commit {args.since!r} here")
    own = [row for row in now if not row.id.startswith("proxies/")]
    print(markdown(("row", "column", "before", "now"), changes(before, own)))
    return 0


def _found(known: Mapping[str, T], name: str, what: str) -> T:
    if name not in known:
        near = [each for each in known if each.startswith(name)] or [*known]
        refuse(f"there is no {what} {name!r}; there are {', '.join(near[:12])}")
    return known[name]


if __name__ == "__main__":
    sys.exit(main())
