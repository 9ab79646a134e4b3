"""Where the effects of a drawn tool go: a bank that does what its story says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import anyio

SLOW_SECONDS = 70.0
"""Longer than a round's lease."""


class Died(GeneratorExit):
    """The death of a process, which no code in it can see or record."""


def is_death(error: BaseException) -> bool:
    """Return whether a process has died, in a task of a group or not."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(is_death, group.exceptions))
    return isinstance(error, Died)


class Refused(Exception):
    """The word of the bank that it does not do it."""


async def died() -> None:
    """End a process."""
    raise Died


@dataclass
class Bank:
    """Where the effects go.

    Attributes:
        troubles, looks: What it does, and says, one time after the other; then all is well.
        honours_keys: Whether it takes two arrivals under one key for one.
        slow_seconds: How long it takes where it is slow.
        die: Ends the process that calls it.
        done: The keys of what it has done, by reference and effect.
        doubt: The references of which somebody may be in doubt.
        numbers: The numbers under which it has done something.
        drawn: How many numbers authors have drawn.
    """

    troubles: list[str]
    looks: list[str]
    honours_keys: bool
    slow_seconds: float = SLOW_SECONDS
    die: Callable[[], Awaitable[None]] = died
    done: dict[tuple[int, str], list[str]] = field(default_factory=dict[tuple[int, str], list[str]])
    doubt: set[int] = field(default_factory=set[int])
    numbers: set[tuple[int, str, int]] = field(default_factory=set[tuple[int, str, int]])
    drawn: int = 0

    def draw(self) -> int:
        """Return a number that no author has drawn before."""
        self.drawn += 1
        return self.drawn

    async def act(self, reference: int, effect: str, once: str, number: int) -> None:
        trouble = self.troubles.pop(0) if self.troubles else "fine"
        if trouble != "fine":
            self.doubt.add(reference)
        if trouble == "refuses":
            raise Refused
        if trouble == "dies before":
            await self.die()
        if trouble == "slow before":
            await anyio.sleep(self.slow_seconds)
        self.done.setdefault((reference, effect), []).append(once)
        self.numbers.add((reference, effect, number))
        if trouble == "slow after":
            await anyio.sleep(self.slow_seconds)
        if trouble == "dies after":
            await self.die()
        if trouble == "exits":
            raise SystemExit(3)
        if trouble == "unsure":
            raise TimeoutError

    def times(self, reference: int, effect: str) -> int:
        arrived = self.done.get((reference, effect), [])
        return len(set(arrived)) if self.honours_keys else len(arrived)

    def has_done(self, reference: int) -> list[str]:
        return sorted({effect for of, effect in self.done if of == reference})

    def look(self, reference: int, effect: str, number: int = 0) -> Any:
        match self.looks.pop(0) if self.looks else "fine":
            case "cannot say":
                return None
            case "away":
                raise TimeoutError("the bank is away")
            case _:
                return (reference, effect, number) in self.numbers
