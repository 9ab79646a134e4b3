"""The scoreboard's data for the page: its boards, and the run behind each cell.

Knows the kept results by their rows; nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrtr_options.review.bench.messages import JsonObject
from scoreboard import rounds
from scoreboard.board import Scoreboard
from scoreboard.frameworks import page as frameworks
from scoreboard.libraries import FAILURES
from scoreboard.rows import Heads, Row
from scoreboard.servers import page as servers

HEADS = FAILURES | frameworks.WORDS_OF
"""The heads of the columns of failures, and of the frameworks' cases."""


def boards() -> JsonObject:
    """Return the boards, the failures and the runs, ready for `json.dumps`."""
    board = rounds.read_board()
    rows = rounds.rows_of(board)
    runs = rounds.runs_of(board)
    lines: dict[str, int] = {}
    return {
        "boards": {
            name: _board(heads, [row for row in rows if row.id.startswith(f"{name}/")])
            for name, heads in rounds.HEADS.items()
        },
        "failures": _failures(board),
        "runs": {
            address: [lines.setdefault(line, len(lines)) for line in run]
            for address, run in runs.items()
        },
        "lines": [*lines],
    }


def _board(heads: Heads, rows: Sequence[Row]) -> JsonObject:
    # A list of pairs: in a script's object, a fault named 502 would come first.
    return {"heads": [*heads.items()], "rows": [_row(row) for row in rows]}


def _row(row: Row) -> JsonObject:
    cells = {column: [cell.says, cell.adds] for column, cell in row.cells.items()}
    return row.model_dump(exclude={"cells"}) | {"cells": cells}


def _failures(board: Scoreboard) -> JsonObject:
    """Return the tables of failures, by heading. Runs are kept of a client that resends."""
    tables = {
        "Servers, a client that resends": servers.failure_rows(board, "resends"),
        "Servers, a client that calls again": servers.failure_rows(board, "calls again"),
        "Frameworks": frameworks.failure_rows(board),
        "Frameworks, each case": frameworks.case_rows(board),
        **{
            f"Servers, rounds go to either instance, a client that {policy}": (
                servers.failure_rows(board, policy, "free")
            )
            for policy in ("resends", "calls again")
        },
    }
    return {
        title: _board({name: HEADS[name] for name in _columns(rows)}, rows)
        for title, rows in tables.items()
        if rows
    }


def _columns(rows: Sequence[Row]) -> list[str]:
    return [*dict.fromkeys(column for row in rows for column in row.cells)]
