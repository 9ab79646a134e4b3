"""The servers that clients call: a few ways to write the weather tool, each in its own process.

`SERVERS` has the servers of CLIENTS: option F, F and J in the single-use guard, and the default,
which is J in the guard with the call named on the server. Clients that take tasks call option K, as
well. Each is inside the legacy shim, so that old clients are asked, too. Knows subjects and the
package's public parts; nothing of clients.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from mcp.server import MCPServer, Server

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import CALLS, LEDGER, ROUNDS
from mrtr_options.review.bench.subjects import Subject, is_shown_in, subject_named
from mrtr_options.review.bench.world.starting import START_SECONDS, context, end, start_server
from mrtr_options.review.bench.world.wrappers import make_wrappers, open_store
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.serving import web_server
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.notation import LEGACY_SHIM
from mrtr_options.tool.settings import Context, Settings

ASKS = "Springfield"
REGIONS = ("Illinois", "Missouri")


@dataclass(frozen=True)
class Way:
    """A way to write the tool.

    Attributes:
        name: Its name in `--server` and clients.json.
        title: Its name in the tables.
        subject: The option and its wrappers.
    """

    name: str
    title: str
    subject: Subject


def user_of(ctx: Context) -> str | None:
    """Name the caller: a server on a user's own machine has one caller."""
    return "the user"


DEFAULT = "default"
TASKS = "K"
"""The server whose calls become tasks, for clients that take them."""


def subject(name: str) -> Subject:
    """Return the subject of this name, inside the legacy shim if the option takes the shim.

    Raises:
        CannotLoad: The option is unknown.
    """
    found = subject_named(name)
    takes_shim = is_shown_in(found.option, LEGACY_SHIM) and LEGACY_SHIM not in found.wrappers
    if takes_shim:
        return Subject(found.option, (*found.wrappers, LEGACY_SHIM))
    return found


SERVERS = {
    name: Way(name, title, subject(name))
    for name, title in (
        ("F", "F"),
        ("F+guard", "F in the guard"),
        ("J+guard", "J in the guard"),
        (DEFAULT, "the default: J in the guard, call named"),
        (TASKS, "K, as tasks"),
    )
}
"""The servers of CLIENTS, by name. Every trouble is played with the first one."""


def way(name: str) -> Way:
    """Return the way of this name: one of `SERVERS`, or any subject.

    Raises:
        CannotLoad: The option is unknown.
    """
    if name in SERVERS:
        return SERVERS[name]
    found = subject(name)
    return Way(name, found.title, found)


# --- in the server's process --------------------------------------------------------------------


def build(
    way: Way, folder: Path, keys: Sequence[bytes] | None = None
) -> Server[Any] | MCPServer[Any]:
    """Build the server of a way.

    Args:
        way: The way to write the tool.
        folder: The folder of its ledger, its rounds and its calls.
        keys: The state keys; None for a key of this process only.
    """
    settings = Settings(
        weather.SqliteLedger(folder / LEDGER),
        keys=keys,
        wrappers=make_wrappers(way.subject.wrappers, open_store(folder / ROUNDS), single_use),
        principal=user_of,
        database=f"sqlite:///{folder / CALLS}",
    )
    return load(way.subject.option.path, settings)


def _serve(
    way: Way, folder: Path, places: dict[str, weather.Report], listener: socket.socket
) -> None:
    """Serve over HTTP until killed."""
    gc.freeze()  # a pass of the collector copies what this process shares with the fork server
    logging.disable()  # the SDK logs every failure, and here every failure is intended
    weather.REPORTS.update(places)
    anyio.run(_serve_until_killed, build(way, folder, [new_key()]), listener)


async def _serve_until_killed(server: Any, listener: socket.socket) -> None:
    try:
        await web_server(server, listener).serve(sockets=[listener])
    except SystemExit:  # it could not start; the parent process sees that it has ended
        os._exit(1)


# --- in the process that plays ------------------------------------------------------------------


@dataclass(frozen=True)
class Serving:
    """A running server.

    Attributes:
        origin: The origin at which it listens.
        ledger: The file in which it counts effects.
        way: The way of its tool.
    """

    origin: str
    ledger: Path
    way: Way

    @property
    def honours_keys(self) -> bool:
        """Return whether to tell a client that the server honours call keys."""
        return self.way.subject.keyed


@asynccontextmanager
async def serving(way: Way, calls: int) -> AsyncGenerator[Serving]:
    """Run a server in its own process for the block, with a place for each call."""
    context(__name__)
    with scratch() as folder:
        weather.SqliteLedger(folder / LEDGER)
        process, origin = await anyio.to_thread.run_sync(
            start_server, _serve, way, folder, places(calls)
        )
        try:
            # A client that waits for the server to start may take it for a legacy server.
            async with httpx2.AsyncClient(timeout=START_SECONDS, trust_env=False) as http:
                await http.get(origin)
            yield Serving(origin, folder / LEDGER, way)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(end, process)
                process.close()


def places(calls: int) -> dict[str, weather.Report]:
    """Return a place for each call, and another place of the same name."""
    sunny = weather.Report(20, "sunny")
    return {f"{city(n)}, {region}": sunny for n in range(calls) for region in REGIONS}


def city(number: int) -> str:
    """Return the place that the call with this number asks about."""
    return f"{ASKS} {number}"
