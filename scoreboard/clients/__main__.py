"""`make clients`: plays what can go wrong with clients, and prints a table for each.

A run of everything is kept in docs/clients.json, from which docs/CLIENTS.md is made. Exit code: 0,
2 bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TypeVar

import anyio

from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, console, refuse
from mrtr_options.terminal import run as run_command
from scoreboard import chosen
from scoreboard.clients.page import FILE, About, Report, sentences, tables
from scoreboard.clients.play import (
    TROUBLES,
    Peer,
    Seen,
    Trouble,
    Unavailable,
    cells,
    peers,
    run,
    subject,
)

SERVER = "F"

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = Parser(
        prog="python -m scoreboard.clients",
        description="What clients do when something goes wrong. Without arguments: all of it, in about"
        " three minutes, kept in docs/clients.json; `make clients` also writes docs/CLIENTS.md.",
        allow_abbrev=False,
    )
    parser.add_argument("--only", metavar="TROUBLE,...", help="some of what can go wrong")
    parser.add_argument(
        "--clients", metavar="NAME,...", help="some of the folders of scoreboard/clients"
    )
    parser.add_argument(
        "--server", metavar="OPTION", default=SERVER, help="what they call, as in H or F+single-use"
    )
    args = parser.parse_args(argv)
    return run_command(lambda: _clients(args))


def _clients(args: argparse.Namespace) -> int:
    known = peers()
    troubles = chosen(args.only, TROUBLES, "trouble")
    wanted = chosen(args.clients, known, "client")
    served = subject(args.server)
    ready, left_out = _installed(wanted)
    if not ready:
        refuse("no client can be run: " + "; ".join(left_out))
    report = _played(ready, troubles, served)
    whole = (args.only, args.clients, args.server) == (None, None, SERVER) and not left_out
    if whole:
        FILE.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    out = console()
    for table in tables(report):
        out.print(table)
    for sentence in sentences(report):
        out.print(sentence, soft_wrap=True)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if not whole:
        print(f"{FILE.name} is kept as it was: this was not all of it", file=sys.stderr)
    return 0


def _installed(wanted: Sequence[Peer]) -> tuple[list[Peer], list[str]]:
    """Those that can be run, and a line for each reason why others cannot."""
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


def _played(ready: Sequence[Peer], troubles: Sequence[Trouble], subject: Subject) -> Report:
    to_play = cells(ready, troubles)
    with counting("clients", len(to_play)) as begin:
        waiting = {(peer.name, era, trouble.name): None for peer, era, trouble in to_play}

        def tell(seen: Seen) -> None:
            del waiting[seen.client, seen.era, seen.trouble]
            begin("waiting for " + " ".join(next(iter(waiting), ("the end",))))

        seen = anyio.run(run, to_play, subject, tell)
    about = {
        peer.name: About(
            title=peer.title, library=peer.library, version=peer.version(), note=peer.note
        )
        for peer in ready
    }
    return Report(server=subject.name, clients=about, seen=seen)


if __name__ == "__main__":
    sys.exit(main())
