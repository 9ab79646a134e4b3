"""What clients do when something goes wrong: each trouble, played with each client that there is.

A client is a folder beside this file: a small program that makes one call as its library's
documentation says and prints what the application sees. Its packages are installed below `build/`.
Knows the proxy, the server processes and the programs' one interface, which README.md describes;
nothing of any client's library.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
from anyio.streams.text import TextReceiveStream
from pydantic import BaseModel

from mrtr_options.review.bench.deployments.processes import CALLS, LEDGER, ROUNDS, Served, Worker
from mrtr_options.review.bench.faults import Era
from mrtr_options.review.bench.ledger import effects_after
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.starting import START_SECONDS
from mrtr_options.review.bench.subjects import Subject, is_shown_in, subject_named
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool import weather
from mrtr_options.tool.notation import LEGACY_SHIM
from mrtr_options.tool.server import TOOL
from scoreboard import ROOT
from scoreboard.clients.hostile import HOSTILE
from scoreboard.clients.proxy import Break, How, Proxy

FOLDER = Path(__file__).parent
INSTALLED = ROOT / "build" / "clients"
INSTALL_SECONDS = 600.0

LIMIT_SECONDS = 100.0
"""How long a client is waited for: longer than any trouble lasts, and than 60 s, a usual limit."""
THINK_SECONDS = 75.0
"""How long a user thinks about the first question who thinks for long."""
AT_A_TIME = 6
"""How many calls are made at a time, beside those that wait for something."""
TURN_SECONDS = 3.0
"""After how long a call is held to be one that waits."""
STARTING = 2
"""How many programs start at a time."""
LEAVE_SECONDS = 3.0
"""How long a program may take to end after its last job; one with a call that hangs does not."""
SAYS_CHARACTERS = 200
"""How much of an error's text is kept."""

RETRYING = "-retrying"
ASKS = "Springfield"
REGIONS = ("Illinois", "Missouri")


# --- the troubles -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong in one call, which asks two questions.

    Attributes:
        name: In the table and for `--only`.
        says: What happens, in a sentence.
        modern, legacy: What is broken for a client of that era; None if nothing is.
        eras: The eras that it is played in.
        hostile: Who makes the responses up instead of a server (see `hostile`).
        as_stream: Whether those are event streams.
        thinks: How long the user thinks about the first question, in seconds.
        place: What the user answers to the first question at first, where that is wrong.
        stdio: Whether the client speaks to a server process of its own, one of whose responses is
            lost.
        again: Whether the application calls again where it got no result.
        asks: Whether it takes a client that can put a question to its user.
        waits: Whether it may take a while.
    """

    name: str
    says: str
    modern: Break | None = None
    legacy: Break | None = None
    eras: tuple[Era, ...] = ("modern",)
    hostile: str | None = None
    as_stream: bool = False
    thinks: float = 0.0
    place: str | None = None
    stdio: bool = False
    again: bool = False
    asks: bool = False
    waits: bool = False

    def fault(self, era: Era) -> Break | None:
        """What is broken for a client of this era."""
        return self.modern if era == "modern" else self.legacy


FIRST, INTERIM, FINAL = 1, 2, 3
"""The messages of the call: a question, a question that depends on its answer, the result."""
_BOTH: tuple[Era, ...] = ("modern", "legacy")


def _broken(name: str, says: str, how: How, at: int = FINAL, **more: Any) -> Trouble:
    return Trouble(name, says, Break(how, at), **more)


def _in_both(
    name: str, says: str, how: How, at: int = FINAL, legacy: int | None = None, **more: Any
) -> Trouble:
    return Trouble(name, says, Break(how, at), Break(how, legacy or at), eras=_BOTH, **more)


def _made_up(name: str, says: str, hostile: str | None = None, **more: Any) -> Trouble:
    return Trouble(name, says, hostile=hostile or name, **more)


_LOST = "The connection is closed"

TROUBLES = {
    trouble.name: trouble
    for trouble in (
        Trouble("none", "Nothing goes wrong.", eras=_BOTH),
        _in_both("cut-first", f"{_LOST} before the first question.", "cut", FIRST, asks=True),
        _in_both("cut-interim", f"{_LOST} before the second question.", "cut", INTERIM, asks=True),
        _in_both("cut-final", f"{_LOST} before the result.", "cut"),
        _in_both("cut-final-again", f"{_LOST} before the result; called again.", "cut", again=True),
        _broken("reset-first", "The connection is reset before the first question.", "reset", FIRST),
        _broken("reset-interim", "The connection is reset before the second question.", "reset",
                INTERIM),
        _broken("reset-final", "The connection is reset before the result.", "reset"),
        _in_both("503", "A gateway answers 503 with Retry-After; the server was not reached.",
                 "503", FINAL, FIRST),
        _in_both("502", "A gateway answers 502 with Retry-After; the server did the work.",
                 "502", FINAL, FIRST),
        _in_both("stream-cut", "The event stream is cut off before the result.",
                 "stream-cut", waits=True),
        _in_both("stream-end", "The event stream ends cleanly before the result.",
                 "stream-end", waits=True),
        _in_both("stream-id-cut", "The event stream has event ids and is cut off before the result.",
                 "stream-id-cut", waits=True),
        _in_both("half-event", "The event stream is cut in the middle of the result.",
                 "half-event", waits=True),
        _broken("half-json", "The connection is closed in the middle of the JSON result.", "half-json"),
        _broken("empty", "The result's body is empty.", "empty", waits=True),
        _in_both("slow", "The result is 75 s late.", "slow", waits=True),
        Trouble("stdio", "Over stdio, the result is lost.", stdio=True, waits=True),
        Trouble("user-thinks", "The user thinks for 75 s about the first question.",
                eras=_BOTH, thinks=THINK_SECONDS, asks=True, waits=True),
        Trouble("bad-answer", "The user's first answer is not one of the choices.",
                place="Ohio", eras=_BOTH, asks=True),
        _made_up("state-only", "Every response has a state and asks nothing.", waits=True),
        _made_up("questions", "Every response asks another question."),
        _made_up("unknown-kind", "The question is of an unknown kind."),
        _made_up("mixed-kinds", "One of two questions is of an unknown kind."),
        _made_up("nothing-asked", "`input_required` with no question and no state."),
        _made_up("no-result-type", "The result has no `resultType`."),
        _made_up("unknown-result-type", "The `resultType` is \"banana\"."),
        _made_up("long-state", "The state is 1 MiB long."),
        _made_up("long-state-stream", "The state is 1 MiB long, in an event stream.",
                 "long-state", as_stream=True),
        _made_up("state-is-a-number", "The state is the number 42."),
        _made_up("asked-on-legacy", "`input_required` is the response to a legacy client.",
                 eras=("legacy",)),
    )
}  # fmt: skip


# --- the clients --------------------------------------------------------------------------------


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
    """

    name: str
    title: str
    library: str
    eras: tuple[Era, ...]
    stdio: bool = False
    asks: bool = True
    note: str = ""

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
        """The version of its library that is installed."""
        if self._node:
            about = self._into / "node_modules" / self.library / "package.json"
            return json.loads(about.read_text(encoding="utf-8"))["version"]
        if not self._manifest.is_file():
            return importlib.metadata.version(self.library)
        places = [str(path) for path in (self._into / "venv" / "lib").glob("python*/site-packages")]
        (found,) = importlib.metadata.distributions(name=self.library, path=places)
        return found.version

    def command(self) -> list[str]:
        """What starts its program."""
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
    """Every client, by name."""
    found: dict[str, Peer] = {}
    for path in sorted(FOLDER.glob("*/about.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        about["eras"] = tuple(about["eras"])
        retrying = about.pop("retrying", None)
        peer = found[path.parent.name] = Peer(path.parent.name, **about)
        if retrying is not None:
            found[peer.name + RETRYING] = replace(peer, name=peer.name + RETRYING, **retrying)
    return found


# --- what is found ------------------------------------------------------------------------------


Got = Literal["result", "tool error", "error", "client error", "nothing", "died"]
"""How a call ended for the application: in a result, in one that says it is an error, in an error
at the call, in one not at the call but where its connection's block ended, in nothing until it was
no longer waited for, or with the program.
"""


class Seen(BaseModel):
    """What one client did in one trouble.

    Attributes:
        client, era, trouble: Which.
        got: How the call ended for the application.
        says: The result's text, or the error's class, code and message.
        seconds: After how many, in steps of fifteen: less is how busy the machine is.
        requests: How many `tools/call` it sent; None if that was not seen.
        again: How many of them were a later round that it had sent already.
        anew: How many of them were the first round once more: the tool was called again.
        same_id: Whether one of them had an id that was used before.
        resumed: How often it asked for the rest of an event stream.
        asked: How often the user was asked.
        usable: Whether the same client object could list tools afterwards; None if that was not to
            be found out.
        kept_state: Whether the last request had a state, or was the first.
        audits, bills: What the ledger says; None where no server worked.
    """

    client: str
    era: Era
    trouble: str
    got: Got
    says: str
    seconds: int = 0
    requests: int | None = None
    again: int = 0
    anew: int = 0
    same_id: bool = False
    resumed: int = 0
    asked: int = 0
    usable: bool | None = None
    kept_state: bool = True
    audits: int | None = None
    bills: int | None = None


@dataclass
class Said:
    """What a client's program has printed of one job."""

    asked: int = 0
    ended: dict[str, Any] | None = None
    usable: bool | None = None
    over: anyio.Event = field(default_factory=anyio.Event)
    is_over: bool = False

    def take(self, said: dict[str, Any]) -> None:
        """Take note of one line."""
        if "asked" in said:
            self.asked += 1
        elif "usable" in said:
            self.usable = said["usable"]
        elif "over" in said:
            self.is_over = True
            self.over.set()
        elif self.ended is None:
            self.ended = said


async def _closed(process: anyio.abc.Process) -> None:
    with anyio.CancelScope(shield=True):
        await process.aclose()


class Player(Protocol):
    """Has jobs done.

    Attributes:
        ended: Whether it has ended, and the jobs with it.
    """

    ended: bool

    async def do(self, job: dict[str, Any], seconds: float) -> Said:
        """Have one job done.

        Args:
            job: What.
            seconds: How long it may take.
        """
        ...


@dataclass
class Program:
    """A client's program, which takes jobs for as long as it runs."""

    process: anyio.abc.Process
    jobs: dict[int, Said] = field(default_factory=dict[int, Said])
    errors: list[str] = field(default_factory=list[str])
    ready: anyio.Event = field(default_factory=anyio.Event)
    ended: bool = False

    @staticmethod
    @asynccontextmanager
    async def of(peer: Peer, starting: anyio.CapacityLimiter) -> AsyncGenerator[Program]:
        """A client's program, ready for jobs; it ends with the block."""
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{FOLDER}", "NO_COLOR": "1"}
        async with AsyncExitStack() as held, anyio.create_task_group() as group:
            async with starting:
                process = await anyio.open_process(peer.command(), env=environment)
                held.push_async_callback(_closed, process)
                program = Program(process)
                group.start_soon(program._read)
                group.start_soon(program._read_errors)
                await program.ready.wait()
            yield program
            await program._end()

    async def _end(self) -> None:
        """End it as it ends itself, where it can."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with anyio.move_on_after(LEAVE_SECONDS):
            await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self.process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                try:
                    said = json.loads(line)
                    if "ready" in said:
                        self.ready.set()
                        continue
                    self.jobs[said["job"]].take(said)
                except (ValueError, TypeError, KeyError):
                    continue  # a library that prints
        self.ended = True
        self.ready.set()
        for said in self.jobs.values():
            said.over.set()

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for text in TextReceiveStream(self.process.stderr, errors="replace"):
            self.errors += [line for line in text.splitlines() if line.strip()]

    async def do(self, job: dict[str, Any], seconds: float) -> Said:
        said = self.jobs[job["id"]] = Said()
        assert self.process.stdin is not None
        with anyio.move_on_after(seconds), suppress(anyio.BrokenResourceError):
            await self.process.stdin.send(json.dumps(job).encode() + b"\n")
            await said.over.wait()
        return said


# --- playing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """The server that clients call: an option in a process of its own.

    Attributes:
        origin: Where it listens.
        ledger: The file in which it counts effects.
        subject: What it serves, for a client that starts that itself.
        honours_keys: Whether a client may be told that it honours call keys.
    """

    origin: str
    ledger: Path
    subject: str
    honours_keys: bool = False


def subject(name: str) -> Subject:
    """The server for clients of both eras: an option inside the legacy shim, where it takes that.

    Raises:
        CannotLoad: There is no such option.
    """
    subject = subject_named(name)
    if is_shown_in(subject.option, LEGACY_SHIM) and LEGACY_SHIM not in subject.wrappers:
        return Subject(subject.option, (*subject.wrappers, LEGACY_SHIM))
    return subject


@asynccontextmanager
async def serving(subject: Subject, calls: int) -> AsyncGenerator[Server]:
    """A process that serves an option, with a place for each of so many calls."""
    with scratch() as folder:
        database = f"sqlite:///{folder / CALLS}"
        served = Served(
            subject, [new_key()], folder, database, folder / ROUNDS, places=places(calls)
        )
        weather.SqliteLedger(folder / LEDGER)
        worker = await anyio.to_thread.run_sync(Worker.started, served)
        try:
            # A client that waits for the server to come up may take it for one of the legacy era.
            async with httpx2.AsyncClient(timeout=START_SECONDS, trust_env=False) as http:
                await http.get(worker.origin)
            yield Server(worker.origin, folder / LEDGER, subject.name, subject.keyed)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(worker.end)


def places(calls: int) -> dict[str, weather.Report]:
    """A place of its own for each of so many calls, and another of the same name."""
    sunny = weather.Report(20, "sunny")
    return {f"{_city(n)}, {region}": sunny for n in range(calls) for region in REGIONS}


def _city(number: int) -> str:
    return f"{ASKS} {number}"


Cell = tuple[Peer, Era, Trouble]


def cells(clients: Sequence[Peer], troubles: Sequence[Trouble]) -> list[Cell]:
    """What is to be played, by client."""
    return [
        (peer, era, trouble)
        for peer in clients
        for trouble in troubles
        for era in trouble.eras
        if era in peer.eras
        if peer.stdio or not trouble.stdio
        if peer.asks or not trouble.asks
    ]


async def run(
    to_play: Sequence[Cell], subject: Subject, tell: Callable[[Seen], None]
) -> list[Seen]:
    """Play each client in each trouble.

    Args:
        to_play: Which.
        subject: What serves them.
        tell: Told each outcome as it comes.

    Returns:
        What was seen, in the order of `to_play`.
    """
    seen: dict[int, Seen] = {}
    turns, starting = anyio.CapacityLimiter(AT_A_TIME), anyio.CapacityLimiter(STARTING)

    async def give_up(number: int) -> None:
        """Let another call take this one's turn once it ends or has had it for long."""
        try:
            await anyio.sleep(TURN_SECONDS)
        finally:
            turns.release_on_behalf_of(number)

    async def of(peer: Peer, server: Server) -> None:
        """All of one client, in one program; what ends that is played once more, in one of its
        own.
        """
        died: list[int] = []

        async def one(number: int, program: Program) -> None:
            await turns.acquire_on_behalf_of(number)
            found = None
            async with anyio.create_task_group() as group:
                group.start_soon(give_up, number)
                found = await play(to_play[number], server, number, program)
                group.cancel_scope.cancel()
            # Some clients do not come to the call where the machine is busy: that says nothing of
            # it.
            if found is None or found.requests == 0:
                died.append(number)
            else:
                seen[number] = found
                tell(found)

        mine = [number for number, cell in enumerate(to_play) if cell[0] == peer]
        async with Program.of(peer, starting) as program, anyio.create_task_group() as group:
            for number in sorted(mine, key=lambda number: not to_play[number][2].waits):
                group.start_soon(one, number, program)
        for number in died:
            async with Program.of(peer, starting) as program:
                found = await play(to_play[number], server, number, program)
                if found is None:
                    found = _died(to_play[number], program)
                seen[number] = found
                tell(found)

    asyncio.get_running_loop().set_exception_handler(_unless_closed)
    async with serving(subject, len(to_play)) as server, anyio.create_task_group() as group:
        for peer in dict.fromkeys(cell[0] for cell in to_play):
            group.start_soon(of, peer, server)
    return [seen[number] for number in range(len(to_play))]


def _unless_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what asyncio says of a connection that comes in as its listener is closed."""
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


def _job(cell: Cell, server: Server, number: int, city: str) -> dict[str, Any]:
    """What a client's program is to do, but for where the server is."""
    peer, era, trouble = cell
    label = f"{city}, {trouble.place or REGIONS[0]}"
    return {
        "id": number,
        "url": None,
        "command": None,
        "era": era,
        "tool": TOOL,
        "arguments": {"location": city if peer.asks else label},
        "answers": {"place": f"{city}, {REGIONS[0]}", "units": "metric"},
        "wrong": {"place": label} if trouble.place else {},
        "think_seconds": trouble.thinks,
        "honours_keys": server.honours_keys,
    }


async def play(cell: Cell, server: Server, number: int, program: Player) -> Seen | None:
    """Play one trouble with one client.

    Args:
        cell: Which.
        server: Who is called.
        number: The place that the call is for.
        program: The client's.

    Returns:
        What was seen; None if the program ended.
    """
    peer, era, trouble = cell
    city = ASKS if trouble.stdio else _city(number)
    job = _job(cell, server, number, city)
    answer = HOSTILE[trouble.hostile] if trouble.hostile else None
    fault = trouble.fault(era)
    if fault is not None and not peer.asks:
        fault = replace(fault, at=FIRST)
    proxy = Proxy(server.origin, fault, answer, trouble.as_stream)
    seconds = trouble.thinks + LIMIT_SECONDS
    with scratch() as folder:
        ledger = server.ledger
        if trouble.stdio:
            ledger = folder / LEDGER
            weather.SqliteLedger(ledger)
            swallow = [sys.executable, "-m", "scoreboard.clients.swallow"]
            job["command"] = [*swallow, server.subject, str(folder), str(FINAL)]
        async with proxy.running() as origin:
            if not trouble.stdio:
                job["url"] = origin + PATH
            said = await program.do(job, seconds)
            if program.ended and not said.is_over:
                return None
            sent = tuple(proxy.sent)
            if trouble.again and said.ended is not None and "raised" in said.ended:
                again = await program.do(job, seconds)
                said.asked += again.asked
                said.ended = again.ended
        labels = {city, *(f"{city}, {region}" for region in REGIONS)}
        done = tuple(
            effect for effect in effects_after(ledger, 0).values() if effect.subject in labels
        )
    counts = weather.count(done)
    got, says = _ending(said)
    ids = [repr(each.id) for each in sent]
    first = [
        each for each in sent if each.params.keys().isdisjoint(("requestState", "inputResponses"))
    ]
    later = [json.dumps(each.params, sort_keys=True) for each in sent if each not in first]
    ended = said.ended or {}
    return Seen(
        client=peer.name,
        era=era,
        trouble=trouble.name,
        got=got,
        says=_short(says.replace(origin, "http://127.0.0.1").replace(city, ASKS)),
        seconds=15 * int(ended.get("seconds", seconds) // 15),
        requests=None if trouble.stdio else len(sent),
        again=len(later) - len(set(later)),
        anew=max(0, len(first) - 1),
        same_id=len(ids) > len(set(ids)),
        resumed=proxy.resumed,
        asked=said.asked,
        usable=said.usable,
        kept_state=len(sent) < 2 or "requestState" in sent[-1].params,
        audits=None if answer else counts["audit"],
        bills=None if answer else counts["bill"],
    )


def _ending(said: Said) -> tuple[Got, str]:
    """How the call ended for the application, and what that says."""
    if said.ended is None:
        return "nothing", ""
    if "returned" in said.ended:
        result = said.ended["returned"]
        return ("tool error" if result["is_error"] else "result"), result["text"]
    error = said.ended["raised"]
    code = "" if error["code"] is None else f" {error['code']}"
    got: Got = "error" if said.ended["where"] == "call" else "client error"
    return got, f"{error['class']}{code}: {error['message']}"


def _short(text: str) -> str:
    """The beginning of a text, on one line."""
    return " ".join(text.split())[:SAYS_CHARACTERS]


def _died(cell: Cell, program: Program) -> Seen:
    """The program itself ended with the trouble."""
    peer, era, trouble = cell
    return Seen(
        client=peer.name,
        era=era,
        trouble=trouble.name,
        got="died",
        says=_short(program.errors[-1] if program.errors else ""),
    )
