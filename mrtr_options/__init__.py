"""Every serious way to write a multi-round MCP tool, side by side and measured."""

import math
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn


class UsageError(Exception):
    """Bad input: on the command line, in a file, or in the environment.

    Its text is one line that says what to do. A command ends with that line and exit code 2.

    Args:
        reason: The line.
        details: What helps to find the cause, such as the author's traceback; may be empty.
    """

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason, self.details = reason, details


def refuse(message: str) -> NoReturn:
    """End the program over bad input: one line on standard error, exit code 2."""
    print("mrtr-options:", " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


@contextmanager
def in_one_line() -> Generator[None]:
    """In this block a `UsageError` ends the process with its line and exit code 2."""
    try:
        yield
    except UsageError as error:
        refuse(error.reason)


def check_numbers(user: str, *numbers: object) -> None:
    """Refuse a time or a size that can be none.

    Raises:
        ValueError: One is not a number over 0, or is infinite; in words that name the user.
    """
    for number in numbers:
        if not isinstance(number, int | float) or not 0 < number < math.inf:
            raise ValueError(f"{user} takes a number over 0, not {number!r}")


def check_functions(user: str, **given: object) -> None:
    """Refuse what is to be called and cannot be.

    Raises:
        TypeError: One is no function; in words that name the user and the parameter.
    """
    for name, value in given.items():
        if not callable(value):
            default = ": leave it out for the default" if value is None else ""
            raise TypeError(f"{user} takes a function for {name}, not {value!r}{default}")


def replaced(path: Path | str, opened: os.stat_result | None) -> str:
    """That another file is at the path of one that is open, in a line; empty where it is the same."""
    with suppress(FileNotFoundError):
        if opened is None or os.path.samestat(opened, os.stat(path)):
            return ""
    return f"{path} was deleted or replaced under this process; restart the server"


def nearest(name: str, known: Iterable[str]) -> str:
    """The names that somebody may have meant, as a part of a sentence; empty if there are none."""
    near = get_close_matches(name, list(known), n=3)
    return f"did you mean {', '.join(near)}?" if near else ""


if sys.argv[:1] == ["-m"]:  # `python -m` is about to start a program of this package
    from mrtr_options.show.program import begin

    begin()
