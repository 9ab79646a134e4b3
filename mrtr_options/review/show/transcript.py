"""A run as text, row by row as it happens, and its end.

Knows rows, anomalies and the terminal.
"""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from mrtr_options.review.bench.history import Effect, Event, History
from mrtr_options.review.bench.narrate import Narrator, Row, RowKind
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.facts import anomalies_in, observe
from mrtr_options.terminal import counts

_INDENT = 15
"""The indent of the rest of a line that is too wide."""

_LOOKS: dict[RowKind, tuple[str, str]] = {
    "request": ("", "bold"),
    "response": ("", "bold"),
    "task": ("task", "magenta"),
    "question": ("question", "green"),
    "answer": ("answer", "green"),
    "effect": ("effect", "yellow"),
    "failure": ("fault", "red"),
    "crash": ("fault", "red"),
    "change": ("fault", "red"),
    "time": ("time", ""),
}
"""The label of each kind of row, and its style."""


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
        before, style = _LOOKS[row.kind]
        arrow = "  "
        if row.kind == "request":
            before = f"round {row.round}"
            arrow = "-> (again)" if row.again else "->"
        elif row.kind == "response":
            arrow = "<- (does not arrive)" if row.lost and row.end is not None else "<-"
        first, *more = row.wire or (row.text,)
        self._line(before, f"{arrow} {first}", style)
        for line in more:
            self._line("", f"   {line}", shorten=True)

    def _line(self, label: str, text: str, style: str = "", *, shorten: bool = False) -> None:
        says = Text(text, style)
        width = self._out.width - _INDENT
        if shorten:
            says.truncate(width, overflow="ellipsis")
        for number, line in enumerate(says.wrap(self._out, width)):
            begins = f"  {label:<9} " if number == 0 else " " * _INDENT
            line.rstrip()
            self._out.print(Text(begins).append_text(line))


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
