"""`make scoreboard`: builds the servers of others, reviews them, and keeps the results.

The results are in docs/data/scoreboard.json, from which docs/results/SCOREBOARD.md is made. A
server whose
sources are unchanged since its results were kept is left out, so the command goes on where it was
interrupted. Exit code: 0, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, run
from scoreboard import chosen
from scoreboard.board import Scoreboard, changed, keep, kept_of, play, read, show
from scoreboard.servers import cells
from scoreboard.servers.first import rows
from scoreboard.servers.lives import AGES, measure
from scoreboard.servers.page import reasons
from scoreboard.servers.peers import Peer, Variant, build, is_built, leaving_out, peers
from scoreboard.servers.play import ServerReview, Told, review


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.servers",
        description="The weather tool on servers of others, under the review. Without arguments:"
        " those that have changed since they were kept. A first build takes minutes.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only", metavar="NAME,...", help="these folders of scoreboard/servers, changed or not"
    )
    parser.add_argument(
        "--cells",
        action="store_true",
        help="play only the runs of the first table's cells (seconds for each), and keep them",
    )
    args = parser.parse_args(argv)
    known = peers()
    board = read()
    if args.cells:
        reviewed = {name: known[name] for name in board.servers if name in known}
        _play_cells(board, chosen(args.only, reviewed, "reviewed server"))
        return 0
    every = changed(known, board.servers)
    wanted = every if args.only is None else chosen(args.only, known, "server")
    with counting("servers", None) as begin:
        for peer in wanted:
            before = board.servers.get(peer.name)
            kept = play(peer, before, begin, _review)
            if before is not None and before.digest == kept.digest:
                for name in kept.variants.keys() & before.variants.keys():
                    kept.variants[name].life = before.variants[name].life
            # Keep each result at once: a run is long.
            board = keep(Scoreboard(servers={peer.name: kept}))
        board = _measure_lives(board, begin)
    show(rows(board), wanted, reasons(board))
    return 0


def _measure_lives(board: Scoreboard, begin: Told) -> Scoreboard:
    """Measure the lives of states that have none yet, of servers that are built, and keep them."""
    aged = [
        (peer, variant, found)
        for peer, kept in kept_of(peers(), board.servers)
        for variant in peer.variants
        if (found := kept.variants.get(variant.name)) and is_built(peer)
        if found.life is None and found.longest_state
    ]
    if not aged:
        return board
    begin(f"states of {len(aged)}, until they are {AGES[-1]} seconds old")
    anyio.run(measure, aged)
    own = {peer.name: board.servers[peer.name] for peer, *_ in aged}
    return keep(Scoreboard(servers=own))


async def _review(peer: Peer, variant: Variant, begin: Told) -> ServerReview:
    """Review a built server, and play the cells of the first table on it."""
    found = await review(peer, variant, begin)
    if not found.cannot:
        found.cells = await cells.play(peer, variant)
    return found


def _play_cells(board: Scoreboard, wanted: Sequence[Peer]) -> None:
    """Play the cells of the first table on some servers again, and keep the runs."""
    for peer in wanted:
        kept = board.servers[peer.name]
        with counting("cells", len(peer.variants)) as begin, leaving_out(peer.title):
            build(peer, begin)
            for variant in peer.variants:
                begin(f"{peer.name} {variant.name}")
                kept.variants[variant.name].cells = anyio.run(cells.play, peer, variant)
            keep(Scoreboard(servers={peer.name: kept}))


if __name__ == "__main__":
    sys.exit(run(main))
