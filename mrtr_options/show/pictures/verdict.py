"""A proposal that is written in a notebook's cell, and what the review has to say of it."""

from __future__ import annotations

from mrtr_options.bench.scratch import scratch
from mrtr_options.judge.check import Report, check_file
from mrtr_options.show.pictures.style import Markdown
from mrtr_options.show.pictures.tables import table


async def review(source: str, guarantees: str) -> Report:
    """Put the text of an option file through the review.

    Args:
        source: The file.
        guarantees: What it guarantees, as it would stand in `proposal.toml` beside it.

    Raises:
        CannotLoad: It is not an option that can be run.
    """
    with scratch() as folder:
        path = folder / "proposal.py"
        path.write_text(source, encoding="utf-8")
        path.with_suffix(".toml").write_text(guarantees, encoding="utf-8")
        return await check_file(path)


def said(report: Report) -> Markdown:
    """The verdict: what it survives, which option it is most like, and each broken guarantee."""
    assert report.nearest is not None
    broken = {each.seen.schedule for each in report.broken}
    played = {seen.schedule for seen in report.observations}
    runs, kept = len(report.observations), len(played - broken)
    lines = [
        f"{runs} runs of {len(played)} schedules; under {kept} of them every guarantee is kept.",
        "",
        f"Nearest option: {report.nearest.option}, which does otherwise under"
        f" {len({own.schedule for own, _ in report.nearest.differs})} schedules.",
        "",
    ]
    if not report.broken:
        return Markdown("\n".join([*lines, "**No guarantee is broken.**"]))
    names = list(dict.fromkeys(each.guarantee.name for each in report.broken))
    rows: list[tuple[str, ...]] = []
    for name in names:
        found = [each for each in report.broken if each.guarantee.name == name]
        schedules = dict.fromkeys(each.seen.schedule for each in found)
        where = ", ".join(f"`{slug}`" for slug in schedules)
        rows.append((f"**{name}**", found[0].guarantee.says, where, found[0].why))
    return Markdown(
        "\n".join([*lines, table(("broken", "what was guaranteed", "seen under", "why"), rows)])
    )
