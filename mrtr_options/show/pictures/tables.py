"""What is better read than looked at: tables and diffs, in Markdown.

Everything here is the same in every run, so a test can hold what is kept against it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

from mrtr_options.bench.history import History
from mrtr_options.bench.observations import Observation, observe
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.show.pictures.style import Markdown
from mrtr_options.show.terminal import markdown
from mrtr_options.tool.author_code import BASELINE, author_code, stat
from mrtr_options.tool.catalogue import Option

CONTEXT_LINES = 1


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markdown:
    """A table in Markdown."""
    return Markdown(markdown(head, rows))


def sizes() -> Markdown:
    """Lines of author code of every option, and of those what differs from E."""
    return table(
        ("option", "author lines", f"changed against {BASELINE}"),
        (
            (f"{row['option']} {row['name']}", str(row["author_lines"]), str(row["changed_lines"]))
            for row in stat()
        ),
    )


def diffs(baseline: Option, options: Iterable[Option]) -> Markdown:
    """What an author writes otherwise than under the baseline, for each option."""
    return Markdown("\n\n".join(_diff(baseline, option) for option in options if option != baseline))


def _diff(left: Option, right: Option) -> str:
    lines = difflib.unified_diff(_texts(left), _texts(right), n=CONTEXT_LINES, lineterm="")
    changes = [line for line in list(lines)[2:] if not line.startswith("@@")]
    heading = f"**{left.letter} to {right.letter}**. {right.title}"
    return "\n".join([heading, "", "```diff", *changes, "```"])


def _texts(option: Option) -> list[str]:
    return [line.text for line in author_code(option.source)]


def clients(histories: Iterable[tuple[Option, History]]) -> Markdown:
    """What each kind of client sees of each option in a clean call: effects, rounds, questions."""
    cells: dict[Option, dict[str, str]] = {}
    heads: dict[str, None] = {}
    for option, history in histories:
        each = observe(history)
        head = f"{each.era}, {history.location}"
        heads[head] = None
        effects = f"{each.effects['audit']}/{each.effects['bill']}"
        ends = (
            "error"
            if each.outcome != "completed"
            else f"{each.rounds} sent, {len(each.questions)} asked"
        )
        cells.setdefault(option, {})[head] = f"{effects}, {ends}"
    return table(
        ("option", *heads),
        ((f"{option.letter} {option.name}", *row.values()) for option, row in cells.items()),
    )


def ways_to_be_hurt(observations: Sequence[Observation]) -> list[tuple[int, list[str]]]:
    """Schedules grouped by identical outcome for every option, the worst first.

    Schedules whose destination honours idempotency keys show a remedy and are left out.

    Args:
        observations: Of one era and one deployment.

    Returns:
        How many effects too many and calls without a result all options come to together, and the
        schedules with which they do.
    """
    rows: dict[str, list[Observation]] = {}
    for seen in observations:
        if not seen.wrappers and not SCHEDULES[seen.schedule].honours_keys:
            rows.setdefault(seen.schedule, []).append(seen)
    same: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for slug, row in rows.items():
        same.setdefault(tuple((seen.cell, _surplus(seen)) for seen in row), []).append(slug)
    clean = Counter({seen.option: _surplus(seen) for seen in rows["clean-springfield"]})
    found = [
        (sum(max(0, _surplus(seen) - clean[seen.option]) for seen in rows[slugs[0]]), slugs)
        for slugs in same.values()
    ]
    return sorted(found, key=lambda each: -each[0])


def _surplus(seen: Observation) -> int:
    too_many = sum(max(0, seen.most(effect) - seen.calls) for effect in ("audit", "bill"))
    return too_many + (seen.outcome in ("refused", "lost", "hung"))


def hurts(found: Sequence[tuple[int, list[str]]]) -> Markdown:
    """The worst ways to be hurt as a table."""
    return table(
        ("damage", "schedule", "what it models", "identical outcome"),
        (
            (
                str(damage),
                f"`{first}`",
                SCHEDULES[first].models,
                ", ".join(f"`{slug}`" for slug in others) or "none",
            )
            for damage, (first, *others) in found
        ),
    )
