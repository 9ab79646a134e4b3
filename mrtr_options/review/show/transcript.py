"""A run as text, row by row as it happens, and its end.

Knows rows, anomalies and the terminal.
"""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from mrtr_options.review.bench.history import Effect, Event, History
from mrtr_options.review.bench.narrate import Narrator, Row
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.facts import anomalies_in, observe
from mrtr_options.terminal import counts, print_step


class Transcript:
    """A printer of a run's events as they happen.

    A look at a task is printed if something has changed.
    """

    def __init__(self, out: Console) -> None:
        self._out = out
        self._narrator = Narrator()

    def __call__(self, event: Event) -> None:
        for row in self._narrator.rows(event):
            if not row.quiet:
                self._print(row)

    def _print(self, row: Row) -> None:
        mark = "again" if row.again else ""
        if row.lost and row.end is not None:
            mark = "does not arrive"
        print_step(self._out, row.kind, row.wire or (row.text,), row.round, mark)


def end_of(history: History) -> Text:
    """Return the end of a call in a line: its outcome, its counts, and its anomalies."""
    seen = observe(history)
    shown = anomalies_in(history)
    found = ", ".join(each.name for each in ANOMALIES if each.name in shown)
    return Text.assemble(
        f"  the call ended as {seen.outcome.replace('_', ' ')}, audit/bill ",
        counts(seen.most("audit"), seen.most("bill")),
        ": ",
        (found or "no anomaly", "bold red" if found else "green"),
    )


def note_on_keys(history: History) -> str:
    """Return a note if the destination ignored the key of two bills; else ""."""
    effects = [event.effect for event in history.events if isinstance(event, Effect)]
    bills = Counter(effect.key for effect in effects if effect.kind == "bill" and effect.key)
    ignored = history.scenario.setup.destination == "ignores keys"
    if not ignored or max(bills.values(), default=0) < 2:
        return ""
    return "  the destination ignored the key of a bill; --destination honours-keys does not"
