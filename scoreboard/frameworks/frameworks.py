"""The frameworks that are played, as their folders describe them. README.md describes a folder.

Knows nothing of the cases, and no library.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from scoreboard.servers import peers
from scoreboard.servers.peers import Described, cache, described, files_in

FOLDER = Path(__file__).parent
DOMAIN = FOLDER / "domain"
"""The tool's questions and effects, and a program's interface: a file for each language."""


class Variant(BaseModel):
    """A way to write the tool.

    Attributes:
        name: The name that distinguishes it from other variants.
        start: The command for one delivery, run in the framework's folder in the cache.
        pause: The data that the caller holds between two deliveries, in words.
        carries: Whether these data are the run's state itself, and not only a name of the run.
        author: The author's remedies today for the anomalies that it shows.
        recommended: Whether the documentation has this form, and does not recommend against it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    start: list[str]
    pause: str
    carries: bool = False
    author: str
    recommended: bool = True


class Framework(Described):
    """A framework.

    Attributes:
        service: The command of a service on $MRTR_PORT during a case; empty without a service.
        variants: The variants, the plainest first.
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
    def shared(self) -> list[Path]:
        return [*files_in(DOMAIN), *files_in(peers.DOMAIN)]

    @property
    def built(self) -> Path:
        return cache() / "frameworks" / self.name


def frameworks(folder: Path = FOLDER) -> dict[str, Framework]:
    """Return every framework, by name."""
    return described(Framework, folder.glob("*/about.toml"))
