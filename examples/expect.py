"""Examples as programs: each plays its demonstration and ends with what it expected, or with a
surprise.

Knows how this package's commands read arguments; nothing of what the examples show.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import anyio

from mrtr_options.terminal import Parser, run

SECONDS = 60.0  # how long a demonstration may take


class Surprise(Exception):
    """The demonstration saw something else than it expected. The text says what."""


def expect(what: str, seen: object, expected: object) -> None:
    """Go on only if this is what was expected; else raise `Surprise`."""
    if seen != expected:
        raise Surprise(f"{what}: expected {expected!r}, saw {seen!r}")


def start(demonstrate: Callable[[], Awaitable[None]], about: str | None) -> NoReturn:
    """Run an example as a program without arguments; `about` is its docstring, for `--help`."""
    program = f"python -m examples.{Path(sys.argv[0]).stem}"
    Parser(prog=program, description=(about or "").partition("\n")[0]).parse_args()
    sys.exit(run(lambda: anyio.run(as_expected, demonstrate)))


async def as_expected(demonstrate: Callable[[], Awaitable[None]]) -> int:
    """Run a demonstration and say how it went; 0 if it saw what it expected, else 1."""
    logging.getLogger().addHandler(
        logging.NullHandler()
    )  # no log lines of a server in this process
    try:
        with anyio.fail_after(SECONDS):
            await demonstrate()
    except (Surprise, TimeoutError) as surprise:
        print(f"\nSURPRISE  {surprise or f'it did not end within {SECONDS:.0f} s'}")
        return 1
    print("\nOK: every step behaved as expected.")
    return 0
