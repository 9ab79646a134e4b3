"""The frameworks that are played: what their folders say. README.md says what is in a folder.

Knows nothing of what is played, and of no library.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from scoreboard.servers import peers
from scoreboard.servers.peers import Described, cache, files_in

FOLDER = Path(__file__).parent
DOMAIN = FOLDER / "domain"
"""The tool's questions and effects, and how a program is called, one file for each language."""


class Variant(BaseModel):
    """One way to write the tool.

    Attributes:
        name: What distinguishes it from the others.
        start: A command, run in the framework's folder in the cache, for one delivery.
        pause: What the caller holds between two deliveries, in words.
        carries: Whether that is the run's state itself, and not only a name of it.
        author: What an author can do today about what it shows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    start: list[str]
    pause: str
    carries: bool = False
    author: str


class Framework(Described):
    """One framework.

    Attributes:
        service: A command that serves on $MRTR_PORT while a case is played; empty for none.
        variants: The plainest first.
    """

    service: tuple[str, ...] = ()
    variants: list[Variant]

    @property
    def programs(self) -> list[Any]:
        starts = [[each.name, each.start, each.carries] for each in self.variants]
        return [*super().programs, self.service, starts]

    @property
    def root(self) -> Path:
        return FOLDER.parent

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def shared(self) -> list[Path]:
        return [*files_in(DOMAIN), *files_in(peers.DOMAIN)]

    @property
    def built(self) -> Path:
        return cache() / "frameworks" / self.name


def frameworks(folder: Path = FOLDER) -> dict[str, Framework]:
    """Every framework, by name, in the order of their `order`."""
    found: list[tuple[int, Framework]] = []
    for path in folder.glob("*/about.toml"):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        found.append((about.pop("order"), Framework(name=path.parent.name, **about)))
    return {each.name: each for _, each in sorted(found, key=lambda each: (each[0], each[1].name))}
