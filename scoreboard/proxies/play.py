"""Plays every fault on every proxy, for three ways to write the server.

Knows the proxies' folders.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tomllib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from pydantic import BaseModel

from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.subjects import make_wrappers, open_store, subject_named
from mrtr_options.sdk.testing import served
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import SqliteLedger
from scoreboard.proxies.upstream import FAULTS, Breaking, Fault, instance
from scoreboard.servers.peers import cache, comes_up, end, free_port, start

FOLDER = Path(__file__).parent
SUBJECTS = ("E", "F", "F¹")
"""The servers behind the proxy: without a store, with markers, and with markers in the guard."""

CALL_SECONDS = 25.0
ROUTE_SECONDS = 10.0
PAUSE_SECONDS = 0.1

TRIES = 3
"""The number of tries to make a fault happen."""

LIMITATION = "harness limitation"
"""The end of a call whose fault never happened."""

KEY = secrets.token_hex(32).encode()
ANSWERS = {"place": "Springfield, Missouri", "units": "imperial"}


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


class ProxyAbout(BaseModel):
    """A folder's description of a proxy.

    Attributes:
        name: The name of the folder.
        order: Its place in the table.
        title, package: Its usual name, and the package that is installed.
        needs: Its program.
        version: The command that prints its version.
        start: The command that starts it.
        files: Its configuration files by name, as templates in its folder.
        settings: Its settings, the default first.
    """

    name: str
    order: int
    title: str
    package: str
    needs: str
    version: list[str]
    start: list[str]
    files: dict[str, str]
    settings: list[Setting]


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


class ProxyResults(BaseModel):
    """The kept results of a proxy.

    Attributes:
        version: The version of the proxy.
        date: The day of the review.
        settings: The results by setting, fault and server.
    """

    version: str
    date: str
    settings: dict[str, dict[str, dict[str, Passed]]] = {}


def proxies(folder: Path = FOLDER) -> dict[str, ProxyAbout]:
    """Return every proxy, by name, in the order of their `order`."""
    found = [
        ProxyAbout(name=path.parent.name, **tomllib.loads(path.read_text(encoding="utf-8")))
        for path in folder.glob("*/about.toml")
    ]
    return {each.name: each for each in sorted(found, key=lambda each: each.order)}


def program(name: str) -> str | None:
    """Return a proxy's program: installed by `pip` into the cache, or on the machine."""
    installed = cache() / "proxies" / "bin" / name
    return str(installed) if installed.is_file() else shutil.which(name)


def version_of(about: ProxyAbout) -> str:
    """Return the line in which a proxy names its version."""
    command = [program(about.version[0]) or about.version[0], *about.version[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = (done.stdout + done.stderr).replace(command[0], about.version[0])
    lines = [line.strip() for line in told.splitlines()]
    return next(line for line in lines if any(letter.isdigit() for letter in line))[:80]


@asynccontextmanager
async def _server(subject: str, folder: Path) -> AsyncGenerator[list[str]]:
    """Run two instances of a server for the block, and yield their origins.

    They share a ledger, keys and a store.
    """
    found = subject_named(subject)
    async with AsyncExitStack() as stack:
        origins: list[str] = []
        for _ in range(2):
            wrappers: list[Any] = []
            if found.wrappers:
                store = open_store(folder / "rounds.sqlite")
                wrappers += make_wrappers(found.wrappers, store)
            ledger = SqliteLedger(folder / "ledger.sqlite")
            settings = Settings(ledger, keys=[KEY], wrappers=wrappers)
            url = await stack.enter_async_context(served(load(found.option.path, settings)))
            origins.append(url.rsplit("/", 1)[0])
        yield origins


async def passed(about: ProxyAbout, setting: Setting, fault: Fault, subject: str) -> Passed:
    """Make one call through a proxy, whose last round meets a fault; retry if it does not."""
    for _ in range(TRIES):
        found = await _once(about, setting, fault, subject)
        if found is not None:
            return found
    return Passed(deliveries=[], same=True, bills=0, end=LIMITATION)


async def _once(about: ProxyAbout, setting: Setting, fault: Fault, subject: str) -> Passed | None:
    """Make one call; return None if the fault did not happen, or the counts are of another call."""
    shared = Breaking(fault)
    with scratch() as folder:
        async with AsyncExitStack() as stack:
            first, second = await stack.enter_async_context(_server(subject, folder))
            a = free_port()
            if fault != "gone":
                a = await stack.enter_async_context(instance("a", first, shared))
            b = await stack.enter_async_context(instance("b", second, shared))
            port = await stack.enter_async_context(_proxy(about, setting, folder, a, b))
            said = await _call(f"http://127.0.0.1:{port}/mcp")
        ledger = SqliteLedger(folder / "ledger.sqlite")
        bills = len([each for each in await ledger.effects() if each.kind == "bill"])
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
    words = {"port": str(port), "a": str(a), "b": str(b), "folder": str(folder), **setting.words}

    def filled(text: str) -> str:
        for word in ("retries", "port", "a", "b", "folder"):
            text = text.replace("{" + word + "}", words[word])
        return text

    for name, template in about.files.items():
        text = (FOLDER / about.name / template).read_text(encoding="utf-8")
        (folder / name).write_text(filled(text), encoding="utf-8")
    command = [program(about.start[0]) or about.start[0], *map(filled, about.start[1:])]
    env = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    process = await start(command, folder, env, folder / "proxy.log")
    try:
        if not await comes_up(process, f"http://127.0.0.1:{port}"):
            log = (folder / "proxy.log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{about.title} does not start: {log[-500:]}")
        await _routes(f"http://127.0.0.1:{port}/mcp")
        if process.returncode is not None:
            raise RuntimeError(f"{about.title} ends")
        yield port
    finally:
        await end(process)


async def _routes(url: str) -> None:
    """Wait until a proxy knows where to send requests; before that it answers 404."""
    async with httpx2.AsyncClient(trust_env=False, timeout=ROUTE_SECONDS) as http:
        with anyio.move_on_after(ROUTE_SECONDS):
            while (await http.delete(url)).status_code == HTTPStatus.NOT_FOUND:  # noqa: ASYNC110
                await anyio.sleep(PAUSE_SECONDS)


async def _call(url: str) -> str:
    """Make one call with two questions, and return its end for the client."""
    try:
        with anyio.fail_after(CALL_SECONDS):
            async with Client(url, mode=MODES["modern"], elicitation_callback=_user) as client:
                arguments = {"location": "Springfield"}
                state: str | None = None
                answers: types.InputResponses | None = None
                while True:
                    response = await client.session.call_tool(
                        TOOL,
                        arguments,
                        input_responses=answers,
                        request_state=state,
                        allow_input_required=True,
                    )
                    if not isinstance(response, types.InputRequiredResult):
                        return "`isError`" if response.is_error else "result"
                    state = response.request_state
                    answers = {
                        key: types.ElicitResult(action="accept", content={key: ANSWERS[key]})
                        for key in response.input_requests or {}
                    }
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


async def _user(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="cancel")  # a modern client is asked in responses


async def review(
    about: ProxyAbout, tell: Callable[[str], None], faults: Sequence[Fault] = tuple(FAULTS)
) -> ProxyResults:
    """Play every fault on a proxy, with each of its settings."""
    date = datetime.now(UTC).date().isoformat()
    results = ProxyResults(version=version_of(about), date=date)
    limit = anyio.CapacityLimiter(3)

    async def one(setting: Setting, fault: Fault, subject: str) -> None:
        async with limit:
            tell(f"{about.title}, {setting.name}: {fault}, {subject}")
            cells = results.settings[setting.name].setdefault(fault, {})
            cells[subject] = await passed(about, setting, fault, subject)

    async with anyio.create_task_group() as group:
        for setting in about.settings:
            results.settings[setting.name] = {fault: {} for fault in faults}
            for fault in faults:
                for subject in SUBJECTS:
                    group.start_soon(partial(one, setting, fault, subject))
    return results
