"""A running server in any language, as a deployment, reached by URL. Its effects are in a file.

What can be done to it is what any client can do. It cannot be restarted, aged, crashed or told who
is calling, and it may speak one era only, so the scenarios that need more are left out
(`Remote.cannot`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp.client.session import ElicitationFnT

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.client import MODES, connections, fetch_at
from mrtr_options.review.bench.deployments import HANG_SECONDS, Instances
from mrtr_options.review.bench.history import Crashed
from mrtr_options.review.bench.messages import ERAS, HUNG, Era, Reply, Request
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger_file import ForeignLedger, clear_faults
from mrtr_options.tool import weather

URL = ("http://", "https://")
"""The beginnings of a server's URL."""

CONNECT_SECONDS = 30.0
"""The longest time in which a server accepts a connection."""

NOT_OURS = (
    "that need the server to restart, to age, to crash, to fail once, or to be told who calls"
)
ALONE = "that need a second instance: name the URLs of both, with a comma between them"
NOT_SPOKEN = "of a client of {}: the server does not speak it"
"""The reasons why scenarios are left out."""

VERSIONS = MODES | {"legacy": "2025-11-25"}
"""The version of the protocol that a client of each era speaks."""


class CannotReach(UsageError):
    """A server that cannot be reached. The text is one line that says what to do."""


@dataclass
class Remote:
    """A running server as a deployment.

    Attributes:
        urls: The MCP endpoints of its instances.
        ledger: The SQLite file in which they record effects.
        hang_seconds: The longest time for one request before it is called hung.
        eras: The eras that it speaks.
        is_gone: Whether nothing listens any more where a request was sent.
    """

    urls: Sequence[str]
    ledger: weather.SqliteLedger
    hang_seconds: float = HANG_SECONDS
    eras: Sequence[Era] = ERAS
    is_gone: bool = False

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.setup.era not in self.eras:
            return NOT_SPOKEN.format(VERSIONS[scenario.setup.era])
        if scenario.instances > len(self.urls):
            return ALONE
        return NOT_OURS if scenario.needs else None

    @asynccontextmanager
    async def started(
        self, subject: Subject, scenario: Scenario
    ) -> AsyncGenerator[RemoteInstances]:
        """Open connections to the instances for one run."""
        async with connections() as http:
            found = RemoteInstances(self, http, scenario.instances, scenario.setup.destination)
            try:
                yield found
            finally:
                found.close()
                clear_faults(self.ledger.path)


class RemoteInstances(Instances):
    """One server somewhere else, during one run; made by `Remote.started`."""

    def __init__(
        self,
        where: Remote,
        http: httpx2.AsyncClient,
        instances: int,
        destination: weather.Destination,
    ) -> None:
        super().__init__(instances, where.hang_seconds)
        self._where = where
        self._http = http
        self._ledger = ForeignLedger(where.ledger.path, self.recording, destination)

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        url = self._where.urls[instance]
        reply = await fetch_at(url, self._http, request, user, gone, self.hang_seconds)
        await self.collect()
        if reply.nothing is not None and not self._where.is_gone and not await listens(url):
            self._where.is_gone = True
            where = self.recording.sending_at(instance)
            self.recording.append(Crashed(instance, where, "nothing listens there any more"))
        self._ledger.note_failure(instance, reply)
        return reply

    async def arm(self, name: str | None, only: int | None = None) -> None:
        self._ledger.arm(name)

    async def collect(self) -> None:
        self._ledger.collect()

    def close(self) -> None:
        """Let go of the ledger."""
        self._ledger.close()


async def listens(url: str) -> bool:
    """Return whether anything takes connections there."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with suppress(OSError), anyio.move_on_after(CONNECT_SECONDS):
        async with await anyio.connect_tcp(parts.hostname or "", port):
            return True
    return False


def is_url(text: str) -> bool:
    """Return whether a server could be at this URL."""
    with suppress(ValueError, httpx2.InvalidURL):
        return text.startswith(URL) and urlsplit(text).port != 0 and bool(httpx2.URL(text).host)
    return False


async def eras_of(url: str, seconds: float = HANG_SECONDS) -> list[Era]:
    """Return the eras in which a server lists its tools.

    Args:
        url: The server's endpoint.
        seconds: The longest time that it may take.

    Raises:
        CannotReach: It lists them in no era.
    """
    replies: dict[Era, Reply] = {}

    async def ask(era: Era) -> None:
        request = Request(method="tools/list", era=era)
        replies[era] = await fetch_at(url, http, request, seconds=seconds)

    async with connections() as http, anyio.create_task_group() as group:
        for era in ERAS:
            group.start_soon(ask, era)
    found: list[Era] = [era for era in ERAS if replies[era].tools]
    if not found and any(reply.nothing == HUNG for reply in replies.values()):
        raise CannotReach(f"no MCP server answers at {url} in {seconds:g} seconds")
    if not found:
        raise CannotReach(f"no MCP server answers at {url}; start it, or correct the URL")
    return found
