"""The README's tables, made from runs: `python -m mrtr_options.show.readme` writes them anew.

A table stands between two comments that name it. A test makes them again and fails when they differ.
The conformance suite is not run for its table, which is made from what the last run of it has left.
Knows the matrix, the option files and that; nothing of what the README says around them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from mrtr_options.bench.observations import Observation
from mrtr_options.bench.schedules import SCHEDULES, AtOnce
from mrtr_options.bench.subjects import all_columns
from mrtr_options.conformance import report
from mrtr_options.conformance.columns import all_columns as tested_columns
from mrtr_options.cost import kept
from mrtr_options.cost.floor import SHARED
from mrtr_options.cost.targets import targets
from mrtr_options.judge import matrix
from mrtr_options.tool.author_code import author_code
from mrtr_options.tool.catalogue import DURABLE, Option, all_options, option_named
from mrtr_options.tool.guarantees import Guarantees

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


Seen = Sequence[Observation]


@dataclass(frozen=True)
class Choice:
    """An answer to "which one?".

    Attributes:
        question: What decides for it, if the answer is yes.
        column: The option, as the matrix calls it.
        weak: The schedule that hurts it most.
        place: Where.
    """

    question: str
    column: str
    weak: str
    place: matrix.Place = "one"


CHOICES = (
    Choice(
        "Does the work take longer than a request should, for clients that take tasks?",
        "K",
        "task-killed-working",
    ),
    Choice(
        "Must a call outlive every process, at the price of a database in each round?",
        "L",
        "redeploy-reworded",
    ),
    Choice(
        "Is there one instance, or a balancer that sends a state back where it came from?",
        "H",
        "restart",
    ),
    Choice(
        "Does no effect stand above a question, and may the last one happen twice?",
        "E",
        "lost-final",
    ),
    Choice(
        "Does every effect have a destination that honours an idempotency key?",
        "J",
        "redeploy-reworded-mixed",
        "two",
    ),
    Choice(
        "None of these: F inside the guard of single use (G's steps from three questions on)",
        "F+single-use",
        "lost-first",
    ),
)
"""Five questions, the first yes decides; and what is left."""


def which(seen: Seen) -> str:
    """The choices, each with the row of the matrix that is its weak spot."""
    cells = {
        (each.column, each.schedule, each.deployment): each for each in seen if each.era == "modern"
    }
    options = all_options()
    lines = ["| | | see it | weak spot | |", "|---" * 5 + "|"]
    for number, choice in enumerate(CHOICES, start=1):
        letter = choice.column[0]
        weak = cells[choice.column, choice.weak, choice.place]
        found = weak.fate or weak.cell
        name = "F¹" if choice.column != letter else letter
        lines.append(
            f"| {number if number < len(CHOICES) else ''} {choice.question} | **{name}** |"
            f" `python -m {options[letter].module}` | `{choice.weak}` | {found} |"
        )
    return "\n".join(lines)


def rows(seen: Seen, *slugs: str, era: matrix.Era = "modern", place: matrix.Place = "one") -> str:
    """Rows of the matrix as a table, without its caption."""
    found = [
        each
        for slug in slugs
        for each in seen
        if (each.schedule, each.era, each.deployment) == (slug, era, place)
    ]
    return matrix.markdown(found).partition("\n\n")[2]


def promised() -> str:
    """What each option promises besides its counts."""
    head = ("option", "re-entry", "the call lives in", "another instance", "restart", "old client gets")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for option in all_options().values():
        own = option.guarantees
        assert own is not None
        lines.append(
            f"| {option.letter} {option.name} | {own.reexecution} |"
            f" {_home(option, own)} |"
            f" {'yes' if 'failover' in own.survives else 'no'} |"
            f" {'yes' if 'restart' in own.survives else 'no'} |"
            f" {'the whole conversation' if own.asks_legacy else 'an assumption or an error'} |"
        )
    return "\n".join(lines)


def _home(option: Option, own: Guarantees) -> str:
    if "restart" not in own.survives:
        return "memory"
    return "a database" if option.extra == DURABLE else "the state"


def redeployed(seen: Seen) -> str:
    """What became of the calls that were in flight in a redeploy; "stale" stands out in bold."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.changes]
    letters = list(all_options())
    fates = {(each.schedule, each.column): each.fate for each in seen if each.deployment == "two"}
    head = ["redeploy", *letters]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for schedule in schedules:
        row = [fates.get((schedule.slug, letter)) or "" for letter in letters]
        cells = ["**stale**" if fate == "stale" else fate for fate in row]
        lines.append("| " + " | ".join([f"`{schedule.slug.removeprefix('redeploy-')}`", *cells]) + " |")
    return "\n".join(lines)


def tasks(seen: Seen) -> str:
    """What became of the tasks of the options that hand them out, on two instances."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.takes_tasks]
    letters = [letter for letter, option in all_options().items() if option.takes_tasks]
    found = {(each.schedule, each.column): each.cell for each in seen if each.deployment == "two"}
    head = ["task", "what happens", *letters]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for schedule in schedules:
        # A race ends in either way, and in another one next time.
        is_race = any(isinstance(step, AtOnce) for step in schedule.script)
        cells = ["one of the two" if is_race else found[schedule.slug, letter] for letter in letters]
        name = f"`{schedule.slug.removeprefix('task-')}`"
        lines.append("| " + " | ".join([name, schedule.models, *cells]) + " |")
    return "\n".join(lines)


def costs() -> str:
    """The targets of cost, with the figures of the run that is kept."""
    head = ("what is measured", "target", "measured", "")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    report = kept.read()
    for target in targets(report):
        bound = f"{target.bound} {target.target:g} {target.unit}"
        met = "" if target.met else "**missed**"
        lines.append(f"| {target.name} | {bound} | {target.measured:.3f} | {met} |")
    (shared,) = (each.ratio.median for each in report.calls if each.option == SHARED)
    return "\n".join([*lines, "", _what_holds(shared)])


def _what_holds(shared: float) -> str:
    return (
        f"What holds the missed ones: the floor's own handler takes {shared:.3f} of the floor where it\n"
        "stands on the server that all options share, which checks arguments, names the call and signs\n"
        "the state. What an option takes above that is its stand-in."
    )


def diff_of_e_and_f() -> str:
    """E against F, the author's code."""
    left, right = option_named("E"), option_named("F")
    here, there = ([line.text for line in author_code(each.source)] for each in (left, right))
    lines = difflib.unified_diff(here, there, left.path.name, right.path.name, n=2, lineterm="")
    return "\n".join(["```diff", *lines, "```"])


TABLES: dict[str, Callable[[Seen], str]] = {
    "lost responses": lambda seen: rows(seen, *matrix.LOST_RESPONSES),
    "clean calls, modern": lambda seen: rows(seen, "clean-tokyo", "clean-springfield"),
    "clean calls, legacy": lambda seen: rows(seen, "clean-tokyo", "clean-springfield", era="legacy"),
    "twice and half-way": lambda seen: rows(seen, *AGAIN),
    "two instances": lambda seen: rows(seen, "failover", "sticky", "lost-final", place="two"),
    "promises": lambda seen: promised(),
    "E against F": lambda seen: diff_of_e_and_f(),
    "redeploys": redeployed,
    "redeploys, effects": lambda seen: rows(seen, "redeploy-effect", "redeploy-effect-back"),
    "tasks": tasks,
    "which": which,
    "costs": lambda seen: costs(),
    "conformance": lambda seen: report.markdown(report.read(), tested_columns()),
    "conformance, not checked": lambda seen: report.blind_markdown(),
}


def renewed(text: str, seen: Seen) -> str:
    """A README with every table made anew.

    Args:
        text: The README.
        seen: The whole matrix, as it is played in memory.

    Raises:
        ValueError: A table has no place in it.
    """
    for name, make in TABLES.items():
        place = re.compile(rf"(<!-- begin: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise ValueError(f"README.md has no place for the table {name!r}")
        table = make(seen)
        text = place.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
    return re.sub(r"All \d+ schedules", f"All {len(SCHEDULES)} schedules", text)


def main() -> None:
    """Play the matrix and write the README's tables anew."""
    to_run = matrix.cells(all_columns())
    with matrix.progress(quiet=False) as bar:
        task = bar.add_task("schedules", total=len(to_run))

        def advance(seen: Observation) -> None:
            bar.advance(task)

        seen = anyio.run(matrix.run, to_run, advance)
    README.write_text(renewed(README.read_text(encoding="utf-8"), seen), encoding="utf-8")


if __name__ == "__main__":
    main()
