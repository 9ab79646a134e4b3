"""How this package's commands talk to a terminal: consoles, and refusals of one line.

Knows `rich` and `argparse`; nothing of MCP, so that a command can be refused without importing it.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn, cast

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from mrtr_options.errors import UsageError, refuse
from mrtr_options.names import nearest

PROGRAM = "python -m mrtr_options"
"""How the commands are started."""

PIPED_COLUMNS = 100
"""How wide the output is where neither a terminal nor `COLUMNS` says."""


class _Console(Console):
    """A console that does not pad lines. Once its reader has gone each print fails, until `run`
    ends the program.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return re.sub(r" +(?=\n)", "", super()._render_buffer(buffer))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console on standard output (or standard error) that prints text as it is, without
    markup.
    """
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED_COLUMNS
    return _Console(
        file=stream, width=width, quiet=quiet, highlight=False, markup=False, emoji=False
    )


@contextmanager
def paged(out: Console) -> Generator[None]:
    """Show what is printed in the block through a pager, if this is a terminal."""
    if not out.is_terminal:
        yield
        return
    os.environ.setdefault(
        "LESS", "FRX"
    )  # with colours, and ends by itself where a screen is enough
    with out.pager(styles=True):
        yield


def in_colour(out: Console) -> bool:
    """Whether a console shows colours; where it does not, words or marks say the same."""
    return out.color_system is not None and not out.no_color


def run(command: Callable[[], int]) -> int:
    """Run a command to its exit code; 2 after bad input, said in one line; 130 after Ctrl-C; 0 if
    its reader has gone (`| head`).
    """
    try:
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except UsageError as error:
        if error.details:
            print(error.details.rstrip("\n"), file=sys.stderr)
        refuse(error.reason)
    except (BrokenPipeError, BaseExceptionGroup) as error:
        # What is printed inside a task group fails as a part of that group.
        if isinstance(error, BaseExceptionGroup):
            for usage in _each(error):
                if isinstance(usage, UsageError):
                    refuse(usage.reason)
            if error.split(BrokenPipeError)[1] is not None:
                raise
        _drop_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        refuse("no space is left for the output; free some, or write it elsewhere")
    return code


def _each(error: BaseException) -> Iterator[BaseException]:
    """An exception, or those of a group."""
    if isinstance(error, BaseExceptionGroup):
        for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _each(part)
    else:
        yield error


def _drop_output() -> None:
    """The interpreter flushes standard output once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses in one line, without the usage, and names what may be
    meant.
    """

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(
            self.prog, width=min(PIPED_COLUMNS, get_terminal_size().columns)
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = [*map(str, action.choices or ())]
        if str(value) not in known and (near := nearest(str(value), known)):
            refuse(f"there is no {''.join(action.option_strings) or 'command'} {value!r}; {near}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        refuse(f"{message}; see {self.prog} --help")


def interpreter() -> str:
    """The interpreter in use as people type it: its path from here, or `python` if it is
    elsewhere.
    """
    path, here = Path(sys.executable), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else "python"


def counts(audits: int, bills: int) -> Text:
    """Effect counts as "audit/bill", red where one was duplicated."""
    numbers = (Text(str(times), "bold red" if times > 1 else "") for times in (audits, bills))
    return Text("/").join(numbers)


def markdown(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def with_parts(text: str, part: Callable[[str], str | None]) -> str:
    """A document with its generated parts made again; `part` takes a name, and None leaves one
    alone.
    """

    def made(found: re.Match[str]) -> str:
        new = part(found[2])
        return found[0] if new is None else f"{found[1]}{new}\n{found[3]}"

    return re.sub(r"(<!-- begin: (.*?) -->\n).*?(<!-- end -->)", made, text, flags=re.DOTALL)


def plural(number: int, noun: str) -> str:
    """The number and the noun, as in "1 round" and "1,200 rounds"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"
