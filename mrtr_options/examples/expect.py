"""For examples that prove what they show: they continue only after they saw what they expected.

Knows how this package's commands read arguments, and nothing of what the examples show.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio

from mrtr_options.show.terminal import Parser, run

SECONDS = 60.0
"""How long a main may take."""


class Surprise(Exception):
    """The main saw something else than it expected. The text says what."""


def expect(what: str, seen: object, expected: object) -> None:
    """Go on only if this is what was expected.

    Raises:
        Surprise: It is not.
    """
    if seen != expected:
        raise Surprise(f"{what}: expected {expected!r}, saw {seen!r}")


def quiet_logs() -> None:
    """Keep the log lines of a server in this process out of the transcript."""
    logging.getLogger().addHandler(logging.NullHandler())


def start(main: Callable[[], Awaitable[int]], about: str | None) -> NoReturn:
    """Run an example as a program that takes no arguments but `--help`.

    Args:
        main: The example; returns the exit code.
        about: The module's docstring, whose first line is the help.
    """
    title = (about or "").partition("\n")[0]
    program = f"python -m mrtr_options.examples.{Path(sys.argv[0]).stem}"
    Parser(prog=program, description=title).parse_args()
    quiet_logs()
    sys.exit(run(partial(anyio.run, main)))


async def as_it_must(demonstrate: Callable[[], Awaitable[None]]) -> int:
    """Run a demonstration and say how it went; 0 if it saw what it expected, else 1."""
    surprises: list[str] = []
    try:
        with anyio.fail_after(SECONDS):
            await demonstrate()
    except* Surprise as found:  # a client's task group wraps it
        surprises += [str(each) for each in _leaves(found)]
    except* TimeoutError:
        surprises.append(f"it did not end within {SECONDS:.0f} s")
    for surprise in surprises:
        print(f"\nSURPRISE  {surprise}")
    if not surprises:
        print("\nAll went as it must.")
    return 1 if surprises else 0


def _leaves(group: BaseExceptionGroup[Surprise]) -> list[Surprise]:
    found: list[Surprise] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found
