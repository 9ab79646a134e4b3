"""`make clients`: plays troubles with clients, and prints a table for each client.

A run of every trouble with every server is kept in docs/data/clients.json, client by client, with
its date. docs/results/CLIENTS.md is made from that file. Exit code: 0, 2 for bad input, 130 after
Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, console, refuse
from mrtr_options.terminal import run as run_command
from scoreboard import chosen, listed, today
from scoreboard.clients.kept import FILE, About, Report, failed_controls, keep
from scoreboard.clients.page import conduct, history
from scoreboard.clients.peers import Peer, peers
from scoreboard.clients.play import STEP_SECONDS, Seen, cells, run
from scoreboard.clients.server import SERVERS, Way, way
from scoreboard.clients.troubles import TROUBLES, Trouble
from scoreboard.servers.peers import Unavailable, build


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = Parser(
        prog="python -m scoreboard.clients",
        description="What clients do when something goes wrong. Without arguments: all of it, in"
        " a quarter of an hour. Clients that met every trouble and every server are kept in"
        " docs/data/clients.json; `make clients` also writes docs/results/CLIENTS.md.",
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
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep these runs, beside the others of the same version of the client",
    )
    args = parser.parse_args(argv)
    troubles = chosen(args.only, TROUBLES, "trouble")
    wanted = chosen(args.clients, peers(), "client")
    ways = [*SERVERS.values()] if args.server is None else [*map(way, listed(args.server))]
    ready, left_out = _installed(wanted)
    if not ready:
        refuse("no client can be run: " + "; ".join(left_out))
    is_all = args.only is None and args.server is None
    report = anyio.run(_play, ready, troubles, ways, is_all or args.keep, is_all)
    out = console()
    for name, about in report.clients.items():
        out.print(f"{about.title}: {' '.join(conduct(report, name))}", soft_wrap=True)
    if not is_all:
        for seen in report.seen:
            out.print(history(report, seen), soft_wrap=True)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if not (is_all or args.keep):
        print(
            f"{FILE.name} is kept as it was: this was not every trouble and server",
            file=sys.stderr,
        )
    return 0


def _installed(wanted: Sequence[Peer]) -> tuple[list[Peer], list[str]]:
    """Return the clients that can be run, and a line for each reason why others cannot."""
    ready: list[Peer] = []
    reasons: dict[str, list[str]] = {}
    for peer in wanted:
        try:
            with counting("clients", None) as begin:
                build(peer, begin)
            ready.append(peer)
        except Unavailable as error:
            reasons.setdefault(str(error), []).append(peer.title)
    return ready, [f"{', '.join(titles)} ({why})" for why, titles in reasons.items()]


async def _play(
    ready: Sequence[Peer],
    troubles: Sequence[Trouble],
    ways: Sequence[Way],
    is_kept: bool,
    is_whole: bool,
) -> Report:
    """Play everything; keep each client, if that is wanted, as soon as it has played everything."""
    to_play = cells(ready, troubles, ways)
    waiting = dict.fromkeys(
        (cell.peer.name, cell.era, cell.trouble.name, cell.way.name) for cell in to_play
    )
    dated = "" if is_whole else today()
    whole = Report(servers={way.name: way.title for way in ways}, clients={}, seen=[])
    with counting("clients", len(to_play)) as begin:

        def tell(seen: Seen) -> None:
            del waiting[seen.client, seen.era, seen.trouble, seen.server]
            begin("waiting for " + " ".join(next(iter(waiting), ("the end",))))

        def finish(peer: Peer, seen: list[Seen]) -> None:
            if is_kept:
                mine = Report(
                    servers=whole.servers,
                    clients={peer.name: _about(peer)},
                    seen=[each.model_copy(update={"date": dated}) for each in seen],
                )
                print(_kept(peer, mine, is_whole), file=sys.stderr)

        whole.seen = await run(to_play, tell, finish)
    played = {seen.client for seen in whole.seen}
    whole.clients = {peer.name: _about(peer) for peer in ready if peer.name in played}
    return whole


def _about(peer: Peer) -> About:
    return About(
        title=peer.title,
        library=peer.library,
        version=peer.version(),
        note=peer.note,
        is_ours=peer.is_ours,
        date=today(),
    )


def _kept(peer: Peer, report: Report, is_whole: bool) -> str:
    """Keep a client's results, unless its calls without a trouble failed; return a line on it."""
    failed = failed_controls(report)
    if failed:
        return (
            f"{peer.title} is kept as it was: calls without any trouble failed or took"
            f" {STEP_SECONDS} s or more, or results say something else ({', '.join(failed)})"
        )
    try:
        keep(report, whole=is_whole)
    except ValueError as why:
        return f"{peer.title} is kept as it was: {why}"
    return f"{peer.title} is kept in {FILE.name}"


if __name__ == "__main__":
    sys.exit(run_command(main))
