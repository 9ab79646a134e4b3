"""`python -m scoreboard.proxies` installs and plays proxies, and keeps the results.

The results are in docs/data/scoreboard.json under "proxies". Exit code: 0, 2 for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import anyio

from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, console
from mrtr_options.terminal import run as run_command
from scoreboard import chosen
from scoreboard.board import keep_guards, keep_proxy
from scoreboard.proxies import guards
from scoreboard.proxies.play import install, proxies, review
from scoreboard.proxies.upstream import FAULTS, Name
from scoreboard.servers.peers import Unavailable

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
    return run_command(lambda: _guards() if args.guards else _proxies(args))


def _guards() -> int:
    guards.install()
    found = {name: anyio.run(guards.play_guard, each) for name, each in guards.GUARDS.items()}
    keep_guards(found)
    for name, results in found.items():
        for around, by_server in results.cells.items():
            for subject, seen in by_server.items():
                charged = f"{seen.resent} and {seen.called_again} bills"
                print(f"{name} around the {around}, {subject}: {seen.end}; {charged}")
    return 0


def _proxies(args: argparse.Namespace) -> int:
    faults = chosen(args.fault, KNOWN_FAULTS, "fault")
    out = console()
    with counting("proxies", None) as begin:
        for about in chosen(args.only, proxies(), "proxy"):
            try:
                install(about, begin)
            except Unavailable as error:
                out.print(f"{about.title}: not tried, {error}")
                continue
            found = anyio.run(review, about, begin, faults)
            for setting, by_server in found.crossings.items():
                for subject, crossed in by_server.items():
                    arrived = f"{crossed.arrived} of {crossed.sent} rounds arrive"
                    words = f"{about.title}, {setting}: a clean call, {subject}: {arrived}"
                    out.print(f"{words}; {crossed.bills} bills; {crossed.end}", soft_wrap=True)
            for setting, by_fault in found.settings.items():
                for fault, cells in by_fault.items():
                    for subject, seen in cells.items():
                        sent = " then ".join(seen.deliveries) or "none"
                        words = f"{about.title}, {setting}: {fault}, {subject}: to {sent}"
                        out.print(f"{words}; {seen.bills} bills; {seen.end}", soft_wrap=True)
            if not args.fault:
                keep_proxy(about.name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
