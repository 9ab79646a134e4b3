"""The clients: a folder for each, with a small program that follows its library's documentation.

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

from mrtr_options.review.bench.setup import Era
from scoreboard import ROOT
from scoreboard.servers.peers import Unavailable, run_step

FOLDER = Path(__file__).parent
INSTALLED = ROOT / "build" / "clients"
RETRYING = "-retrying"
MANIFESTS = {"package.json": ("node", "npm"), "go.mod": ("go",), "requirements.txt": ()}
"""The files that list a client's packages, and the commands that each file needs."""


@dataclass(frozen=True)
class Peer:
    """A client.

    Attributes:
        name: The name of its folder; "-retrying" is added if its own retries are switched on.
        title: Its usual name.
        library: The package whose version is shown.
        eras: The eras that it can speak.
        stdio: Whether it can start a server process of its own.
        asks: Whether it can ask its user a question. Without questions, a client calls for an
            unambiguous place, so that the only message of the call is the result.
        signs_in: Whether its program can get a token, by client credentials.
        note: A remark for the reader.
        is_ours: Whether it is this project's own client; the others are shipped.
    """

    name: str
    title: str
    library: str
    eras: tuple[Era, ...]
    stdio: bool = False
    asks: bool = True
    signs_in: bool = False
    note: str = ""
    is_ours: bool = False

    @property
    def folder(self) -> Path:
        return FOLDER / self.name.removesuffix(RETRYING)

    @property
    def _into(self) -> Path:
        return INSTALLED / self.folder.name

    @property
    def _manifest(self) -> Path | None:
        """The file that lists its packages; None if this project's environment is enough."""
        return next(filter(Path.is_file, (self.folder / name for name in MANIFESTS)), None)

    @property
    def _kind(self) -> str:
        return "" if self._manifest is None else self._manifest.name

    def install(self) -> None:
        """Install its packages, unless they are installed.

        Raises:
            Unavailable: Its language is not installed, or its packages cannot be installed.
        """
        if self._manifest is None:
            return
        tools = MANIFESTS[self._kind]
        if any(shutil.which(tool) is None for tool in tools):
            raise Unavailable(f"it needs {' and '.join(tools)}, which are not installed")
        kept = self._into / f"installed-{self._kind}"
        if kept.is_file() and kept.read_bytes() == self._manifest.read_bytes():
            return
        self._into.mkdir(parents=True, exist_ok=True)
        for command in self._installing(self._manifest):
            run_step(command, self._into)
        shutil.copy(self._manifest, kept)  # last: the copy says that everything is installed

    def _installing(self, manifest: Path) -> Iterator[list[str]]:
        if self._kind == "package.json":
            packages = json.loads(manifest.read_text(encoding="utf-8"))["dependencies"]
            wanted = [f"{name}@{version}" for name, version in packages.items()]
            options = ["--no-audit", "--no-fund", "--no-package-lock", "--no-save"]
            yield ["npm", "install", *options, "--prefix", str(self._into), *wanted]
        elif self._kind == "go.mod":
            shutil.copy(manifest, self._into / manifest.name)
            shutil.copy(self.folder / "client.go", self._into / "client.go")
            yield ["go", "mod", "tidy"]
        else:
            yield [sys.executable, "-m", "venv", "--clear", str(self._into / "venv")]
            pip = [str(self._into / "venv" / "bin" / "pip"), "install", "--quiet"]
            yield [*pip, "--requirement", str(manifest)]

    def version(self) -> str:
        """Return the installed version of its library."""
        if self._kind == "package.json":
            about = self._into / "node_modules" / self.library / "package.json"
            return json.loads(about.read_text(encoding="utf-8"))["version"]
        if self._kind == "go.mod":
            command = ["go", "list", "-m", "-f", "{{.Version}}", self.library]
            said = subprocess.run(command, cwd=self._into, check=True, capture_output=True)
            return said.stdout.decode().strip().removeprefix("v")
        if self._manifest is None:
            return importlib.metadata.version(self.library)
        places = [str(path) for path in (self._into / "venv" / "lib").glob("python*/site-packages")]
        (found,) = importlib.metadata.distributions(name=self.library, path=places)
        return found.version

    def command(self) -> list[str]:
        """Return the command of its program, built from the present sources."""
        setting = ["retrying"] if self.name.endswith(RETRYING) else []
        return [*self._program(), *setting]

    def _program(self) -> list[str]:
        if self._kind == "package.json":
            # Node looks for packages beside the program.
            for file in (self.folder / "client.mjs", FOLDER / "jobs.mjs"):
                shutil.copy(file, self._into / file.name)
            own = self._into / "node_modules" / "node" / "bin" / "node"
            return [str(own if own.is_file() else "node"), str(self._into / "client.mjs")]
        if self._kind == "go.mod":
            shutil.copy(self.folder / "client.go", self._into / "client.go")
            run_step(["go", "build", "-o", "client", "."], self._into)
            return [str(self._into / "client")]
        python = self._into / "venv" / "bin" / "python" if self._manifest else sys.executable
        return [str(python), str(self.folder / "client.py")]


def peers() -> dict[str, Peer]:
    """Return every client, by name; our own client comes last."""
    found: dict[str, Peer] = {}
    for path in sorted(FOLDER.glob("*/about.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        about["eras"] = tuple(about["eras"])
        retrying = about.pop("retrying", None)
        peer = Peer(path.parent.name, **about)
        found[peer.name] = peer
        if retrying is not None:
            found[peer.name + RETRYING] = replace(peer, name=peer.name + RETRYING, **retrying)
    return dict(sorted(found.items(), key=lambda each: each[1].is_ours))
