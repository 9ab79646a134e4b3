"""`make clients`: plays what can go wrong with clients, and prints a table for each.

A run of every trouble with every server is kept in docs/clients.json, client by client, with its
date. docs/CLIENTS.md is made from that file. Exit code: 0, 2 bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, console, refuse
from mrtr_options.terminal import run as run_command
from scoreboard import chosen
from scoreboard.clients.kept import FILE, About, Report, failed_controls, keep
from scoreboard.clients.page import sentences, tables
from scoreboard.clients.peers import Peer, Unavailable, peers
from scoreboard.clients.play import Cell, Seen, cells, run
from scoreboard.clients.server import SERVERS, Way, way
from scoreboard.clients.troubles import TROUBLES, Trouble


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = Parser(
        prog="python -m scoreboard.clients",
        description="What clients do when something goes wrong. Without arguments: all of it, in"
        " about ten minutes. Clients that met every trouble and every server are kept in"
        " docs/clients.json; `make clients` also writes docs/CLIENTS.md.",
        allow_abbrev=False,
    )
    parser.add_argument("--only", metavar="TROUBLE,...", help="some of what can go wrong")
    parser.add_argument(
        "--clients", metavar="NAME,...", help="some of the folders of scoreboard/clients"
    )
    parser.add_argument(
        "--server",
        metavar="NAME,...",
        help=f"what they call: {', '.join(SERVERS)} (all of these without it), or another option,"
        " as in H",
    )
    args = parser.parse_args(argv)
    return run_command(lambda: _clients(args))


def _clients(args: argparse.Namespace) -> int:
    troubles = chosen(args.only, TROUBLES, "trouble")
    wanted = chosen(args.clients, peers(), "client")
    ways = [*SERVERS.values()] if args.server is None else [*map(way, args.server.split(","))]
    ready, left_out = _installed(wanted)
    if not ready:
        refuse("no client can be run: " + "; ".join(left_out))
    report = _played(ready, troubles, ways)
    out = console()
    for table in tables(report):
        out.print(table)
    for sentence in sentences(report):
        out.print(sentence, soft_wrap=True)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    is_all = args.only is None and args.server is None
    print(_kept(report) if is_all else _as_it_was("not every trouble and server"), file=sys.stderr)
    return 0


def _installed(wanted: Sequence[Peer]) -> tuple[list[Peer], list[str]]:
    """Return the clients that can be run, and a line for each reason why others cannot."""
    ready: list[Peer] = []
    reasons: dict[str, list[str]] = {}
    for peer in wanted:
        try:
            with console(stderr=True).status(f"installing {peer.title}"):
                peer.install()
            ready.append(peer)
        except Unavailable as error:
            reasons.setdefault(str(error), []).append(peer.title)
    return ready, [f"{', '.join(titles)} ({why})" for why, titles in reasons.items()]


def _played(ready: Sequence[Peer], troubles: Sequence[Trouble], ways: Sequence[Way]) -> Report:
    to_play = cells(ready, troubles, ways)
    seen = anyio.run(_run, to_play)
    date = datetime.now(UTC).date().isoformat()
    about = {
        peer.name: About(
            title=peer.title,
            library=peer.library,
            version=peer.version(),
            note=peer.note,
            is_ours=peer.is_ours,
            date=date,
        )
        for peer in ready
    }
    return Report(servers={way.name: way.title for way in ways}, clients=about, seen=seen)


async def _run(to_play: Sequence[Cell]) -> list[Seen]:
    waiting = dict.fromkeys(
        (cell.peer.name, cell.era, cell.trouble.name, cell.way.name) for cell in to_play
    )
    with counting("clients", len(to_play)) as begin:

        def tell(seen: Seen) -> None:
            del waiting[seen.client, seen.era, seen.trouble, seen.server]
            begin("waiting for " + " ".join(next(iter(waiting), ("the end",))))

        return await run(to_play, tell)


def _kept(report: Report) -> str:
    """Keep a report, unless its calls without a trouble failed; return a line that says so."""
    if failed := failed_controls(report):
        return _as_it_was(f"calls without any trouble failed: {', '.join(failed)}")
    keep(report)
    return f"{FILE.name} has {len(report.clients)} of {len(peers())} clients of today"


def _as_it_was(why: str) -> str:
    return f"{FILE.name} is kept as it was: {why}"


if __name__ == "__main__":
    sys.exit(main())
