"""The servers that clients call: a few ways to write the weather tool, each in its own process.

`SERVERS` has the servers of CLIENTS: option F, F and J in the single-use guard, and the default,
which is J in the guard with the call named on the server. Clients that take tasks call option K, as
well. Each is inside the legacy shim, so that old clients are asked, too. Knows subjects and the
package's public parts; nothing of clients.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import CALLS, LEDGER, ROUNDS, Served, Worker
from mrtr_options.review.bench.subjects import Subject, is_shown_in, subject_named
from mrtr_options.review.bench.world.starting import START_SECONDS
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool import weather
from mrtr_options.tool.notation import LEGACY_SHIM
from mrtr_options.tool.settings import Context

ASKS = "Springfield"
REGIONS = ("Illinois", "Missouri")

WAIT_SECONDS = 10.0
"""The time that a guarded round waits for another delivery of itself; the guard's own default."""


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


def served_in(folder: Path, way: Way, places: dict[str, weather.Report] | None = None) -> Served:
    """Return what the server of a way is built from, with its files in a folder."""
    return Served(
        way.subject,
        [new_key()],
        folder,
        f"sqlite:///{folder / CALLS}",
        folder / ROUNDS,
        WAIT_SECONDS,
        places=places or {},
        principal=user_of,
    )


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
    with scratch() as folder:
        weather.SqliteLedger(folder / LEDGER)
        served = served_in(folder, way, places(calls))
        worker = await anyio.to_thread.run_sync(Worker.started, served)
        try:
            # A client that waits for the server to start may take it for a legacy server.
            async with httpx2.AsyncClient(timeout=START_SECONDS, trust_env=False) as http:
                await http.get(worker.origin)
            yield Serving(worker.origin, folder / LEDGER, way)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(worker.end)


def places(calls: int) -> dict[str, weather.Report]:
    """Return a place for each call, and another place of the same name."""
    sunny = weather.Report(20, "sunny")
    return {f"{city(n)}, {region}": sunny for n in range(calls) for region in REGIONS}


def city(number: int) -> str:
    """Return the place that the call with this number asks about."""
    return f"{ASKS} {number}"
