"""The last whole run of each client, as docs/data/clients.json keeps it.

Knows what `play` sees; nothing of any client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from mrtr_options.review.bench.setup import Era
from mrtr_options.review.explore.kept import KeptFile
from scoreboard import ROOT
from scoreboard.clients.peers import peers
from scoreboard.clients.play import Seen
from scoreboard.clients.server import SERVERS

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


def keep(report: Report, path: Path = FILE) -> None:
    """Replace the kept runs of some clients."""
    before = _earlier(path)
    known = [name for name in peers() if name in {*before.clients, *report.clients}]
    merged = Report(
        servers={name: SERVERS[name].title for name in SERVERS},
        clients={name: _newest(name, report, before).clients[name] for name in known},
        seen=[
            seen
            for name in known
            for seen in _newest(name, report, before).seen
            if seen.client == name
        ],
    )
    KeptFile(path, Report).write(merged)


def _earlier(path: Path) -> Report:
    """Return the kept runs; nothing if another version of this module wrote them."""
    try:
        return read(path)
    except (FileNotFoundError, ValidationError):
        return Report(servers={}, clients={}, seen=[])


def _newest(client: str, report: Report, before: Report) -> Report:
    return report if client in report.clients else before


def failed_controls(report: Report) -> list[str]:
    """Return the runs that show a fault of a client's program, a server or the machine.

    A call without any trouble ends in its result, charges once, and is not held up by a busy
    machine. Every other result has the same text; over stdio the place is another one.
    """
    return [*dict.fromkeys(_failed(report.seen))]


def _failed(seen: Sequence[Seen]) -> Iterator[str]:
    expected = {_kind(each): each.says for each in seen if each.trouble == "none"}
    for each in seen:
        if each.trouble == "none":
            is_whole = (each.got, each.audits, each.bills) == ("result", 1, 1)
            is_fine = is_whole and not each.seconds
        else:
            is_over_http = each.requests is not None
            is_report = each.got == "result" and each.bills is not None and is_over_http
            is_fine = not is_report or each.says == expected.get(_kind(each), each.says)
        if not is_fine:
            yield f"{each.client} with {each.server}, {each.era}, {each.trouble}"


def _kind(seen: Seen) -> tuple[str, Era, str]:
    return seen.client, seen.era, seen.server
