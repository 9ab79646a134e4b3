"""The servers that are reviewed: what their folders say, and how they are built and started.

A server is a folder beside this file; README.md says what is in it. It is built in a cache folder
outside the repository, which can be deleted. Knows nothing of what is reviewed, and of no library.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tomllib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import Process
from pydantic import BaseModel, ConfigDict

from mrtr_options.review.bench.deployments.remote import listens
from mrtr_options.sdk.serving import listen

FOLDER = Path(__file__).parent
DOMAIN = FOLDER / "domain"
"""Places, texts and the ledger, one file for each language."""
BUILD_SECONDS = 1200.0
START_SECONDS = 30.0
PAUSE_SECONDS = 0.1
SAYS_CHARACTERS = 300
"""How much is kept of what a command that failed has printed."""


class Unavailable(Exception):
    """A server cannot be built or started here. The text is one line that says why."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Quote(_Strict):
    """What the documentation of a server says of effects above a pause.

    Attributes:
        says: In its words, 25 at most; or that it says nothing.
        address, date: Where, and when it was read.
    """

    says: str
    address: str
    date: str


class Missing(_Strict):
    """A server that cannot be had here.

    Attributes:
        title: What people call it.
        command, says, date: What was tried, what it printed, and when.
    """

    title: str
    command: str
    says: str
    date: str


MEANINGS = {
    "guide": "as its guide writes it",
    "nothing": "with nothing",
    "all": "with all it offers",
}


class Variant(_Strict):
    """One way to run a server.

    Attributes:
        name: The word that its program is started with.
        state: How the state is protected.
        keys: Where the key comes from.
        author: What an author can do today about what it shows.
        means: What these settings are: as the library's guide writes the tool, with nothing, with
            all that it offers; none of these for settings that are for old clients alone.
    """

    name: str
    state: str
    keys: str
    author: str
    means: list[Literal["guide", "nothing", "all"]] = []

    @property
    def words(self) -> str:
        """What the settings are, in the words of a row."""
        return MEANINGS[self.means[0]] if self.means else self.name


class Probe(_Strict):
    """A run of its own, of what no call of the review shows.

    Attributes:
        name: What it shows, in the words of a finding.
        command: Run in its folder in the cache, with `URL` of a server with default settings; it
            prints the run.
    """

    name: str
    command: list[str]


TELLING = ("peer.toml", "about.toml")
"""Files that say what a library is; what of them decides how it is run is in `programs`."""


class Described(_Strict):
    """What a folder says of somebody's library, and how what is in it is built.

    Attributes:
        name: Its folder's.
        title: What people call it.
        language: What it is written in.
        package, version: Of its library; its manifest names the same version.
        note: What has to be known of it; may be empty.
        documentation: The page that it is written after.
        needs: The programs that have to be there.
        build: Commands, run in its folder in the cache.
        quote: See there.
    """

    name: str
    title: str
    language: str
    package: str
    version: str
    note: str = ""
    documentation: str
    needs: list[str]
    build: list[list[str]]
    quote: Quote

    @property
    def root(self) -> Path:
        """Where the folders are that it is built from."""
        return FOLDER

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def shared(self) -> list[Path]:
        """Files that are copied beside its own, where they are of its language."""
        return files_in(DOMAIN)

    @property
    def sources(self) -> list[Path]:
        """What it is built from."""
        own = files_in(self.folder)
        suffixes = {path.suffix for path in own}
        return [*own, *(path for path in self.shared if path.suffix in suffixes)]

    @property
    def digest(self) -> str:
        """Of all that decides how it is built and run, which a note or a quotation does not."""
        found = hashlib.sha256()
        for path in self.sources:
            if path.name not in TELLING:
                found.update(f"{path.relative_to(self.root)}\n".encode() + path.read_bytes())
        found.update(json.dumps(self.programs).encode())
        return found.hexdigest()[:16]

    @property
    def programs(self) -> list[Any]:
        """The version, and the commands that build and start it."""
        return [self.version, self.needs, self.build]

    @property
    def built(self) -> Path:
        """Its folder in the cache."""
        return cache() / self.name


class Peer(Described):
    """One server.

    Attributes:
        style: The letter of the option that it is most like to write.
        start: A command, run in its folder in the cache.
        variants: The default settings first.
        probes: What else is run.
    """

    style: str
    start: list[str]
    variants: list[Variant]
    probes: list[Probe] = []

    @property
    def programs(self) -> list[Any]:
        names = [each.name for each in self.variants]
        return [*super().programs, self.start, names, [each.command for each in self.probes]]


def files_in(folder: Path) -> list[Path]:
    """All below a folder, but for what Python writes beside its sources."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def cache() -> Path:
    """Where servers are built."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mrtr-options" / "scoreboard"


def peers(folder: Path = FOLDER) -> dict[str, Peer]:
    """Every server, by name, in the order of their `order`."""
    found: list[tuple[int, Peer]] = []
    for path in folder.glob("*/peer.toml"):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        found.append((about.pop("order"), Peer(name=path.parent.name, **about)))
    return {peer.name: peer for _, peer in sorted(found, key=lambda each: (each[0], each[1].name))}


def missing(file: Path = FOLDER / "unavailable.toml") -> list[Missing]:
    """The servers that cannot be had here, in the order of the file."""
    listed = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Missing.model_validate(each) for each in listed["server"]]


def build(peer: Described, tell: Callable[[str], None]) -> None:
    """Build what a folder describes, where that has not been done. Their own caches make a second
    time short.

    Args:
        peer: Which.
        tell: Told what is waited for.

    Raises:
        Unavailable: A program is missing, or a command has failed.
    """
    if missing := [name for name in peer.needs if shutil.which(name) is None]:
        raise Unavailable(f"needs {', '.join(missing)}, which is not installed")
    stamp = peer.built / ".digest"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == peer.digest:
        return
    stamp.unlink(missing_ok=True)
    for path in peer.sources:
        own = path.is_relative_to(peer.folder)
        to = peer.built / (path.relative_to(peer.folder) if own else path.name)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    for command in peer.build:
        said = " ".join(command)
        tell(f"{peer.name}: {said}")
        try:
            done = subprocess.run(
                command,
                cwd=peer.built,
                timeout=BUILD_SECONDS,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"`{said}` takes more than {BUILD_SECONDS:.0f} s") from None
        if done.returncode != 0:
            raise Unavailable(f"`{said}` fails: {_why(done.stderr or done.stdout)}")
    stamp.write_text(peer.digest, encoding="utf-8")


def _why(printed: str) -> str:
    """The line that says most of what was printed: the first that names an error, or the last."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()] or ["it prints nothing"]
    found = next((line for line in lines if "error" in line.lower()), lines[-1])
    return found[:SAYS_CHARACTERS]


@asynccontextmanager
async def running(
    peer: Peer, variant: Variant, ledger: Path, instances: int, secret: str
) -> AsyncGenerator[list[str]]:
    """Instances of a server that was built, for as long as the block lasts; their URLs.

    Args:
        peer, variant: Which, and how.
        ledger: The SQLite file that they count effects in.
        instances: How many.
        secret: The key of all of them, where they take one.

    Raises:
        Unavailable: One of them ends, or does not listen.
    """
    async with AsyncExitStack() as stack:
        urls: list[str] = []
        for _ in range(instances):
            port = free_port()
            env = {"PORT": str(port), "MRTR_LEDGER": str(ledger), "STATE_SECRET": secret}
            urls.append(f"http://127.0.0.1:{port}/mcp")
            log = ledger.with_name(f"{port}.log")
            process = await start([*peer.start, variant.name], peer.built, env, log)
            stack.push_async_callback(end, process)
            await _up(process, urls[-1], log)
        yield urls


async def _up(process: Process, url: str, log: Path) -> None:
    if await comes_up(process, url):
        return
    what = "ends" if process.returncode is not None else f"does not listen in {START_SECONDS:.0f} s"
    printed = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
    raise Unavailable(f"the server {what}: {_why(printed)}")


# --- programs -----------------------------------------------------------------------------------


def free_port() -> int:
    """A port that nothing listens on."""
    with listen(0) as listener:
        return listener.getsockname()[1]


async def start(
    command: Sequence[str], folder: Path, env: dict[str, str], log: Path, *, talks: bool = False
) -> Process:
    """Start a program in its folder in the cache.

    Args:
        command, folder, env: The program, where it is, and what it finds in its environment.
        log: Takes what it prints.
        talks: Whether its standard input and output are for the caller.
    """
    program = folder / command[0]
    first = str(program) if program.is_file() else command[0]
    with log.open("ab") as out:
        return await anyio.open_process(
            [first, *command[1:]],
            cwd=folder,
            env=os.environ | env,
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else out,
            stderr=out,
            start_new_session=True,  # so that Ctrl-C ends it only with the block
        )


async def comes_up(process: Process, url: str) -> bool:
    """Wait until a program listens at a URL; false if it ends, or takes longer than
    `START_SECONDS`.
    """
    with anyio.move_on_after(START_SECONDS):
        while process.returncode is None:
            if await listens(url):
                return True
            await anyio.sleep(PAUSE_SECONDS)
    return False


def kill(process: Process) -> None:
    """Kill a program, unless it has ended, and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def end(process: Process) -> None:
    """The same, and wait until it is gone."""
    kill(process)
    with anyio.CancelScope(shield=True):
        await process.aclose()
