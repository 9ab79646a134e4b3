"""The tables of README.md and docs/ that are made from the options' runs, and the pictures.

A test makes all of them and fails if one differs from the document. The sets of faults take
minutes; they are read from the last kept exploration (`--explore` makes it again).

Knows what the review finds and how it is shown; nothing of the text around the tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import anyio

from documents import ROOT, explored, findings
from model.drawing import GuardGraph
from mrtr_options.review.bench.deployments import Offered, offered
from mrtr_options.review.bench.faults import PLAYABLE, in_words, parse
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.steps import Together
from mrtr_options.review.bench.subjects import Subject, all_subjects, subject_named
from mrtr_options.review.explore import NOT_TRIED
from mrtr_options.review.explore import summary as explore
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.judge.observation import Observation
from mrtr_options.review.show.tables import markdown
from mrtr_options.sdk.reasons import Reason
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.author_code import author_code, unified
from mrtr_options.tool.catalogue import DURABLE, Option, all_options, option_named
from mrtr_options.tool.guarantees import Guarantees
from mrtr_options.tool.notation import list_in_text

PICTURES: dict[Path, GuardGraph | findings.Counterexample] = {
    ROOT / "docs" / "pictures" / "guard.svg": GuardGraph(),
    **{
        ROOT / "docs" / "results" / "findings" / f"{name}.svg": each
        for name, each in findings.COUNTEREXAMPLES.items()
    },
}
"""What each picture shows, by its file: counterexamples, and the model's guard."""

CLEAN = ("clean-tokyo", "clean-springfield")

ON_TWO = ("failover", "sticky", "missent", "lost-final")

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
    """Return every document with generated parts."""
    issue = ROOT / "scoreboard" / "conformance" / "scenarios" / "ISSUE.md"
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), issue]


# --- the README's tables ------------------------------------------------------------------------


FAULTS = 2
"""The number of faults at a time that are tried for the documents."""

LEADING: dict[str, tuple[str, str]] = {
    "client calls again: charged twice": ("calls again", "charged twice"),
    **{
        f"client resends: {name}": ("resends", name)
        for name in (
            "charged twice",
            "charged, told of an error",
            "logged twice",
            "asked twice",
            "call lost",
        )
    },
}
"""The columns of RESULTS' first table: a client and an anomaly, money first. RESULTS shows all."""

LEGEND = (
    " The first column is for a client that calls again when\n"
    "the result is lost, the others are for one that resends the lost request."
    " Each cell names the\n"
    "fewest faults that cause the failure ([all](#anomalies)). The destination ignores idempotency"
    " keys.\n"
    "*Never*: no run shows it, and no state of the model, under any number of faults and"
    " [conditions](../MODEL.md#conditions)."
)

IN_WRAPPERS = (
    "F+guard",
    "F+guard+call-key",
    "J+guard+call-key",
    "J+guard+named",
)
"""The options in wrappers that the first table shows; the other tables show all."""


def leading(runs: Runs) -> str:
    """Return README's first table: the fewest faults that cause some anomalies, by behaviour.

    Some options in wrappers share a row if their cells are equal. Below is what a redeploy may do.
    """
    lines: dict[tuple[str, ...], list[str]] = {}
    rows = explored.read()
    for behaviour in sorted(explore.behaviours(rows), key=_place):
        cells = tuple(
            _in_words(behaviour.rows[policy], anomaly) for policy, anomaly in LEADING.values()
        )
        shown = [each for each in behaviour.subjects if "+" not in each or each in IN_WRAPPERS]
        if shown:
            alone = "" if "+" in shown[0] else shown[0]
            lines.setdefault((alone, *cells), []).extend(shown)
    failures = table(
        ("", *LEADING), ((_together(names), *cells) for (_, *cells), names in lines.items())
    )
    return "\n\n".join([count_behaviours() + LEGEND, failures, *_not_compared(rows), _stale(runs)])


def _place(behaviour: explore.Behaviour) -> int:
    """Return the sort key of a behaviour: compared options, then other options, then wrappers."""
    if any("+" not in each for each in behaviour.subjects):
        return 0 if behaviour.is_compared else 1
    return 2


def _not_compared(rows: Sequence[explore.Row]) -> list[str]:
    """Return a line for each option that was not tried under every kind of fault, with why."""
    alone = [row for row in rows if "+" not in row["subject"]]
    return [f"- {line}" for line in explore.not_tried_in(alone)]


def _together(subjects: Sequence[str]) -> str:
    """Return some subjects as one cell: "A to L", "F, H; F, guarded"."""
    every = [*all_options()]
    return list_in_text(subjects).replace(", ".join(every), f"{every[0]} to {every[-1]}")


def _in_words(row: explore.Row, anomaly: str) -> str:
    sets = row["witnesses"].get(anomaly)
    if sets is None:
        said = explore.weakest(row, anomaly, explored.never_from("../"))
        return said if said.startswith(NOT_TRIED) else f"✓ {said}"
    weakest = weakest_of(sets)
    return f"✗ {in_words(parse(weakest) if weakest else ())}"


def count_behaviours() -> str:
    """Count the behaviours of the options that were tried under every kind of fault, and the runs.

    An option with a kind of fault that was not tried is in no behaviour, and is named beside them.
    """
    rows = [row for row in explored.read() if "+" not in row["subject"]]
    behaviours = explore.behaviours(rows)
    compared = [each for each in behaviours if each.is_compared]
    others = [subject for each in behaviours if not each.is_compared for subject in each.subjects]
    options = sum(len(each.subjects) for each in compared)
    runs = sum(sum(each.histories.values()) for each in compared)
    apart = f" **{' '.join(others)}** stands apart: not all faults were tried." if others else ""
    return (
        f"**Under faults, the {options} options behave in {len(compared)} ways**, the first"
        f" {len(compared)} rows. Options in one row fail under the\nsame sets of up to {FAULTS}"
        f" faults ({runs:,} runs).{apart}"
    )


def list_author_code() -> str:
    """Return a table of what the author of each option writes."""
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
    """Return what the author of an option writes: one sentence of the option's docstring."""
    found = re.search(
        r"^What the author writes: (.*?\.)(?:\s|\Z)", source, re.MULTILINE | re.DOTALL
    )
    return " ".join(found[1].removesuffix(".").split()) if found else ""


# --- results ------------------------------------------------------------------------------------


def rows(runs: Runs, *slugs: str, era: Era = "modern", deployment: str = "one") -> str:
    """Return rows of the matrix as a table, without its caption."""
    _, missing = grid.split(
        _in(runs),
        schedules=[SCHEDULES[slug] for slug in slugs],
        eras=[era],
        deployments=[deployment],
    )
    found = [
        each
        for slug in slugs
        for each in runs
        if (each.schedule, each.era, each.deployment) == (slug, era, deployment)
    ]
    return markdown(found, missing).partition("\n\n")[2]


def _in(runs: Runs) -> list[Subject]:
    """Return the subjects of some runs."""
    names = {each.subject for each in runs}
    return [subject for subject in all_subjects() if subject.name in names]


def compare_guarantees() -> str:
    """Return a table of what each option guarantees besides its counts."""
    lines: list[Sequence[str]] = []
    for option in all_options().values():
        own = option.guarantees
        if own is None:
            continue
        lines.append(
            (
                f"{option.letter} {option.name}",
                own.reexecution,
                _home(option, own),
                "yes" if "failover" in own.survives else "no",
                "yes" if "restart" in own.survives else "no",
                "all questions" if own.asks_legacy else "an assumption or an error",
            )
        )
    return table(
        ("option", "re-execution", "the call lives in", "failover", "restart", "old client gets"),
        lines,
    )


def _home(option: Option, own: Guarantees) -> str:
    if "restart" not in own.survives:
        return "memory"
    return "a database" if option.extra == DURABLE else "the state"


REDEPLOYS = [schedule for schedule in SCHEDULES.values() if schedule.scenario.changes]
"""The schedules in which an open call meets another version."""


def play_redeploys() -> Runs:
    """Play every redeploy with every option, on two instances."""
    return anyio.run(
        grid.run,
        grid.cells([*map(subject_named, all_options())], schedules=REDEPLOYS, deployments=["two"]),
    )


def compare_redeploys(runs: Runs) -> str:
    """Return a table of how open calls ended in each redeploy; "stale" stands out in bold."""
    letters = list(all_options())
    fates = {(each.schedule, each.subject): each.fate for each in runs if each.deployment == "two"}
    lines: list[Sequence[str]] = []
    for schedule in REDEPLOYS:
        row = [fates.get((schedule.name, letter), NOT_TRIED) or "" for letter in letters]
        cells = ["**stale**" if fate == "stale" else fate for fate in row]
        lines.append((f"`{schedule.name.removeprefix('redeploy-')}`", *cells))
    return table(("redeploy", *letters), lines)


def _stale(runs: Runs) -> str:
    """Return a sentence on the options that may take an old answer for a changed question."""
    found = {each.subject for each in runs if each.fate == "stale" and each.schedule in SCHEDULES}
    letters = " ".join(letter for letter in all_options() if letter in found)
    _, missing = grid.split(_in(runs), eras=["modern"])
    left_out = {cell.subject.name for cell in missing}
    others = " ".join(letter for letter in all_options() if letter in left_out)
    untried = f" Not tried: **{others}**." if others else ""
    return (
        f"After a redeploy that changes a question, **{letters}**\nmay take the answer to the old"
        " question for the new one ([redeploys](#redeploys)): give a changed question"
        f" a new key.{untried}"
    )


def tasks(runs: Runs) -> str:
    """Return a table of how tasks ended, for the options that hand them out, on two instances."""
    schedules = [schedule for schedule in SCHEDULES.values() if schedule.scenario.takes_tasks]
    letters = [letter for letter, option in all_options().items() if option.takes_tasks]
    found = {(each.schedule, each.subject): each.cell for each in runs if each.deployment == "two"}
    lines: list[Sequence[str]] = []
    for schedule in schedules:
        # A race may end in either way.
        is_race = any(isinstance(step, Together) for step in schedule.scenario.script)
        cells = [
            "one of the two" if is_race else found[schedule.name, letter] for letter in letters
        ]
        lines.append((f"`{schedule.name.removeprefix('task-')}`", schedule.why, *cells))
    return table(("task", "what happens", *letters), lines)


def anomalies() -> str:
    """Return the weakest fault of each anomaly, from the kept rows; empty where none was seen."""
    table_of_all = explore.markdown(explored.read())
    return re.sub(r" not seen \(≤ \d\) (?=\|)", "  ", table_of_all)


def kinds_of_anomaly() -> str:
    """Return a table of the anomalies."""
    rows = ((each.name, each.says, each.harms) for each in ANOMALIES)
    return table(("anomaly", "what it is", "who is harmed"), rows)


def kinds_of_fault() -> str:
    """Return a table of the kinds of fault, with what a deployment needs for each."""
    rows = (
        (f"`{each.name}`", each.says, ", ".join(sorted(each.needs))) for each in PLAYABLE.values()
    )
    return table(("fault", "what happens", "needs"), rows)


def deployments() -> str:
    """Return a table of the deployments: how many schedules can be played, and which cannot."""
    lines: list[Sequence[str]] = []
    for each in offered().values():
        reasons = [_reason(each, schedule.scenario) for schedule in SCHEDULES.values()]
        out = "; ".join(dict.fromkeys(filter(None, reasons)))
        lines.append((f"`{each.name}`", each.says, str(reasons.count("")), out))
    return table(("deployment", "what it is", "schedules", "without those"), lines)


def refusals() -> str:
    """Return the meaning of each reason of a refusal."""
    rows = [
        (
            f"`{each}`",
            each.meaning.known,
            each.meaning.then,
            "perhaps" if each.meaning.may_have_happened else "no",
            "" if each.meaning.retry_after is None else f"{each.meaning.retry_after:g} s",
        )
        for each in Reason
    ]
    heads = ("reason", "what is known", "what to do", "may have happened", "retry after")
    return table(heads, rows)


def rules() -> str:
    """Return a table of the rules of the contract."""
    lines: list[tuple[str, str, str]] = []
    for rule in RULES.values():
        source = rule.source or "the contract"
        if not rule.in_verdict:
            source += " (*told*)"
        lines.append((f"`{rule.name}`", rule.says, source))
    return table(("rule", "what it says", "source"), lines)


def _reason(on: Offered, scenario: Scenario) -> str:
    """Return why a schedule cannot be played in a deployment; empty if it can."""
    alone = "that need a second instance" if on.instances == 1 and scenario.needs_two else ""
    return on.where.cannot(scenario) or alone


def diff_of_e_and_f() -> str:
    """Return the difference between the author's code of E and of F."""
    left = option_named("E")
    right = option_named("F")
    here, there = (author_code(each.source) for each in (left, right))
    lines = unified(here, there, (left.path.name, right.path.name))
    return "\n".join(["```diff", *lines, "```"])
