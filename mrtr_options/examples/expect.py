"""For mains that prove what they show: they go on only if they saw what they expected.

Knows nothing of what they show.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

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


async def as_it_must(demonstrate: Callable[[], Awaitable[None]]) -> int:
    """Run a demonstration and say how it went; 0 if all went as it must, else 1."""
    surprises: list[str] = []
    try:
        with anyio.fail_after(SECONDS):
            await demonstrate()
    except* Surprise as found:  # a client's task group wraps it
        surprises += [str(each) for each in _leaves(found)]
    except* TimeoutError:
        surprises.append(f"it did not come to an end within {SECONDS:.0f} s")
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
