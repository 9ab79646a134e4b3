"""Bad input: the exception for it, and how a program ends over it."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn


class UsageError(Exception):
    """Bad input: on the command line, in a file, or in the environment.

    Its text is one line that says what to do. A command ends with that line and exit code 2.

    Args:
        reason: The line.
        details: More to find the cause with, such as the author's traceback; may be empty.
    """

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details


def refuse(message: str) -> NoReturn:
    """End the program over bad input: one line on standard error, exit code 2."""
    print("mrtr-options:", " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


@contextmanager
def in_one_line() -> Generator[None]:
    """End the process with one line and exit code 2 if the block raises a `UsageError`."""
    try:
        yield
    except UsageError as error:
        refuse(error.reason)
