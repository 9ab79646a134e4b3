"""`python -m scoreboard`: the first table, a library, the run behind a cell, what changed.

`python -m scoreboard.rounds` is the same command.

The file of a library has its rows, so what they said at a commit can be read again. Exit code: 0, 2
for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mrtr_options.terminal import Parser, console, markdown, refuse, run
from scoreboard import ROOT, chosen
from scoreboard.board import Scoreboard
from scoreboard.board import read as read_board
from scoreboard.clients.kept import read as read_clients
from scoreboard.clients.page import runs as runs_of_clients
from scoreboard.frameworks import first as frameworks
from scoreboard.frameworks.page import about as about_frameworks
from scoreboard.frameworks.page import failures as framework_failures
from scoreboard.libraries import DATA, SHORT, Library, files, in_short, libraries
from scoreboard.proxies import page as proxies
from scoreboard.proxies.upstream import FAULTS
from scoreboard.rows import Board, Heads, Row, Runs, printed, table
from scoreboard.servers import first as servers
from scoreboard.servers.page import about as about_servers
from scoreboard.servers.page import failures as server_failures

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


def rows_of(board: Scoreboard) -> list[Row]:
    """Return all rows, in the order of the boards."""
    return [*servers.rows(board), *frameworks.first(board), *proxies.first(board)]


def board_table(board: Board, rows: Sequence[Row]) -> str:
    """Return a board in Markdown."""
    own = [row for row in rows if row.id.startswith(f"{board}/")]
    return table(FIRST[board], {name: HEADS[board][name] for name in SHOWN[board]}, own)


def every_library(board: Scoreboard) -> list[Library]:
    """Return the libraries of servers and frameworks."""
    return libraries(rows_of(board), runs_of(board))


def files_of_libraries(board: Scoreboard) -> dict[Path, str]:
    """Return the page, the JSON and the badge of each library, by file."""
    return files(every_library(board), HEADS, runs_of(board))


def runs_of(board: Scoreboard) -> Runs:
    """Return the runs of cells, failures and clients, and lines on libraries, by address."""
    every = servers.runs_of(board) | runs_of_clients(read_clients())
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
    old, new = _words(before), _words(after)
    order = [row.id for row in (*after, *before)]
    return [
        (*at, old.get(at, ""), new.get(at, ""))
        for at in sorted({**new, **old}, key=lambda at: order.index(at[0]))
        if old.get(at, "") != new.get(at, "")
    ]


def _words(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return what rows say, by the row's name and the column."""
    return {
        (row.id, column): says
        for row in rows
        for column, says in (
            ("version", row.version),
            ("upstream", row.upstream),
            *((column, cell.words) for column, cell in row.cells.items()),
        )
    }


WHERE = """\
python -m scoreboard NAME            the cells of a library, and where to answer
python -m scoreboard --run ADDRESS   the run of a cell: servers/go-sdk/old-client
docs/results/libraries/NAME.md       the same with notes and quotations"""
"""The lines below the first table."""


def of_library(library: Library) -> str:
    """Return the cells of a library by address, and how to play and to answer them."""
    name = library.name
    return "\n".join(
        [
            printed(library.rows),
            *(f"play them:    python -m scoreboard.{each} --only {name}" for each in library.known),
            "a run:        python -m scoreboard --run ADDRESS (or ADDRESS/SETTING)",
            f"notes:        docs/results/libraries/{name}.md",
            *([f"report:       scoreboard/reports/{name}.md"] if library.report else []),
            "answer:       CONTRIBUTING.md, An entry of the scoreboard",
        ]
    )


# --- the command --------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard",
        description="The first table of the scoreboard; with a name, the cells of a library.",
        allow_abbrev=False,
    )
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("name", nargs="?", metavar="NAME", help="a library of the table")
    wanted.add_argument("--run", metavar="CELL", help="print the run behind a cell, by its address")
    wanted.add_argument("--row", metavar="ROW", help="print a row of the present results as JSON")
    wanted.add_argument(
        "--since", metavar="COMMIT", help="print each cell that has changed since a commit"
    )
    args = parser.parse_args(argv)
    now = read_board()
    if args.run is not None:
        for lines in chosen(args.run, runs_of(now), "cell with a run"):
            print("\n".join(lines))
    elif args.name is not None:
        known = {library.name: library for library in every_library(now)}
        print(*map(of_library, chosen(args.name, known, "library")), sep="\n\n")
    elif args.row is not None:
        rows = {row.id: row for row in rows_of(now)}
        for row in chosen(args.row, rows, "row"):
            print(row.model_dump_json(indent=1))
    elif args.since is not None:
        try:
            before = rows_at(args.since)
        except subprocess.CalledProcessError:
            refuse(f"there is no commit {args.since!r} here")
        own = [row for row in rows_of(now) if not row.id.startswith("proxies/")]
        print(markdown(("row", "column", "before", "now"), changes(before, own)))
    else:
        every = every_library(now)
        console().print(in_short(every))
        meanings = (f"{word:10}  {says}" for word, says in SHORT.items())
        print("", *meanings, "", WHERE, sep="\n")
        others = ", ".join(library.name for library in every if not library.answers)
        console().print(f"\nframeworks: {others}")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
