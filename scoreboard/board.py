"""The results in docs/data/scoreboard.json, and how a server or a framework is built and reviewed.

Knows what a review of a server or a framework records; nothing of any library.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
from pydantic import BaseModel

from mrtr_options.review.explore.kept import KeptFile
from scoreboard import ROOT
from scoreboard.frameworks.frameworks import Framework, frameworks
from scoreboard.frameworks.play import FrameworkReview
from scoreboard.proxies.guards import GUARDS, GuardResults
from scoreboard.proxies.play import ProxyResults, proxies
from scoreboard.rows import Row, printed
from scoreboard.servers.peers import Described, Peer, Unavailable, build, peers, reason_in
from scoreboard.servers.play import ServerReview, Told
from scoreboard.used import Used

FILE = ROOT / "docs" / "data" / "scoreboard.json"
"""The last review of each server, framework and proxy."""

Results = TypeVar("Results", ServerReview, FrameworkReview)
Who = TypeVar("Who", bound=Described)


class Kept(BaseModel, Generic[Results]):
    """The kept results of a server or a framework.

    Attributes:
        digest: The digest of the sources that were reviewed.
        build_seconds, build_cpu_seconds: The time of the last build that began without a folder, by
            the clock and in processors; 0 if none did.
        cannot: The reason that it could not be built; empty if it was built.
        variants: The results of each variant.
    """

    digest: str
    build_seconds: int = 0
    build_cpu_seconds: int = 0
    cannot: str = ""
    variants: dict[str, Results] = {}


class Scoreboard(BaseModel):
    """All kept results, by name."""

    servers: dict[str, Kept[ServerReview]] = {}
    frameworks: dict[str, Kept[FrameworkReview]] = {}
    proxies: dict[str, ProxyResults] = {}
    guards: dict[str, GuardResults] = {}


KNOWN: Mapping[str, Callable[[], Mapping[str, object]]] = {
    "servers": peers,
    "frameworks": frameworks,
    "proxies": proxies,
    "guards": lambda: GUARDS,
}
"""What has results, by kind."""


def read(path: Path = FILE) -> Scoreboard:
    """Return the kept results."""
    return KeptFile(path, Scoreboard).read(Scoreboard())


def keep(found: Scoreboard, path: Path = FILE) -> Scoreboard:
    """Add results to the file, and return all its results.

    The order is that of the folders; what has none any more has no results. They are listed now,
    since a folder may have been added, and its results kept, after the command began.
    """
    kept = KeptFile(path, Scoreboard)
    with kept.locked():
        board = kept.read(Scoreboard())
        for kind, known in KNOWN.items():
            every = getattr(board, kind) | getattr(found, kind)
            setattr(board, kind, {name: every[name] for name in known() if name in every})
        kept.write(board)
    return board


def changed(known: Mapping[str, Who], kept: Mapping[str, Kept[Any]]) -> list[Who]:
    """Return the servers, or the frameworks, whose sources differ from the reviewed ones."""
    return [
        each for name, each in known.items() if name not in kept or kept[name].digest != each.digest
    ]


def kept_of(
    known: Mapping[str, Who], kept: Mapping[str, Kept[Results]]
) -> list[tuple[Who, Kept[Results]]]:
    """Return the libraries that have kept results, with these, in the order of their folders."""
    return [(who, kept[name]) for name, who in known.items() if name in kept]


def not_built(known: Mapping[str, Described], kept: Mapping[str, Kept[Any]]) -> list[str]:
    """Return a line for each library that could not be built, with the reason."""
    return [f"{who.title}: {each.cannot}" for who, each in kept_of(known, kept) if each.cannot]


def show(rows: Sequence[Row], wanted: Sequence[Described], reasons: Sequence[str]) -> None:
    """Print the rows of libraries that were played, all rows if none was, and what failed."""
    names = {each.name for each in wanted} or {row.id.split("/")[1] for row in rows}
    print(printed(row for row in rows if row.id.split("/")[1] in names))
    for line in reasons:
        print(line, file=sys.stderr)
    if not wanted:
        print(f"{FILE.name} has all of them; --only NAME plays one again", file=sys.stderr)


OLDER = "its files have changed since"
"""The remark on a page about results of other sources than the present ones."""


def date_of(who: Described, kept: Kept[Any]) -> str:
    """Return the day of the last review, with a remark if the sources have changed since."""
    day = max((each.date for each in kept.variants.values()), default="")
    return day if kept.digest == who.digest or not day else f"{day}; {OLDER}"


def play(
    who: Peer | Framework,
    before: Kept[Results] | None,
    tell: Told,
    review: Callable[[Any, Any, Told], Awaitable[Results]],
) -> Kept[Results]:
    """Build a server or a framework and review each of its variants.

    Args:
        who: The server or the framework.
        before: Its kept results. They stay if the same sources cannot be built here.
        tell: Gets the name of each step that takes a while.
        review: Reviews one of its variants, once it is built.
    """
    kept = Kept[Results](digest=who.digest)
    is_first = not who.built.exists()
    began = Used.so_far()
    try:
        build(who, tell)
        took = Used.so_far() - began
        if is_first:
            kept.build_seconds = took.seconds
            kept.build_cpu_seconds = took.cpu_seconds
        elif before is not None:
            kept.build_seconds = before.build_seconds
            kept.build_cpu_seconds = before.build_cpu_seconds
        for variant in who.variants:
            kept.variants[variant.name] = anyio.run(review, who, variant, tell)
    except* Unavailable as group:
        kept.cannot = reason_in(group)
    has_results = before is not None and before.digest == who.digest and before.variants
    if kept.cannot and before is not None and has_results:
        print(f"{who.title}: {kept.cannot}; what is kept of it stays", file=sys.stderr)
        return before
    return kept
