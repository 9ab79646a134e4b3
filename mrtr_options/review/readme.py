"""The README's tables, made from runs: `python -m mrtr_options.review.readme` writes them anew.

A table stands between two comments that name it. A test makes them again and fails when they differ.
The conformance suite is not run for its table, which is made from what the last run of it has left.
Knows the matrix, the option files and that; nothing of what the README says around them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

import anyio

from mrtr_options.conformance import report
from mrtr_options.conformance.columns import all_columns as tested_columns
from mrtr_options.options import DURABLE, Option, all_options, option_named
from mrtr_options.promises import Promises
from mrtr_options.review import matrix
from mrtr_options.review.columns import Column, all_columns
from mrtr_options.review.schedules import SCHEDULES, AtOnce

README = Path(__file__).parents[2] / "README.md"

AGAIN = (
    "duplicate-interim",
    "duplicate-final",
    "concurrent-final",
    "disconnect-after-effect",
    "crash-after-effect",
    "lost-final-keyed",
    "crash-after-effect-keyed",
    "fork",
    "restart",
)


def rows(*slugs: str, era: matrix.Era = "modern", place: matrix.Place = "one") -> str:
    """Rows of the matrix as a table, without its caption."""
    cells = matrix.cells(
        all_columns(), schedules=[SCHEDULES[slug] for slug in slugs], eras=(era,), places=(place,)
    )
    table = matrix.markdown(anyio.run(matrix.run, cells))
    return table.partition("\n\n")[2]


def promised() -> str:
    """What each option promises besides its counts."""
    head = ("option", "re-entry", "the call lives in", "another instance", "restart", "old client gets")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for option in all_options().values():
        promises = matrix.promises_of(Column(option))
        assert promises is not None
        lines.append(
            f"| {option.letter} {option.name} | {promises.reentry} |"
            f" {_home(option, promises)} |"
            f" {'yes' if 'hop' in promises.survives else 'no'} |"
            f" {'yes' if 'restart' in promises.survives else 'no'} |"
            f" {'the whole conversation' if promises.asks_legacy else 'an assumption or an error'} |"
        )
    return "\n".join(lines)


def _home(option: Option, promises: Promises) -> str:
    if "restart" not in promises.survives:
        return "memory"
    return "a database" if option.extra == DURABLE else "the state"


def redeployed() -> str:
    """What became of the calls that were in flight in a redeploy; "stale" stands out in bold."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.changes]
    columns = [Column(option) for option in all_options().values()]
    seen = anyio.run(matrix.run, matrix.cells(columns, schedules=schedules, places=("two",)))
    fates = {(each.schedule, each.option): each.fate for each in seen}
    head = ["redeploy", *(column.name for column in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for schedule in schedules:
        row = [fates.get((schedule.slug, column.option.letter)) or "" for column in columns]
        cells = ["**stale**" if fate == "stale" else fate for fate in row]
        lines.append("| " + " | ".join([f"`{schedule.slug.removeprefix('redeploy-')}`", *cells]) + " |")
    return "\n".join(lines)


def tasks() -> str:
    """What became of the tasks of the options that hand them out, on two instances."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.takes_tasks]
    columns = [Column(option) for option in all_options().values() if option.takes_tasks]
    seen = anyio.run(matrix.run, matrix.cells(columns, schedules=schedules, places=("two",)))
    found = {(each.schedule, each.option): each.cell for each in seen}
    head = ["task", "what happens", *(column.name for column in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for schedule in schedules:
        # A race ends in either way, and in another one next time.
        is_race = any(isinstance(step, AtOnce) for step in schedule.script)
        cells = [
            "one of the two" if is_race else found[schedule.slug, column.option.letter]
            for column in columns
        ]
        name = f"`{schedule.slug.removeprefix('task-')}`"
        lines.append("| " + " | ".join([name, schedule.models, *cells]) + " |")
    return "\n".join(lines)


def diff_of_e_and_f() -> str:
    """E against F, the author's code."""
    left, right = option_named("E").path, option_named("F").path
    lines = difflib.unified_diff(
        _author_code(left), _author_code(right), left.name, right.name, n=2, lineterm=""
    )
    return "\n".join(["```diff", *lines, "```"])


def _author_code(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text[text.index("class State") : text.index("promises = ")].splitlines()


TABLES: dict[str, Callable[[], str]] = {
    "lost responses": lambda: rows(*matrix.LOST_RESPONSES),
    "clean calls, modern": lambda: rows("clean-tokyo", "clean-springfield"),
    "clean calls, legacy": lambda: rows("clean-tokyo", "clean-springfield", era="legacy"),
    "twice and half-way": lambda: rows(*AGAIN),
    "two instances": lambda: rows("hop", "sticky", "lost-final", place="two"),
    "promises": promised,
    "E against F": diff_of_e_and_f,
    "redeploys": redeployed,
    "tasks": tasks,
    "conformance": lambda: report.markdown(report.read(), tested_columns()),
    "conformance, not checked": report.blind_markdown,
    "redeploys, effects": lambda: rows("redeploy-effect", "redeploy-effect-back"),
}


def renewed(text: str) -> str:
    """A README with every table made anew.

    Raises:
        ValueError: A table has no place in it.
    """
    for name, make in TABLES.items():
        place = re.compile(rf"(<!-- begin: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise ValueError(f"README.md has no place for the table {name!r}")
        table = make()
        text = place.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
    return re.sub(r"All \d+ schedules", f"All {len(SCHEDULES)} schedules", text)


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
