"""A proposal that is written in a notebook's cell, and what the review has to say of it."""

from __future__ import annotations

from collections.abc import Collection

from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.scratch import scratch
from mrtr_options.judge.check import Report, check_file
from mrtr_options.judge.contract import RULES
from mrtr_options.show.explore import short
from mrtr_options.show.pictures.style import Markdown
from mrtr_options.show.pictures.tables import table
from mrtr_options.show.terminal import plural


async def review(source: str, guarantees: str, only: Collection[str] = ()) -> Report:
    """Put the text of an option file through the review.

    Args:
        source: The file.
        guarantees: What it guarantees, as it would stand in `proposal.toml` beside it.
        only: The schedules that are played; all that have names by default.

    Raises:
        CannotLoad: It is not an option that can be run.
    """
    with scratch() as folder:
        path = folder / "proposal.py"
        path.write_text(source, encoding="utf-8")
        path.with_suffix(".toml").write_text(guarantees, encoding="utf-8")
        return await check_file(path, seconds=0, faults=0, only=only or SCHEDULES)


def said(report: Report) -> Markdown:
    """The verdict: which option it is most like, and what it breaks."""
    assert report.nearest is not None
    runs = plural(report.runs, "run")
    differs = len({own.schedule for own, _ in report.nearest.differs})
    lines = [
        f"{runs} were made.",
        "",
        f"Nearest option: {short(report.nearest.option)}, which does otherwise under"
        f" {plural(differs, 'schedule')}.",
        "",
    ]
    if report.holds:
        return Markdown("\n".join([*lines, "**No guarantee is broken.**"]))
    rows: list[tuple[str, ...]] = [
        (f"**{each.rule}**", RULES[each.rule], f"`{each.case.schedule.slug}`", each.violation.came)
        for each in report.findings
    ]
    for name in dict.fromkeys(each.guarantee.name for each in report.broken):
        found = [each for each in report.broken if each.guarantee.name == name]
        where = ", ".join(f"`{slug}`" for slug in dict.fromkeys(each.seen.schedule for each in found))
        rows.append((f"**{name}**", found[0].guarantee.says, where, found[0].why))
    return Markdown(
        "\n".join([*lines, table(("broken", "what was guaranteed", "seen under", "what came"), rows)])
    )
