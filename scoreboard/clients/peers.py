"""The clients: a folder for each, with a small program that calls as its library's documentation says.

A client's packages are installed below `build/`. Knows folders, npm and pip; nothing of any
client's library.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mrtr_options.review.bench.faults import Era
from scoreboard import ROOT

FOLDER = Path(__file__).parent
INSTALLED = ROOT / "build" / "clients"
INSTALL_SECONDS = 600.0
RETRYING = "-retrying"


class Unavailable(Exception):
    """A client cannot be run here. The text is one line that says why."""


@dataclass(frozen=True)
class Peer:
    """One client.

    Attributes:
        name: Its folder's; with "-retrying", of the same with its own retries switched on.
        title: What people call it.
        library: The package whose version is named.
        eras: What it can speak.
        stdio: Whether it can start a server process of its own.
        asks: Whether it can put a question to its user. The calls of one that cannot are for a
            place of which nothing has to be asked, so that their one message is the result.
        note: What has to be known of it.
        is_ours: Whether it is this project's own; the others are shipped.
    """

    name: str
    title: str
    library: str
    eras: tuple[Era, ...]
    stdio: bool = False
    asks: bool = True
    note: str = ""
    is_ours: bool = False

    @property
    def folder(self) -> Path:
        return FOLDER / self.name.removesuffix(RETRYING)

    @property
    def _node(self) -> bool:
        return (self.folder / "client.mjs").is_file()

    @property
    def _into(self) -> Path:
        return INSTALLED / self.folder.name

    @property
    def _manifest(self) -> Path:
        return self.folder / ("package.json" if self._node else "requirements.txt")

    def install(self) -> None:
        """Install its packages, where that has not been done.

        Raises:
            Unavailable: There is no Node, or the packages cannot be had.
        """
        if self._node and (shutil.which("npm") is None or shutil.which("node") is None):
            raise Unavailable("it needs node and npm, which are not installed")
        if not self._manifest.is_file():
            return
        kept = self._into / self._manifest.name
        if kept.is_file() and kept.read_bytes() == self._manifest.read_bytes():
            return
        self._into.mkdir(parents=True, exist_ok=True)
        for command in self._installing():
            try:
                done = subprocess.run(
                    command, cwd=self._into, timeout=INSTALL_SECONDS, capture_output=True, text=True
                )
            except subprocess.TimeoutExpired:
                raise Unavailable(f"not installed within {INSTALL_SECONDS:.0f} s") from None
            if done.returncode != 0:
                said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
                why = said[0] if said else f"exit code {done.returncode}"
                raise Unavailable(f"cannot be installed: {why}")
        shutil.copy(self._manifest, kept)  # last: a copy says that all of it is there

    def _installing(self) -> Iterator[list[str]]:
        if self._node:
            packages = json.loads(self._manifest.read_text(encoding="utf-8"))["dependencies"]
            wanted = [f"{name}@{version}" for name, version in packages.items()]
            yield ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--no-save",
                   "--prefix", str(self._into), *wanted]  # fmt: skip
            return
        yield [sys.executable, "-m", "venv", "--clear", str(self._into / "venv")]
        pip = [str(self._into / "venv" / "bin" / "pip"), "install", "--quiet"]
        yield [*pip, "--requirement", str(self._manifest)]

    def version(self) -> str:
        """Return the version of its library that is installed."""
        if self._node:
            about = self._into / "node_modules" / self.library / "package.json"
            return json.loads(about.read_text(encoding="utf-8"))["version"]
        if not self._manifest.is_file():
            return importlib.metadata.version(self.library)
        places = [str(path) for path in (self._into / "venv" / "lib").glob("python*/site-packages")]
        (found,) = importlib.metadata.distributions(name=self.library, path=places)
        return found.version

    def command(self) -> list[str]:
        """Return what starts its program."""
        setting = ["retrying"] if self.name.endswith(RETRYING) else []
        if self._node:
            own = self._into / "node_modules" / "node" / "bin" / "node"
            return [str(own if own.is_file() else "node"), str(self._program()), *setting]
        python = self._into / "venv" / "bin" / "python"
        runs = str(python) if self._manifest.is_file() else sys.executable
        return [runs, str(self._program()), *setting]

    def _program(self) -> Path:
        if not self._node:
            return self.folder / "client.py"
        for file in (self.folder / "client.mjs", FOLDER / "jobs.mjs"):
            shutil.copy(file, self._into / file.name)  # Node looks for packages beside the program
        return self._into / "client.mjs"


def peers() -> dict[str, Peer]:
    """Return every client, by name; our own comes last."""
    found: dict[str, Peer] = {}
    for path in sorted(FOLDER.glob("*/about.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        about["eras"] = tuple(about["eras"])
        retrying = about.pop("retrying", None)
        peer = found[path.parent.name] = Peer(path.parent.name, **about)
        if retrying is not None:
            found[peer.name + RETRYING] = replace(peer, name=peer.name + RETRYING, **retrying)
    return dict(sorted(found.items(), key=lambda each: each[1].is_ours))
