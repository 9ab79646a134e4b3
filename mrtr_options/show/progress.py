"""How far a command is that takes a while, and what it is doing, on standard error."""

from __future__ import annotations

from collections.abc import Callable

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from mrtr_options.show.terminal import console

SILENT_SECONDS = 2.0
"""How long a step may take before it is named."""


class AtWork(ProgressColumn):
    """Names the step at work once it takes longer than `SILENT_SECONDS`."""

    def render(self, task: Task) -> Text:
        """The name, or nothing."""
        name, since = task.fields.get("step", ""), task.fields.get("since", 0.0)
        return Text(name if task.get_time() - since > SILENT_SECONDS else "", "dim")


def progress(*, quiet: bool, clock: Callable[[], float] | None = None) -> Progress:
    """A progress bar on standard error.

    Args:
        quiet: Show nothing.
        clock: Reads seconds; None for the monotonic clock.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        AtWork(),
        console=console(stderr=True, quiet=quiet),
        get_time=clock,
        transient=True,
    )


def stepping(bar: Progress, task: TaskID) -> Callable[[str], None]:
    """What to call with the name of each step of a task as it begins."""

    def begin(step: str) -> None:
        bar.update(task, advance=1, step=step, since=bar.get_time())

    return begin
