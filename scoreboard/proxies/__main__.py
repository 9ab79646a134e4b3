"""`python -m scoreboard.proxies` installs and plays proxies, and keeps the results.

The results are in docs/data/scoreboard.json under "proxies". Exit code: 0, 2 for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, refuse, run
from scoreboard import chosen
from scoreboard.board import Scoreboard, keep
from scoreboard.proxies import guards, page
from scoreboard.proxies.play import proxies, review
from scoreboard.proxies.upstream import FAULTS, Name
from scoreboard.rows import printed
from scoreboard.servers.peers import build, leaving_out

KNOWN_FAULTS: dict[str, Name] = {name: name for name in FAULTS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.proxies",
        description="A call of the weather tool through proxies whose upstream fails in the last"
        " round: is the request sent again, where to, and how often is the user charged?",
        allow_abbrev=False,
    )
    parser.add_argument("--only", metavar="NAME,...", help="these folders of scoreboard/proxies")
    parser.add_argument(
        "--fault", metavar="NAME,...", help="these faults alone; nothing is kept then"
    )
    parser.add_argument(
        "--guards", action="store_true", help="the guards that others sell, in place of proxies"
    )
    args = parser.parse_args(argv)
    if args.guards and (args.only or args.fault):
        refuse("--guards plays every guard; leave out --only and --fault")
    return _guards() if args.guards else _proxies(args)


def _guards() -> int:
    guards.install()
    found = {name: anyio.run(guards.play_guard, each) for name, each in guards.GUARDS.items()}
    keep(Scoreboard(guards=found))
    print(page.guards(Scoreboard(guards=found)))
    return 0


def _proxies(args: argparse.Namespace) -> int:
    faults = chosen(args.fault, KNOWN_FAULTS, "fault")
    with counting("proxies", None) as begin:
        for about in chosen(args.only, proxies(), "proxy"):
            with leaving_out(about.title):
                build(about, begin)
                found = Scoreboard(proxies={about.name: anyio.run(review, about, begin, faults)})
                if about.speaks_mcp:
                    print(page.crossings(found))
                print(printed(page.first(found)))
                if not args.fault:
                    keep(found)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
