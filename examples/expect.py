"""Examples as programs: each plays its demonstration, and ends as expected or with a surprise.

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

SECONDS = 60.0
"""The longest time that a demonstration may take."""


class Surprise(Exception):
    """An observation that the demonstration did not expect. The text describes it."""


def expect(what: str, seen: object, expected: object) -> None:
    """Raise `Surprise` if an observation differs from what was expected."""
    if seen != expected:
        raise Surprise(f"{what}: expected {expected!r}, saw {seen!r}")


def start(demonstrate: Callable[[], Awaitable[None]], about: str | None) -> NoReturn:
    """Run an example as a program without arguments; `about` is its docstring, for `--help`."""
    program = f"python -m examples.{Path(sys.argv[0]).stem}"
    Parser(prog=program, description=(about or "").partition("\n")[0]).parse_args()
    sys.exit(run(lambda: anyio.run(as_expected, demonstrate)))


async def as_expected(demonstrate: Callable[[], Awaitable[None]]) -> int:
    """Run a demonstration and print how it ended; return 0 if it ended as expected, else 1."""
    # Keep the log lines of a server in this process out of the demonstration.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with anyio.fail_after(SECONDS):
            await demonstrate()
    except (Surprise, TimeoutError) as surprise:
        print(f"\nSURPRISE  {surprise or f'it did not end within {SECONDS:.0f} s'}")
        return 1
    print("\nOK: every step behaved as expected.")
    return 0
