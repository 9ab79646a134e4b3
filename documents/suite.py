"""The official suite's result for each style, beside the faults that were explored."""

from __future__ import annotations

from documents import explored
from documents.findings import group_rows
from mrtr_options.review.explore import summary as explore
from scoreboard.conformance.report import Results, passed

NEVER = explored.never_from("../../")
ANOMALIES = ("charged twice", "charged, told of an error", "call lost")


def beside_faults(kept: Results) -> str:
    """Return the suite's result for each style, beside the weakest faults that show an anomaly."""
    rows = {row["subject"]: row for row in explored.read() if row["policy"] == "resends"}
    cells: dict[str, list[str]] = {}
    for style, results in kept.results.items():
        suite = passed(results)
        cells[style] = [suite["multi-round"] or suite["Tasks"]]
        for name in ANOMALIES:
            row = rows.get(style)
            cells[style].append("" if row is None else explore.weakest(row, name, NEVER))
    return group_rows(("styles", "the suite passes", *ANOMALIES), cells.items())
