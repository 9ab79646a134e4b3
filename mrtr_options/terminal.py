"""The terminal of this package's commands: consoles, and refusals of one line.

Knows `rich` and `argparse`; nothing of MCP, so that a command can be refused without importing it.
"""

from __future__ import annotations

import argparse
import codecs
import errno
import json
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

PROGRAM = "mrtr-options" if Path(sys.argv[0]).name == "mrtr-options" else "python -m mrtr_options"
"""The beginning of every command line: the name that was used."""

PIPED_COLUMNS = 100
"""The width of the output if neither a terminal nor `COLUMNS` gives one."""


ASCII = {"≤": "<=", "×": "x", "…": "...", "—": "-", "°": ""}
"""Replacements for characters that an encoding lacks; a question mark replaces every other."""


def _prepare_output() -> None:
    """Have standard output show ASCII in place of characters that its encoding lacks.

    Output that the caller has closed (`>&-`) goes nowhere. Without that, the next
    file that is opened would have its number.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))
    codecs.register_error("mrtr-ascii", _in_ascii)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="mrtr-ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(ASCII.get(character, "?") for character in lacking), error.end


class _Console(Console):
    """A console that does not pad lines, and raises once its reader has gone (`| head`)."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return re.sub(r" +(?=\n)", "", super()._render_buffer(buffer))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console on standard output or error that prints text as it is, without markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else get_terminal_size((PIPED_COLUMNS, 0)).columns
    return _Console(
        file=stream, width=width, quiet=quiet, highlight=False, markup=False, emoji=False
    )


@contextmanager
def paged(out: Console) -> Generator[None]:
    """Show what is printed in the block through a pager, if this is a terminal."""
    if not out.is_terminal:
        yield
        return
    # With colours; the pager ends by itself where a screen is enough.
    os.environ.setdefault("LESS", "FRX")
    with out.pager(styles=True):
        yield


def in_colour(out: Console) -> bool:
    """Return whether a console shows colours; where it does not, marks say the same."""
    return out.color_system is not None and not out.no_color


def run(command: Callable[[], int]) -> int:
    """Run a command, and return its exit code.

    Bad input ends the program with one line and code 2. Ctrl-C is code 130. A reader that has gone
    (`| head`) is code 0.
    """
    _prepare_output()
    try:
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except (UsageError, BrokenPipeError, BaseExceptionGroup) as error:
        # A task group may fail after something was printed.
        leaves = [*_leaves(error)]
        for each in leaves:
            if isinstance(each, UsageError):
                if each.details:
                    print(each.details.rstrip("\n"), file=sys.stderr)
                refuse(each.reason)
        if not all(isinstance(each, BrokenPipeError) for each in leaves):
            raise
        _drop_output()
        return 0
    except OSError as error:
        is_of_a_file = error.filename is not None
        if is_of_a_file and error.errno in (errno.ENAMETOOLONG, errno.EACCES):
            refuse(f"cannot use {error.filename}: {error.strerror}")
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        refuse("no space is left for the output; free some, or write it elsewhere")
    return code


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, or those of a group and of the groups in it."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from _leaves(each)


def _drop_output() -> None:
    """Send standard output nowhere: the interpreter flushes it once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses in one line, and names the nearest known words."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(
            self.prog, width=min(PIPED_COLUMNS, get_terminal_size().columns)
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        from mrtr_options.names import nearest  # a program that is not refused needs no names

        known = [str(choice) for choice in action.choices or ()]
        near = "" if str(value) in known else nearest(str(value), known)
        if near:
            what = "".join(action.option_strings) or "command"
            refuse(f"there is no {what} {value!r}; {near}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        refuse(f"{message}; see {self.prog} --help")


def interpreter() -> str:
    """Return the interpreter as people type it: its path from here, or `python`."""
    path = Path(sys.executable)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else "python"


def counts(audits: int, bills: int) -> Text:
    """Return effect counts as "audit/bill", red where an effect was duplicated."""
    numbers = (Text(str(times), "bold red" if times > 1 else "") for times in (audits, bills))
    return Text("/").join(numbers)


def markdown(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def with_parts(text: str, part: Callable[[str], str | None]) -> str:
    """Return a document with its generated parts renewed.

    Args:
        text: The document.
        part: Takes the name of a part and returns its text; None leaves the part as it is.
    """

    def made(found: re.Match[str]) -> str:
        new = part(found[2])
        return found[0] if new is None else f"{found[1]}{new}\n{found[3]}"

    return re.sub(r"(<!-- begin: (.*?) -->\n).*?(<!-- end -->)", made, text, flags=re.DOTALL)


def print_json(found: object) -> None:
    """Print data as JSON."""
    print(json.dumps(found, ensure_ascii=False, indent=1))


def plural(number: int, noun: str) -> str:
    """Return a number and its noun, as in "1 round" and "1,200 rounds"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


# --- the steps of a call -----------------------------------------------------------------------

_INDENT = 15
"""The column at which a line goes on that is too wide."""

_LOOKS = {
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
"""The label and the style of each kind of step."""


def print_step(
    out: Console,
    kind: str,
    lines: Sequence[str],
    number: int = 0,
    mark: str = "",
) -> None:
    """Print one step of a call.

    Args:
        out: The terminal.
        kind: The kind of step: a request, a response, a question, an effect.
        lines: What happened; each line after the first one is cut to the width.
        number: The number of a request's round.
        mark: What is said behind the arrow of a message: that it is sent again, or does not arrive.
    """
    label, style = _LOOKS[kind]
    arrow = {"request": "->", "response": "<-"}.get(kind, "  ")
    if kind == "request":
        label = f"round {number}"
    if mark:
        arrow += f" ({mark})"
    width = out.width - _INDENT
    first, *more = lines
    for place, line in enumerate(Text(f"{arrow} {first}", style).wrap(out, width)):
        begin = f"  {label:<9} " if place == 0 else " " * _INDENT
        line.rstrip()
        out.print(Text(begin).append_text(line))
    for rest in more:
        text = Text(f"   {rest}")
        text.truncate(width, overflow="ellipsis")
        out.print(Text(f"  {'':<9} ").append_text(text))
