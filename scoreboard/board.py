"""What docs/scoreboard.json keeps, and how a server or a framework is built and reviewed for it.

Knows what a review of either keeps; nothing of any library.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
from pydantic import BaseModel

from scoreboard import ROOT
from scoreboard.frameworks.play import Reviewed as Framework
from scoreboard.proxies.play import ProxyResults, proxies
from scoreboard.servers.peers import Described, Unavailable, build
from scoreboard.servers.play import Reviewed as Server
from scoreboard.servers.play import Told
from scoreboard.used import Used

FILE = ROOT / "docs" / "scoreboard.json"
"""What is kept: the last review of each."""

Results = TypeVar("Results", Server, Framework)
Who = TypeVar("Who", bound=Described)


class Kept(BaseModel, Generic[Results]):
    """What is kept of a server or a framework.

    Attributes:
        digest: Of the sources that were reviewed.
        build_seconds, build_cpu_seconds: How long the last build took that began without a folder,
            and what of it processors worked.
        cannot: Why it was not built; empty if it was.
        variants: The results of each.
    """

    digest: str
    build_seconds: int = 0
    build_cpu_seconds: int = 0
    cannot: str = ""
    variants: dict[str, Results] = {}


class Scoreboard(BaseModel):
    """All that is kept, by name."""

    servers: dict[str, Kept[Server]] = {}
    frameworks: dict[str, Kept[Framework]] = {}
    proxies: dict[str, ProxyResults] = {}


def read(path: Path = FILE) -> Scoreboard:
    """What is kept."""
    return Scoreboard.model_validate_json(path.read_bytes()) if path.is_file() else Scoreboard()


def keep(found: Scoreboard, known: Iterable[str], path: Path = FILE) -> Scoreboard:
    """Keep the results of some servers or frameworks beside what is in the file by now; all that is
    kept then.

    Args:
        found: The results.
        known: The names of all servers, or of all frameworks, in the order of the file.
        path: The file.
    """
    order = [*known]
    with _alone(path):
        board = read(path)
        board.servers = _renewed(board.servers, found.servers, order)
        board.frameworks = _renewed(board.frameworks, found.frameworks, order)
        path.write_text(board.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return board


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Hold a file for the block, so that two commands that keep at once lose nothing."""
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def keep_proxy(name: str, found: ProxyResults, path: Path = FILE) -> None:
    """Keep the results of one proxy beside what is in the file by now."""
    with _alone(path):
        board = read(path)
        every = board.proxies | {name: found}
        board.proxies = {each: every[each] for each in proxies() if each in every}
        path.write_text(board.model_dump_json(indent=1) + "\n", encoding="utf-8")


def changed(known: Mapping[str, Who], kept: Mapping[str, Kept[Any]]) -> list[Who]:
    """Those of all servers, or of all frameworks, that have changed since they were kept."""
    return [
        each for name, each in known.items() if name not in kept or kept[name].digest != each.digest
    ]


OLDER = "its files have changed since"
"""What a page says of results whose sources were others."""


def date_of(who: Described, kept: Kept[Any], day: str) -> str:
    """The day of a review; and where its sources were others, that they were."""
    return day if kept.digest == who.digest or not day else f"{day}; {OLDER}"


def _renewed(
    kept: dict[str, Kept[Results]], found: dict[str, Kept[Results]], known: list[str]
) -> dict[str, Kept[Results]]:
    every = kept | found
    return {name: every[name] for name in known if name in every} if found else kept


def play(
    who: Described,
    before: Kept[Results] | None,
    tell: Told,
    reviews: Mapping[str, Callable[[], Awaitable[Results]]],
) -> Kept[Results]:
    """Build a server or a framework and review each of its variants.

    Args:
        who: Which.
        before: What is kept of it; it stays where the same sources cannot be built here.
        tell: Told what is waited for.
        reviews: What makes the results of each variant once all is built.
    """
    kept = Kept[Results](digest=who.digest)
    is_first, began = not who.built.exists(), Used.so_far()
    try:
        build(who, tell)
        took = Used.so_far() - began
        kept.build_seconds, kept.build_cpu_seconds = took.seconds, took.cpu_seconds
        if before is not None and not is_first:
            kept.build_seconds, kept.build_cpu_seconds = (
                before.build_seconds,
                before.build_cpu_seconds,
            )
        for name, review in reviews.items():
            kept.variants[name] = anyio.run(review)
    except* Unavailable as group:
        kept.cannot = str(group.exceptions[0])
    if kept.cannot and before is not None and before.digest == who.digest and before.variants:
        print(f"{who.title}: {kept.cannot}; what is kept of it stays", file=sys.stderr)
        return before
    return kept
