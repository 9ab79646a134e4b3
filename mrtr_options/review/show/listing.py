"""The output of `schedules`: the names of faults and schedules, and the anomalies they show.

Knows the bench's data, the anomalies and the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mrtr_options.review.bench.faults import PLAYABLE
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore import NOT_TRIED
from mrtr_options.review.explore.counterexamples import Lists
from mrtr_options.review.show.tables import build_table
from mrtr_options.terminal import console, print_json
from mrtr_options.tool.notation import in_text, list_in_text


def show(
    subjects: Sequence[Subject],
    shown: Lists,
    left_out: Lists,
    *,
    as_json: bool,
) -> None:
    """Print every fault, and every schedule with its sentence and its anomalies in some subjects.

    See `play_schedules`. Without subjects, nothing was played.
    """
    faults = {name: kind.says for name, kind in PLAYABLE.items()}
    says = {slug: schedule.why for slug, schedule in SCHEDULES.items()}
    if as_json:
        found: dict[str, object] = {"faults": faults, "schedules": says}
        if subjects:
            found["anomalies"] = shown
        if left_out:
            found["not_tried"] = left_out
        print_json(found)
        return
    out = console()
    out.print(build_table(("fault", "what happens"), faults.items()))
    out.print()
    if subjects:
        on = f"shows, on {list_in_text(each.name for each in subjects)}"
        rows = ((slug, sentence, _describe_shown(shown[slug])) for slug, sentence in says.items())
        out.print(build_table(("schedule", "what happens", on), rows))
    else:
        out.print(build_table(("schedule", "what happens"), says.items()))
    for name, reasons in left_out.items():
        for why, slugs in reasons.items():
            out.print(f"{NOT_TRIED} on {in_text(name)}: {', '.join(slugs)} ({why})")


def _describe_shown(found: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(f"{name}: {list_in_text(where)}" for name, where in found.items())
