"""The last whole run of each client, as docs/data/clients.json keeps it.

Knows what `play` sees; nothing of any client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from pydantic import BaseModel, ValidationError

from mrtr_options.review.bench.messages import ERAS, Era
from mrtr_options.review.explore.kept import KeptFile
from scoreboard import ROOT
from scoreboard.clients.peers import peers
from scoreboard.clients.play import Seen
from scoreboard.clients.server import SERVERS
from scoreboard.clients.troubles import MODERN, TROUBLES

FILE = ROOT / "docs" / "data" / "clients.json"
"""The file that CLIENTS is made from."""


class About(BaseModel):
    """A client that was run.

    Attributes:
        title, library, version, note, is_ours: See `Peer`.
        date: The day of the run, as in "2026-11-27".
    """

    title: str
    library: str
    version: str
    note: str
    is_ours: bool
    date: str


class Report(BaseModel):
    """Runs of clients.

    Attributes:
        servers: The titles of the servers, by the name of the `Way`.
        clients: The clients, by name.
        seen: The runs.
    """

    servers: dict[str, str]
    clients: dict[str, About]
    seen: list[Seen]

    @property
    def first_server(self) -> str:
        """The name of the first server, with which every trouble is played."""
        return next(iter(self.servers))

    def of(self, client: str, era: Era, server: str | None = None) -> list[Seen]:
        """Return the runs of one client in one era, with one server, by default the first."""
        called = server or self.first_server
        return [
            seen
            for seen in self.seen
            if (seen.client, seen.era, seen.server) == (client, era, called)
        ]


def read(path: Path = FILE) -> Report:
    """Return the kept runs."""
    return KeptFile(path, Report).read()


def keep(report: Report, path: Path = FILE, *, whole: bool = True) -> None:
    """Keep the runs of some clients: in place of theirs, or of the same runs if they are a part.

    Raises:
        ValueError: They are a part, and the whole run was of another version of the client.
    """
    before = _earlier(path)
    if not whole:
        _check_versions(report, before)
    stays = [seen for seen in before.seen if not whole or seen.client not in report.clients]
    found = {_place(seen): seen for seen in (*stays, *report.seen)}
    clients = before.clients | report.clients if whole else report.clients | before.clients
    known = [name for name in peers() if name in clients]
    merged = Report(
        servers={name: way.title for name, way in SERVERS.items()},
        clients={name: clients[name] for name in known},
        seen=[found[place] for place in product(known, TROUBLES, ERAS, SERVERS) if place in found],
    )
    KeptFile(path, Report).write(merged)


def _place(seen: Seen) -> tuple[str, ...]:
    return seen.client, seen.trouble, seen.era, seen.server


def _check_versions(report: Report, before: Report) -> None:
    for name, about in report.clients.items():
        whole = before.clients.get(name)
        if whole is None or whole.version != about.version:
            raise ValueError(f"there is no whole run of {about.title} {about.version}")


def _earlier(path: Path) -> Report:
    """Return the kept runs; nothing if another version of this module wrote them."""
    try:
        return read(path)
    except (FileNotFoundError, ValidationError):
        return Report(servers={}, clients={}, seen=[])


def failed_controls(report: Report) -> list[str]:
    """Return the runs that show a fault of a client's program, a server or the machine.

    A call without any trouble ends in its result, charges once, and is not held up by a busy
    machine. Every other result has the same text; over stdio the place is another one. Each
    client gets as far as the call, and names a version of its era.
    """
    return [*dict.fromkeys(_failed(report.seen))]


def _failed(seen: Sequence[Seen]) -> Iterator[str]:
    expected = {_kind(each): each.says for each in seen if each.trouble == "none"}
    for each in seen:
        if each.trouble == "none":
            is_fine = (each.got, each.audits, each.bills, each.seconds) == ("result", 1, 1, 0)
        else:
            may_differ = each.got != "result" or None in (each.bills, each.requests)
            is_fine = may_differ or each.says == expected.get(_kind(each), each.says)
        is_of_era = not each.version or (each.version >= MODERN) == (each.era == "modern")
        if not (is_fine and is_of_era) or each.requests == 0:
            yield f"{each.client} with {each.server}, {each.era}, {each.trouble}"


def _kind(seen: Seen) -> tuple[str, Era, str]:
    return seen.client, seen.era, seen.server
