"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import Any

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

from mrtr_options.terminal import console, plural

SILENT_SECONDS = 2.0
"""The time that a step may take before it is named."""


class AtWork(ProgressColumn):
    """A column that names the step at work once it takes longer than `SILENT_SECONDS`."""

    def render(self, task: Task) -> Text:
        """Return the name, or ""."""
        name = task.fields.get("step", "")
        since = task.fields.get("since", 0.0)
        is_slow = task.get_time() - since > SILENT_SECONDS
        return Text(name if is_slow else "", "dim")


class _Bar(Progress):
    def stop(self) -> None:
        self.live.stop()  # rich adds an empty line in a pipe


def progress(*, quiet: bool) -> Progress:
    """Make a progress bar on standard error; in a pipe it prints only the lines of `stepping`.

    Args:
        quiet: Show nothing.
    """
    shown_on = console(stderr=True, quiet=quiet)
    return _Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        AtWork(),
        console=shown_on,
        auto_refresh=shown_on.is_terminal and not quiet,  # drawing takes time from the work
        refresh_per_second=4,
        transient=True,
    )


def stepping(bar: Progress, task: TaskID) -> Callable[[str], None]:
    """Return the function to call with the name of each step of a task as it begins.

    Where there is no terminal to draw a bar on, a step that takes longer than `SILENT_SECONDS` is
    named on a line of its own.
    """
    timer: Timer | None = None

    def begin(step: str) -> None:
        nonlocal timer
        bar.update(task, advance=1, step=step, since=bar.get_time())
        if timer is not None:
            timer.cancel()
        if not (bar.console.is_terminal or bar.console.quiet):
            timer = Timer(SILENT_SECONDS, name, [step])
            timer.daemon = True
            timer.start()

    def name(step: str) -> None:
        begun = max(bar.tasks, key=lambda each: each.fields.get("since", 0.0))
        if bar.live.is_started and begun.id == task:  # nothing has ended it
            now = bar.tasks[task]
            of = "" if now.total is None else f" of {now.total:.0f}"
            bar.console.print(f"{now.description}, {now.completed:.0f}{of}: {step}")

    return begin


@contextmanager
def counting(
    label: str, total: int | None, *, quiet: bool = False
) -> Generator[Callable[[str], None]]:
    """Show a bar for some steps; yield the function of `stepping`. None is an unknown number."""
    with progress(quiet=quiet) as bar:
        yield stepping(bar, bar.add_task(label, total=total))


@contextmanager
def sharing(calls: Mapping[Any, int], *, quiet: bool) -> Generator[Callable[[int, int, str], None]]:
    """Show a bar for calls that are explored.

    Yields a function that takes how many shares are done, how many are known, and the last one's
    name.
    """
    with progress(quiet=quiet) as bar:
        most = plural(max(calls.values(), default=0), "fault")
        task = bar.add_task(f"up to {most}", total=len(calls))
        step = stepping(bar, task)

        def on_share(done: int, of: int, name: str) -> None:
            bar.update(task, completed=done - 1, total=of)
            step(name)

        yield on_share
