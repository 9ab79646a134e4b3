"""The generated parts of README.md and docs/: `python -m mrtr_options.show.docs` writes them anew.

A generated part stands between two comments that name it; a picture is a file of its own. A test makes
all of them from runs and fails when one differs from what is kept. The tables of cost and of the
official suite are made from the last run of each that was kept.

Knows what the review finds and how it is shown; nothing of what the documents say around the tables.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from mrtr_options.bench.explore import Policy
from mrtr_options.bench.history import Era
from mrtr_options.bench.observations import Observation
from mrtr_options.bench.runs import Place
from mrtr_options.bench.schedules import SCHEDULES, AtOnce
from mrtr_options.bench.subjects import CALL_KEY, all_columns
from mrtr_options.conformance import report as conformance
from mrtr_options.cost import report as cost
from mrtr_options.judge import matrix
from mrtr_options.judge.anomalies import ANOMALIES
from mrtr_options.show import explore, findings
from mrtr_options.show.matrix import markdown
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import Parser, refuse, run
from mrtr_options.show.terminal import markdown as table
from mrtr_options.tool.author_code import author_code, unified
from mrtr_options.tool.catalogue import DURABLE, Option, all_options, option_named
from mrtr_options.tool.guarantees import Guarantees

ROOT = Path(__file__).parents[2]
PICTURES = {
    ROOT / "docs" / "lost-final.svg": findings.Witness(
        "E: the last response is lost, and the client retries", "E", faults="lost3"
    ),
    **{ROOT / "docs" / "findings" / f"{name}.svg": each for name, each in findings.WITNESSES.items()},
}
"""Files of their own, and what they show."""

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

Runs = Sequence[Observation]


def documents() -> list[Path]:
    """Every document with generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


# --- the README's table -------------------------------------------------------------------------


LEADING = ("duplicate bill", "orphan bill", "duplicate audit", "lost call")
"""The anomalies that the README shows, money first; RESULTS shows all."""


IN_WRAPPERS = ("F+single-use", "F+single-use+call-key", "J+single-use+call-key")
"""The options in wrappers that the README shows; RESULTS shows all."""


def leading(runs: Runs) -> str:
    """One row per option, and for some in wrappers: the weakest faults that show an anomaly with each
    kind of client, whether an old client is asked, and what the option costs."""
    head = ("option", *LEADING, "old client", "lines", "cost")
    lines: list[Sequence[str]] = []
    costs = cost.times_the_floor(cost.read())
    ends = {
        seen.column: seen.outcome
        for seen in runs
        if (seen.schedule, seen.era, seen.deployment) == ("clean-springfield", "legacy", "one")
    }
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in kept_anomalies():
        if "+" in row["subject"] and row["subject"] not in IN_WRAPPERS:
            continue
        found.setdefault(row["subject"], {})[row["policy"]] = row
    for subject, by_policy in found.items():
        option = all_options()[subject[0]]
        lines.append(
            (
                f"[{explore.short(subject)} {option.name}](mrtr_options/{option.path.name})",
                *(
                    "<br>".join(explore.weakest(by_policy[policy], name) for policy in POLICIES).replace(
                        "never (≤ ", "never&nbsp;(≤&nbsp;"
                    )
                    for name in LEADING
                ),
                "asked" if ends[subject.removesuffix(f"+{CALL_KEY}")] == "completed" else "error",
                str(len(author_code(option.source))),
                costs.get(subject, ""),
            )
        )
    return table(head, lines)


POLICIES: tuple[Policy, ...] = ("call again", "retry")
"""What clients do today, and what they are asked to do."""


def written() -> str:
    """What the author of each option writes."""
    return table(
        ("option", "the author writes"),
        (
            (
                f"[{option.letter} {option.name}](../mrtr_options/{option.path.name})",
                author_writes(option.source),
            )
            for option in all_options().values()
        ),
    )


def author_writes(source: str) -> str:
    """What the author of an option writes: the first sentence of that paragraph in its docstring."""
    found = re.search(r"^What the author writes: (.*?\.)(?:\s|\Z)", source, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].removesuffix(".").split()) if found else ""


# --- which option -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """An answer to "which option?".

    Attributes:
        question: What decides for it, if the answer is yes.
        column: The option, as the matrix calls it.
        weak: The schedule that shows its weak spot.
        place: Where that is played.
        note: The mark of the page's footnote on that schedule, if there is one.
    """

    question: str
    column: str
    weak: str
    place: Place = "one"
    note: str = ""


CHOICES = (
    Choice(
        "Does the work outlast a request, for clients that take tasks?",
        "K",
        "task-killed-working",
    ),
    Choice(
        "Must a call outlive every process, at the price of a database in each round?",
        "L",
        "redeploy-reworded",
    ),
    Choice(
        "Is there one instance, or a balancer that routes by state?",
        "H",
        "restart",
    ),
    Choice(
        "Does no effect stand above a question, and is a second bill harmless?",
        "E",
        "lost-final",
        note="²",
    ),
    Choice(
        "Does every effect have a destination that honours an idempotency key?",
        "J",
        "redeploy-reworded-mixed",
        "two",
    ),
    Choice(
        "None of these: the default, F inside the single-use guard",
        "F+single-use",
        "lost-first",
    ),
)
"""Five questions, of which the first yes decides, and the default."""


def which(runs: Runs) -> str:
    """The choices, each with the run that shows its weak spot."""
    cells = {
        (each.column, each.schedule, each.deployment): each for each in runs if each.era == "modern"
    }
    lines: list[Sequence[str]] = []
    for number, choice in enumerate(CHOICES, start=1):
        letter = choice.column[0]
        weak = cells[choice.column, choice.weak, choice.place]
        name = letter if choice.column == letter else f"{letter}¹"
        path = all_options()[letter].path.name
        count = str(number) if number < len(CHOICES) else ""
        link = f"[**{name}**](../mrtr_options/{path})"
        spot = f"`{choice.weak}`{choice.note}"
        lines.append((count, choice.question, link, spot, weak.fate or weak.cell))
    return table(("", "", "option", "weak spot", ""), lines)


# --- results ------------------------------------------------------------------------------------


def rows(runs: Runs, *slugs: str, era: Era = "modern", place: Place = "one") -> str:
    """Rows of the matrix as a table, without its caption."""
    found = [
        each
        for slug in slugs
        for each in runs
        if (each.schedule, each.era, each.deployment) == (slug, era, place)
    ]
    return markdown(found).partition("\n\n")[2]


def guaranteed() -> str:
    """What each option guarantees besides its counts."""
    return table(
        ("option", "re-execution", "the call lives in", "failover", "restart", "old client gets"),
        (
            (
                f"{option.letter} {option.name}",
                own.reexecution,
                _home(option, own),
                "yes" if "failover" in own.survives else "no",
                "yes" if "restart" in own.survives else "no",
                "all questions" if own.asks_legacy else "an assumption or an error",
            )
            for option in all_options().values()
            if (own := option.guarantees) is not None
        ),
    )


def _home(option: Option, own: Guarantees) -> str:
    if "restart" not in own.survives:
        return "memory"
    return "a database" if option.extra == DURABLE else "the state"


def redeployed(runs: Runs) -> str:
    """What became of the calls that were open in a redeploy; "stale" stands out in bold."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.changes]
    letters = list(all_options())
    fates = {(each.schedule, each.column): each.fate for each in runs if each.deployment == "two"}
    lines: list[Sequence[str]] = []
    for schedule in schedules:
        row = [fates.get((schedule.slug, letter)) or "" for letter in letters]
        cells = ["**stale**" if fate == "stale" else fate for fate in row]
        lines.append((f"`{schedule.slug.removeprefix('redeploy-')}`", *cells))
    return table(("redeploy", *letters), lines)


def tasks(runs: Runs) -> str:
    """What became of the tasks of the options that hand them out, on two instances."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.takes_tasks]
    letters = [letter for letter, option in all_options().items() if option.takes_tasks]
    found = {(each.schedule, each.column): each.cell for each in runs if each.deployment == "two"}
    lines: list[Sequence[str]] = []
    for schedule in schedules:
        # A race may end in either way.
        is_race = any(isinstance(step, AtOnce) for step in schedule.script)
        cells = ["one of the two" if is_race else found[schedule.slug, letter] for letter in letters]
        lines.append((f"`{schedule.slug.removeprefix('task-')}`", schedule.models, *cells))
    return table(("task", "what happens", *letters), lines)


def anomalies() -> str:
    """The weakest fault that shows each anomaly, and what is proved, as it was last kept."""
    rows = kept_anomalies()
    proved: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["proved"] is not None:
            proved.setdefault(row["proved"], {})[row["subject"]] = None
    proofs = [f"- {', '.join(subjects)}: {says}." for says, subjects in proved.items()]
    return "\n".join([explore.markdown(rows), "", "What is proved:", "", *proofs])


def kinds_of_anomaly() -> str:
    """What each anomaly is."""
    rows = ((each.name, each.says, each.harms) for each in ANOMALIES)
    return table(("anomaly", "what it is", "who is harmed"), rows)


def kept_anomalies() -> list[dict[str, Any]]:
    """What `explore --json` printed when it was last kept."""
    return json.loads(explore.FILE.read_text(encoding="utf-8"))


def diff_of_e_and_f() -> str:
    """E against F, author code only."""
    left, right = option_named("E"), option_named("F")
    here, there = (author_code(each.source) for each in (left, right))
    lines = unified(here, there, (left.path.name, right.path.name))
    return "\n".join(["```diff", *lines, "```"])


# --- costs --------------------------------------------------------------------------------------


def costs() -> str:
    """The figures of the run that is kept, in one table."""
    report = cost.read()
    head = [each.replace("\n", " ") for each in cost.HEAD]
    return "\n\n".join([table(head, cost.table(report)), *cost.notes(report)])


# --- the documents ------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Runs], str]] = {
    "leading": leading,
    "author writes": lambda runs: written(),
    "which": which,
    "clean calls, modern": lambda runs: rows(runs, "clean-tokyo", "clean-springfield"),
    "clean calls, legacy": lambda runs: rows(runs, "clean-tokyo", "clean-springfield", era="legacy"),
    "lost responses": lambda runs: rows(runs, *matrix.LOST_RESPONSES),
    "duplicates and crashes": lambda runs: rows(runs, *AGAIN),
    "two instances": lambda runs: rows(runs, "failover", "sticky", "lost-final", place="two"),
    "guarantees": lambda runs: guaranteed(),
    "redeploys": redeployed,
    "redeploys, effects": lambda runs: rows(runs, "redeploy-effect", "redeploy-effect-back"),
    "tasks": tasks,
    "E against F": lambda runs: diff_of_e_and_f(),
    "costs": lambda runs: costs(),
    "kinds of anomaly": lambda runs: kinds_of_anomaly(),
    "anomalies": lambda runs: anomalies(),
    "conformance": lambda runs: conformance.markdown(conformance.read()),
    **findings.parts(kept_anomalies),
}
_PLACE = re.compile(r"(<!-- begin: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(text: str, runs: Runs) -> str:
    """A document with its generated parts made anew; the clients' are made by `make clients`.

    Args:
        text: The document.
        runs: The whole matrix, as it is played in memory.
    """

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}{PARTS[found[2]](runs)}\n{found[3]}" if found[2] in PARTS else found[0]

    text = _PLACE.sub(made, text)
    return re.sub(r"has \d+ schedules", f"has {len(SCHEDULES)} schedules", text)


def write() -> int:
    """Play the matrix and write every generated part anew; returns the exit code."""
    to_run = matrix.cells(all_columns())
    with progress(quiet=False) as bar:
        task = bar.add_task("schedules", total=len(to_run))
        runs = anyio.run(matrix.run, to_run, stepping(bar, task))
    for path, witness in PICTURES.items():
        path.write_text(witness.drawing, encoding="utf-8")
    for path in documents():
        path.write_text(renewed(path.read_text(encoding="utf-8"), runs), encoding="utf-8")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.show.docs",
        description="Plays the matrix and writes the generated parts of README.md and docs/ anew.",
        allow_abbrev=False,
    )
    parser.parse_args(argv)
    if not (ROOT / "docs").is_dir():
        refuse("there are no documents beside this package; run it in a clone of the repository")
    return run(write)


if __name__ == "__main__":
    sys.exit(main())
