"""Plays every fault on every proxy, for three ways to write the server.

Knows the proxies' folders.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from http import HTTPStatus
from itertools import cycle
from pathlib import Path
from typing import cast

import anyio
import httpx2
from mcp import Client
from pydantic import BaseModel

from mrtr_options.review.bench.client import MODES, refuse_question
from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import CALLS, LEDGER, ROUNDS, Served, build
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.sdk.testing import served
from mrtr_options.tool.weather import SqliteLedger
from scoreboard import today
from scoreboard.proxies.upstream import (
    ASKS_FOR_EVER,
    FAULTS,
    MOST,
    Breaking,
    Instance,
    Name,
    Round,
    bills_in,
    play_rounds,
)
from scoreboard.servers.peers import Program, Unavailable, described, free_port, listening
from scoreboard.wire import wire

FOLDER = Path(__file__).parent
SUBJECTS = ("E", "F", "F+guard")
"""The servers behind the proxy: without a store, with markers, and with markers in the guard."""

CALL_SECONDS = 25.0
ROUTE_SECONDS = 10.0
PAUSE_SECONDS = 0.1

TRIES = 3
"""The number of tries to make a fault happen."""

LIMITATION = "harness limitation"
"""The end of a call whose fault never happened."""

KEY = secrets.token_hex(32).encode()


class Setting(BaseModel):
    """A configuration of a proxy.

    Attributes:
        name: Its name in the table.
        words: The words that are put into its files.
        documentation: The documentation's words on it.
    """

    name: str
    words: dict[str, str]
    documentation: str = ""


class ProxyAbout(Program):
    """A folder's description of a proxy.

    Attributes:
        package: The package that is installed.
        version: The command that prints its version.
        start: The command that starts it.
        files: Its configuration files by name, as templates in its folder.
        settings: Its settings, the default first.
        speaks_mcp: Whether it is a gateway: a server to its client, a client to one instance.
    """

    package: str
    version: list[str]
    start: list[str]
    files: dict[str, str]
    settings: list[Setting]
    speaks_mcp: bool = False


class Passed(BaseModel):
    """The result of a fault, for one server.

    Attributes:
        deliveries: The instances that got the last round, in order.
        same: Whether every delivery had the same method header, arguments, answers and state.
        bills: How often the user was charged.
        end: The end of the call for the client.
    """

    deliveries: list[str]
    same: bool
    bills: int
    end: str


class Crossed(BaseModel):
    """The result of a call without a fault through a gateway, for one server.

    Attributes:
        sent: The number of rounds that the client sent.
        arrived: The number of rounds that arrived at the instance.
        same: The number of these with the method header, arguments and answers of one that the
            client sent, and with a state that the instance gave, or none.
        sealed: Whether the client got another state than the instance gave.
        version: The protocol version in which they arrived; empty if none did.
        can_ask: Whether the instance was told that its client can be asked.
        bills: How often the user was charged.
        end: The end of the call for the client.
        two_gateways: The end of a call whose rounds alternate between two gateways.
        undeclared: The response to a client that declares no elicitation: "question" or an end.
    """

    sent: int
    arrived: int
    same: int
    sealed: bool
    version: str
    can_ask: bool
    bills: int
    end: str
    two_gateways: str
    undeclared: str


class ProxyResults(BaseModel):
    """The kept results of a proxy.

    Attributes:
        version: The version of the proxy.
        date: The day of the review.
        settings: The results by setting, fault and server; a gateway through which no call of these
            servers ends in a result has none.
        crossings: For a gateway, the results of calls without a fault, by setting and server.
    """

    version: str
    date: str
    settings: dict[str, dict[str, dict[str, Passed]]] = {}
    crossings: dict[str, dict[str, Crossed]] = {}


def proxies() -> dict[str, ProxyAbout]:
    """Return every proxy, by name."""
    return described(ProxyAbout, FOLDER.glob("*/about.toml"))


def version_of(about: ProxyAbout) -> str:
    """Return the line in which a proxy names its version."""
    command = about.command(about.version)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = (done.stdout + done.stderr).replace(command[0], about.version[0])
    lines = [line.strip() for line in told.splitlines()]
    return next(line for line in lines if any(letter.isdigit() for letter in line))[:80]


@asynccontextmanager
async def _server(subject: str, folder: Path) -> AsyncGenerator[list[str]]:
    """Run two instances of a server for the block, and yield their origins.

    They share a ledger, keys and a store.
    """
    calls = f"sqlite:///{folder / CALLS}"
    shared = Served(subject_named(subject), [KEY], folder, calls, folder / ROUNDS)
    async with AsyncExitStack() as stack:
        origins: list[str] = []
        for _ in range(2):
            server = build(shared, SqliteLedger(folder / LEDGER))
            url = await stack.enter_async_context(served(server))
            origins.append(url.rsplit("/", 1)[0])
        yield origins


async def passed(about: ProxyAbout, setting: Setting, fault: Name, subject: str) -> Passed:
    """Make one call through a proxy, whose last round meets a fault; retry if it does not."""
    for _ in range(TRIES):
        found = await _once(about, setting, fault, subject)
        if found is not None:
            return found
    return Passed(deliveries=[], same=True, bills=0, end=LIMITATION)


async def crossed(about: ProxyAbout, setting: Setting, subject: str) -> Crossed:
    """Make calls without a fault through a gateway."""
    shared = Breaking(None)
    sent: list[Round] = []
    with scratch() as folder:
        async with _started(about, setting, subject, folder, shared) as urls:
            said = await _call(urls[:1], sent)
            found = deepcopy(shared)
            bills = await bills_in(folder)
            two_gateways = await _call(urls)
            undeclared = await _call(urls[:1], elicits=False)
    given = {None, *found.issued}
    contents = {each.content for each in sent}
    same = [each for each in found.rounds if each.content in contents and each.state in given]
    return Crossed(
        sent=len(sent),
        arrived=len(found.rounds),
        same=len(same),
        sealed=any(each.state not in given for each in sent),
        version=next((each.version for each in found.rounds), ""),
        can_ask=found.can_ask,
        bills=bills,
        end=said,
        two_gateways=two_gateways,
        undeclared=undeclared,
    )


@asynccontextmanager
async def _started(
    about: ProxyAbout, setting: Setting, subject: str, folder: Path, shared: Breaking
) -> AsyncGenerator[list[str]]:
    """Run a proxy in front of a server for the block, and yield its address.

    Calls without a fault have two processes of the proxy, so there are two addresses.
    """
    async with AsyncExitStack() as stack:
        first, second = await stack.enter_async_context(_server(subject, folder))
        a = free_port()
        if shared.fault != "gone":
            a = await stack.enter_async_context(wire(first, Instance("a", shared)))
        b = await stack.enter_async_context(wire(second, Instance("b", shared)))
        urls: list[str] = []
        for number in range(1 if shared.fault else 2):
            own = folder / f"proxy-{number}"
            own.mkdir()
            running = _proxy(about, setting, own, a, b)
            port = await stack.enter_async_context(running)
            urls.append(f"http://127.0.0.1:{port}/mcp")
        yield urls


async def _once(about: ProxyAbout, setting: Setting, fault: Name, subject: str) -> Passed | None:
    """Make one call; return None if the fault did not happen, or the counts are of another call."""
    shared = Breaking(fault)
    with scratch() as folder:
        async with _started(about, setting, subject, folder, shared) as urls:
            said = await _call(urls)
        bills = await bills_in(folder)
    worked = len(shared.deliveries)
    if fault in ("reset-before", "503"):
        worked -= 1
    if bills > worked or (fault != "gone" and not shared.happened):
        return None
    return Passed(
        deliveries=[each.instance for each in shared.deliveries],
        same=len({each.same for each in shared.deliveries}) < 2,
        bills=bills,
        end=said,
    )


@asynccontextmanager
async def _proxy(
    about: ProxyAbout, setting: Setting, folder: Path, a: int, b: int
) -> AsyncGenerator[int]:
    """Run a proxy with a setting in front of two ports for the block, and yield its own port."""
    port = free_port()
    words = setting.words | {
        "port": str(port),
        "a": str(a),
        "b": str(b),
        "folder": str(folder),
        "installed": str(about.built),
        "python": sys.executable,
    }

    def filled(text: str) -> str:
        for word, value in words.items():
            text = text.replace("{" + word + "}", value)
        return text

    for name, template in about.files.items():
        text = (about.folder / template).read_text(encoding="utf-8")
        (folder / name).write_text(filled(text), encoding="utf-8")
    command = about.command([*map(filled, about.start)])
    env = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    url = f"http://127.0.0.1:{port}"
    async with listening(command, folder, env, folder / "proxy.log", url) as process:
        await _routes(f"{url}/mcp")
        if process.returncode is not None:
            raise Unavailable(f"{about.title} ends")
        yield port


async def _routes(url: str) -> None:
    """Wait until a proxy knows where to send requests; before that it answers 404."""
    async with httpx2.AsyncClient(trust_env=False, timeout=ROUTE_SECONDS) as http:
        with anyio.move_on_after(ROUTE_SECONDS):
            while (await http.delete(url)).status_code == HTTPStatus.NOT_FOUND:  # noqa: ASYNC110
                await anyio.sleep(PAUSE_SECONDS)


async def _call(
    urls: Sequence[str], sent: list[Round] | None = None, *, elicits: bool = True
) -> str:
    """Make one call with two questions, and return its end for the client.

    Args:
        urls: The addresses; each round goes to the next one.
        sent: Gets each round before it is sent.
        elicits: Whether the client declares that it can be asked; otherwise the call ends with the
            first question.
    """
    asked = refuse_question if elicits else None
    try:
        with anyio.fail_after(CALL_SECONDS):
            async with AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(
                        Client(url, mode=MODES["modern"], elicitation_callback=asked)
                    )
                    for url in urls
                ]
                end, _ = await play_rounds(cycle(clients), MOST if elicits else 1, sent)
                return end if elicits or end != ASKS_FOR_EVER else "question"
    except TimeoutError:
        return "no response"
    except Exception as error:
        return f"error: {_plain(error)}"


def _plain(error: BaseException) -> str:
    """Return an error's text; for a group, the text of its first error."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return _plain(group.exceptions[0])
    return str(error)[:80] or type(error).__name__


async def review(
    about: ProxyAbout, tell: Callable[[str], None], faults: Sequence[Name] = tuple(FAULTS)
) -> ProxyResults:
    """Play every fault on a proxy, with each of its settings."""
    results = ProxyResults(version=version_of(about), date=today())
    limit = anyio.CapacityLimiter(3)

    async def one(setting: Setting, fault: Name, subject: str) -> None:
        async with limit:
            tell(f"{about.title}, {setting.name}: {fault}, {subject}")
            cells = results.settings[setting.name][fault]
            cells[subject] = await passed(about, setting, fault, subject)

    settings = about.settings
    if about.speaks_mcp:
        results.crossings = await _crossings(about, tell)
        ends = {name: {each.end for each in of.values()} for name, of in results.crossings.items()}
        settings = [setting for setting in settings if ends[setting.name] == {"result"}]
    async with anyio.create_task_group() as group:
        for setting in settings:
            results.settings[setting.name] = {fault: {} for fault in faults}
            for fault in faults:
                for subject in SUBJECTS:
                    group.start_soon(one, setting, fault, subject)
    return results


async def _crossings(
    about: ProxyAbout, tell: Callable[[str], None]
) -> dict[str, dict[str, Crossed]]:
    """Make a call without a fault through a gateway, with each setting, for each server."""
    found: dict[str, dict[str, Crossed]] = {}
    for setting in about.settings:
        found[setting.name] = {}
        for subject in SUBJECTS:
            tell(f"{about.title}, {setting.name}: a clean call, {subject}")
            found[setting.name][subject] = await crossed(about, setting, subject)
    return found
