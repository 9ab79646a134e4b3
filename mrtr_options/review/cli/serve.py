"""Serve an option over HTTP or stdio."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from mrtr_options.terminal import refuse
from mrtr_options.tool.notation import CALL_KEY, NAMED, SINGLE_USE, TEMPORAL

if TYPE_CHECKING:
    from mrtr_options.review.bench.subjects import Subject
    from mrtr_options.review.bench.world.wrappers import Wrapper
    from mrtr_options.tool.settings import Settings

IN_MEMORY = "effects are counted in the memory of this process; --ledger FILE keeps them"
ROUNDS_IN_MEMORY = (
    "rounds are recorded in the memory of this process; --rounds FILE keeps them over a restart,"
    " and shares them with other processes"
)
WAITING = "waiting for a client on standard input and output; Ctrl-C ends it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subject, and where it is served."""
    parser.add_argument("subject", metavar="SUBJECT", help="as in: serve F+guard --http 8000")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--http", type=int, metavar="PORT", help="streamable HTTP on 127.0.0.1 (0: any port)"
    )
    where.add_argument(
        "--stdio", action="store_true", help="one client on standard input and output"
    )
    parser.add_argument(
        "--ledger",
        metavar="FILE",
        help="the SQLite file of effects (default: MRTR_LEDGER, or memory)",
    )
    parser.add_argument(
        "--rounds",
        metavar="FILE",
        help="the SQLite file in which a guard records rounds (default: the memory of this"
        " process)",
    )
    parser.add_argument(
        "--log", action="store_true", help="a line on standard error for each round"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the client or a signal ends it, and return the exit code."""
    from mrtr_options.review.bench.subjects import subject_named
    from mrtr_options.sdk.serving import listen, serve_http, serve_stdio, try_databases
    from mrtr_options.sdk.telemetry import log_to_standard_error
    from mrtr_options.tool.catalogue import load

    subject = subject_named(args.subject)
    server = load(subject.option.path, _make_settings(args, subject))
    try_databases(server)
    listener = None if args.stdio else listen(args.http)
    if args.log:
        log_to_standard_error()
    if listener is None:
        if sys.stdin.isatty():
            print(WAITING, file=sys.stderr)
        # The SDK reads standard input in a thread that only the end of the input can stop.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        serve_stdio(server)
        return 0
    if _ledger_file(args) is None:
        print(IN_MEMORY, file=sys.stderr)
    if SINGLE_USE in subject.wrappers and args.rounds is None:
        print(ROUNDS_IN_MEMORY, file=sys.stderr)
    with closing(listener):
        serve_http(server, listener)
    return 0


def _ledger_file(args: argparse.Namespace) -> str | None:
    from mrtr_options.tool.settings import LEDGER_VARIABLE

    return args.ledger if args.ledger is not None else os.environ.get(LEDGER_VARIABLE) or None


def _make_settings(args: argparse.Namespace, subject: Subject) -> Settings:
    """Return the settings of the instance: its ledger and wrappers, and the environment's."""
    from mrtr_options.sdk.settings import Settings as ServerSettings
    from mrtr_options.tool.settings import Settings
    from mrtr_options.tool.weather import MemoryLedger, SqliteLedger

    file = _ledger_file(args)
    ledger = MemoryLedger() if file is None else SqliteLedger(file)
    wrappers = _make_wrappers(subject, args.rounds)
    return Settings(ledger, wrappers, **vars(ServerSettings.from_environment()))


def _make_wrappers(subject: Subject, rounds: str | None) -> list[Wrapper]:
    """Return a subject's wrappers, innermost first. A guard has its own defaults."""
    from mrtr_options.review.bench.world.wrappers import make_wrappers
    from mrtr_options.sdk.single_use import SqliteStore, single_use

    if CALL_KEY in subject.wrappers:
        refuse(f"call keys are sent by a client; serve {subject.option.letter}+guard")
    if NAMED in subject.wrappers:
        refuse(
            f"named calls need a server that knows who calls; serve {subject.option.letter}+guard"
        )
    if rounds is not None and SINGLE_USE not in subject.wrappers:
        refuse(f"--rounds is the file of a guard; serve {subject.name}+guard")
    if TEMPORAL in subject.wrappers:
        refuse(f"{TEMPORAL} is chosen by MRTR_DATABASE_URL; serve {subject.option.letter} with it")
    return make_wrappers(subject.wrappers, SqliteStore(rounds or ":memory:"), single_use)
