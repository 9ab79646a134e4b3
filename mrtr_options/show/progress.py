"""How far a command is that takes a while, on standard error."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mrtr_options.show.terminal import console


def progress(*, quiet: bool) -> Progress:
    """A progress bar on standard error."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console(stderr=True, quiet=quiet),
        transient=True,
    )
