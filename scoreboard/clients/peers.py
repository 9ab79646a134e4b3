"""The clients: a folder for each, with a small program that follows its library's documentation.

A client is built as a server is. Knows folders, npm, go and pip; nothing of any client's library.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrtr_options.review.bench.messages import Era
from scoreboard.servers.peers import Program, cache

FOLDER = Path(__file__).parent
RETRYING = "-retrying"

NPM = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
VENV = ["python3", "-m", "venv", "venv"]
PIP = ["venv/bin/pip", "install", "--quiet", "--requirement", "requirements.txt"]
MANIFESTS: Mapping[str, Mapping[str, Any]] = {
    "package.json": {"needs": ["node", "npm"], "build": [NPM], "start": ["node", "client.mjs"]},
    "go.mod": {
        "needs": ["go"],
        "build": [["go", "mod", "tidy"], ["go", "build", "-o", "client", "."]],
        "start": ["client"],
    },
    "requirements.txt": {
        "needs": ["python3"],
        "build": [VENV, PIP],
        "start": ["python", "client.py"],
    },
    "about.toml": {"needs": [], "start": [sys.executable, "client.py"]},
}
"""The files that list a client's packages; this project's environment is enough for the last."""


class Peer(Program):
    """A client.

    Attributes:
        name: The name of its folder; "-retrying" is added if its own retries are switched on.
        library: The package whose version is shown.
        eras: The eras that it can speak.
        manifest: The file that lists its packages.
        start: The command of its program, and its arguments.
        service: The command of a service on $MRTR_PORT that its program uses; empty without one.
        stdio: Whether it can start a server process of its own.
        asks: Whether it can ask its user a question. Without questions, a client calls for an
            unambiguous place, so that the only message of the call is the result.
        signs_in: Whether its program can get a token, by client credentials.
        takes_tasks: Whether it takes a task in place of a result.
        is_ours: Whether it is this project's own client; the others are shipped.
    """

    library: str
    eras: tuple[Era, ...]
    manifest: str
    start: list[str]
    service: tuple[str, ...] = ()
    stdio: bool = False
    asks: bool = True
    signs_in: bool = False
    takes_tasks: bool = False
    is_ours: bool = False

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def shared(self) -> list[Path]:
        return [FOLDER / "jobs.mjs"]  # Node looks for modules beside the program

    @property
    def built(self) -> Path:
        return cache() / "clients" / self.folder.name

    def version(self) -> str:
        """Return the version of its library, which its manifest or this environment pins."""
        if self.manifest == "about.toml":
            return importlib.metadata.version(self.library)
        text = (self.folder / self.manifest).read_text(encoding="utf-8")
        found = re.search(rf"{re.escape(self.library)}\b[^\d\n]*(\d[\w.]*)", text)
        assert found is not None, self.name
        return found[1]

    def starting(self) -> list[str]:
        """Return the command of its program, as it is built."""
        program, *more = self.start
        files = [str(file) if (file := self.built / each).is_file() else each for each in more]
        return self.command([program, *files])


def peers() -> dict[str, Peer]:
    """Return every client, by name; our own client comes last."""
    found: dict[str, Peer] = {}
    for path in sorted(FOLDER.glob("*/about.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        retrying = about.pop("retrying", None)
        folder = path.parent
        manifest = next(name for name in MANIFESTS if (folder / name).is_file())
        peer = Peer(
            name=folder.name, folder=folder, manifest=manifest, **MANIFESTS[manifest], **about
        )
        found[peer.name] = peer
        if retrying is not None:
            name = peer.name + RETRYING
            switched = {"name": name, "start": [*peer.start, "retrying"]}
            found[name] = peer.model_copy(update=switched | retrying)
    return dict(sorted(found.items(), key=lambda each: each[1].is_ours))
