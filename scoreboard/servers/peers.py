"""The reviewed servers: the descriptions in their folders, and how they are built and started.

A server is a folder beside this file; README.md describes a folder. It is built in a cache folder
outside the repository, which can be deleted. Of the review it knows how programs are run; of the
libraries it knows nothing.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
from anyio.abc import Process
from pydantic import BaseModel, ConfigDict

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.remote import listens
from mrtr_options.review.bench.world.starting import awaited_program
from mrtr_options.review.explore.kept import digest_of
from mrtr_options.sdk.serving import listen
from scoreboard.rows import Upstream

Of = TypeVar("Of", bound=BaseModel)

FOLDER = Path(__file__).parent
DOMAIN = FOLDER / "domain"
"""Places, texts and the ledger, one file for each language."""

_BEGINS_AN_ERROR = re.compile(r"(npm )?err(or)?\b", re.IGNORECASE)
"""A line of pip, cargo, go or npm that begins an error. A package may have it in its name."""

BUILD_SECONDS = 1200.0
START_SECONDS = 30.0
PAUSE_SECONDS = 0.1

SAYS_CHARACTERS = 300
"""The number of characters of a failed command's output that are kept."""


class Unavailable(UsageError):
    """The error of a program that cannot be built or started here. Its text is one line."""


@contextmanager
def leaving_out(title: str) -> Generator[None]:
    """Print why a program cannot be built or started, and end the block in place of the command."""
    try:
        yield
    except* Unavailable as group:
        print(f"{title}: not tried, {reason_in(group)}", file=sys.stderr)


def reason_in(group: BaseExceptionGroup[Unavailable]) -> str:
    """Return why a program is not available: the text of the first error of a group."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Quote(_Strict):
    """A quotation from a server's documentation on effects above a pause.

    Attributes:
        says: The quotation, at most 25 words; empty if the documentation does not mention them.
        date: The day on which it was read.
        address: The page, where it is not the one that the program follows.
    """

    says: str
    date: str
    address: str = ""


class Missing(_Strict):
    """A server that cannot be installed here.

    Attributes:
        title: Its usual name.
        command, says, date: The command that was tried, its output, and the day.
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
    """The settings of a server.

    Attributes:
        name: The argument with which its program is started.
        state: The protection of the state.
        keys: The origin of the key.
        author: The author's remedies today for the anomalies that it shows.
        means: The kinds of these settings: as the library's guide writes the tool, with nothing, or
            with all that the library offers; empty for settings that are for old clients only.
    """

    name: str
    state: str
    keys: str
    author: str
    means: list[Literal["guide", "nothing", "all"]] = []

    @property
    def words(self) -> str:
        """The settings, in the words of a row."""
        return MEANINGS[self.means[0]] if self.means else self.name


class Probe(_Strict):
    """An extra run, which shows something that no call of the review shows.

    Attributes:
        name: The name of the finding that it shows.
        command: The command, which prints the run. It is run in the server's folder in the cache,
            with the `URL` of a server with default settings.
    """

    name: str
    command: list[str]


BINARIES = ("", "bin", "venv/bin", "node_modules/.bin")
"""The folders of programs in a folder in the cache."""

TELLING = ("peer.toml", "about.toml")
"""Files that describe a library. Their entries that decide how it is run are in `programs`."""


class Program(_Strict):
    """A folder's program, and the commands that build it in the cache.

    Attributes:
        name: The name of the folder.
        folder: The folder.
        title: The usual name of the library.
        note: A remark for the reader; may be empty.
        needs: The programs that must be installed.
        build: The commands, run in the folder in the cache.
    """

    name: str
    folder: Path
    title: str
    note: str = ""
    needs: list[str]
    build: list[list[str]] = []

    @property
    def root(self) -> Path:
        """The folder that contains the folders of its sources."""
        return self.folder.parent

    @property
    def shared(self) -> list[Path]:
        """Files that are copied beside its own, if they are in its language."""
        return []

    @property
    def sources(self) -> list[Path]:
        """The files that it is built from."""
        own = files_in(self.folder)
        suffixes = {path.suffix for path in own}
        return [*own, *(path for path in self.shared if path.suffix in suffixes)]

    @property
    def digest(self) -> str:
        """The digest of everything that decides how it is built and run.

        Notes and quotations do not.
        """
        own = [path for path in self.sources if path.name not in TELLING]
        files = [part for path in own for part in (f"{path.relative_to(self.root)}\n", path)]
        return digest_of(*files, json.dumps(self.programs))

    @property
    def programs(self) -> list[Any]:
        """The needs and the build commands, which its files do not hold."""
        return [self.needs, self.build]

    @property
    def built(self) -> Path:
        """The folder in the cache in which it is built."""
        return cache() / self.root.name / self.name

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command whose program is found in the folder in the cache, or on the machine."""
        places = [str(self.built / each) for each in BINARIES]
        path = os.pathsep.join([*places, os.environ["PATH"]])
        return [shutil.which(command[0], path=path) or command[0], *command[1:]]


class Described(Program):
    """A folder's description of a library.

    Attributes:
        language: The language of the program.
        package, version: The library's package and version; the manifest names the same version.
        departs: The ways in which the program differs from the guide; may be empty.
        documentation: The page of the documentation that the program follows.
        quote: The documentation's words on effects above a pause.
        upstream: What its maintainers know of the findings.
    """

    language: str
    package: str
    version: str
    departs: str = ""
    documentation: str
    quote: Quote
    upstream: list[Upstream] = []

    @property
    def shared(self) -> list[Path]:
        return files_in(DOMAIN)

    @property
    def programs(self) -> list[Any]:
        return [self.version, *super().programs]

    @property
    def built(self) -> Path:
        return cache() / self.name


class Peer(Described):
    """A server.

    Attributes:
        old_clients: What a cell says of old clients if the build speaks to none.
        start: The command that starts it, run in its folder in the cache.
        variants: The variants, default settings first.
        probes: The extra runs.
    """

    old_clients: str = "not spoken"
    start: list[str]
    variants: list[Variant]
    probes: list[Probe] = []

    @property
    def programs(self) -> list[Any]:
        names = [each.name for each in self.variants]
        return [*super().programs, self.start, names, [each.command for each in self.probes]]


def files_in(folder: Path) -> list[Path]:
    """Return all files below a folder, without the caches that Python writes."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def cache() -> Path:
    """Return the folder in which servers are built."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mrtr-options" / "scoreboard"


def described(of: type[Of], files: Iterable[Path]) -> dict[str, Of]:
    """Return what files of folders describe, by the folder's name, in the order of `order`."""
    found: list[tuple[int, str, Of]] = []
    for path in files:
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        name = path.parent.name
        order = about.pop("order")
        found.append((order, name, of(name=name, folder=path.parent, **about)))
    return {name: each for _, name, each in sorted(found, key=lambda each: each[:2])}


def peers(folder: Path = FOLDER) -> dict[str, Peer]:
    """Return every server, by name."""
    return described(Peer, folder.glob("*/peer.toml"))


def missing() -> list[Missing]:
    """Return the servers that cannot be installed here, in the order of the file."""
    listed = tomllib.loads((FOLDER / "unavailable.toml").read_text(encoding="utf-8"))
    return [Missing.model_validate(each) for each in listed["server"]]


def is_built(peer: Program) -> bool:
    """Return whether the program of a folder is built, from its present sources."""
    stamp = peer.built / ".digest"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == peer.digest


def build(peer: Program, tell: Callable[[str], None]) -> None:
    """Build the program of a folder, unless it is built. Package caches shorten later builds.

    Args:
        peer: The description of the folder.
        tell: Gets the name of each step that takes a while.

    Raises:
        Unavailable: A program is missing, or a command has failed.
    """
    missing = [name for name in peer.needs if shutil.which(name) is None]
    if missing:
        raise Unavailable(f"needs {', '.join(missing)}, which is not installed")
    if is_built(peer):
        return
    stamp = peer.built / ".digest"
    stamp.unlink(missing_ok=True)
    for path in peer.sources:
        own = path.is_relative_to(peer.folder)
        to = peer.built / (path.relative_to(peer.folder) if own else path.name)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    for command in peer.build:
        tell(f"{peer.name}: {' '.join(command)}")
        run_step(command, peer.built)
    stamp.write_text(peer.digest, encoding="utf-8")


def run_step(command: Sequence[str], folder: Path) -> None:
    """Run one command of a build in a folder.

    Raises:
        Unavailable: It fails, or takes too long.
    """
    said = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=BUILD_SECONDS, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`{said}` takes more than {BUILD_SECONDS:.0f} s") from None
    if done.returncode != 0:
        raise Unavailable(f"`{said}` fails: {_why(done.stderr or done.stdout)}")


def _why(printed: str) -> str:
    """Return the most telling line of an output: the first that begins an error, or the last."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()] or ["it prints nothing"]
    found = next((line for line in lines if _BEGINS_AN_ERROR.match(line)), lines[-1])
    return found[:SAYS_CHARACTERS]


@dataclass(frozen=True)
class Instances:
    """Running instances of a server.

    Attributes:
        urls: Their URLs.
        ledger: The SQLite file in which they count effects.
    """

    urls: list[str]
    ledger: Path


@asynccontextmanager
async def running(peer: Peer, variant: Variant, instances: int = 2) -> AsyncGenerator[Instances]:
    """Run instances of a built server for the block, which share a key, if they take one.

    Raises:
        Unavailable: An instance ends, or does not listen.
    """
    secret = secrets.token_hex(32)
    with scratch() as folder:
        found = Instances([], folder / "effects.sqlite")
        async with AsyncExitStack() as stack:
            for _ in range(instances):
                port = free_port()
                env = {"PORT": str(port), "MRTR_LEDGER": str(found.ledger), "STATE_SECRET": secret}
                found.urls.append(f"http://127.0.0.1:{port}/mcp")
                log = folder / f"{port}.log"
                command = [*peer.start, variant.name]
                server = listening(command, peer.built, env, log, found.urls[-1])
                await stack.enter_async_context(server)
            yield found


# --- programs -----------------------------------------------------------------------------------


def free_port() -> int:
    """Return a port on which nothing listens."""
    with listen(0) as listener:
        return listener.getsockname()[1]


@asynccontextmanager
async def started(
    command: Sequence[str],
    folder: Path,
    env: dict[str, str],
    log: Path | None,
    *,
    talks: bool = False,
) -> AsyncGenerator[Process]:
    """Run a program in a folder for the block; see `awaited_program`.

    Args:
        command: The program and its arguments.
        folder: The working folder of the program.
        env: Additional environment variables.
        log: The file for its output; without one, its errors go to the caller.
        talks: Whether its standard input and output go to the caller.
    """
    program = folder / command[0]
    first = str(program) if program.is_file() else command[0]
    with nullcontext(subprocess.PIPE) if log is None else log.open("ab") as out:
        async with awaited_program(
            [first, *command[1:]],
            cwd=folder,
            env=os.environ | env,
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else out,
            stderr=out,
        ) as process:
            yield process


async def comes_up(process: Process, url: str) -> bool:
    """Wait until a program listens at a URL.

    Return False if it ends, or takes longer than `START_SECONDS`.
    """
    with anyio.move_on_after(START_SECONDS):
        while process.returncode is None:
            if await listens(url):
                return True
            await anyio.sleep(PAUSE_SECONDS)
    return False


@asynccontextmanager
async def listening(
    command: Sequence[str], folder: Path, env: dict[str, str], log: Path, url: str
) -> AsyncGenerator[Process]:
    """Run a server for the block, from the moment at which it listens at a URL. See `started`.

    Raises:
        Unavailable: It ends, or does not listen.
    """
    async with started(command, folder, env, log) as process:
        if not await comes_up(process, url):
            is_over = process.returncode is not None
            what = "ends" if is_over else f"does not listen in {START_SECONDS:.0f} s"
            printed = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
            raise Unavailable(f"the server {what}: {_why(printed)}")
        yield process


@asynccontextmanager
async def running_service(service: Sequence[str], built: Path, folder: Path) -> AsyncGenerator[int]:
    """Run a service that programs use, if they need one, for the block; yield its port.

    Args:
        service: Its command, which gets its port in $MRTR_PORT; empty without a service.
        built: The folder of the programs in the cache.
        folder: The folder of its data and its log.
    """
    port = free_port()
    if not service:
        yield port
        return
    env = {"MRTR_STORE": str(folder / "store"), "MRTR_PORT": str(port)}
    log, url = folder / "service.log", f"http://127.0.0.1:{port}"
    async with listening(service, built, env, log, url):
        yield port
