"""Serve an option over HTTP or stdio."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import closing

IN_MEMORY = "effects are counted in the memory of this process; --ledger FILE keeps them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """An option, and where it is served."""
    parser.add_argument("option", metavar="OPTION", help="the option's letter or name")
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
        "--ask-again", action="store_true", help="ask again where an answer does not fit"
    )
    parser.add_argument(
        "--log", action="store_true", help="a line on standard error for each round"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the client or a signal ends it."""
    from mrtr_options.sdk.ask_again import ask_again
    from mrtr_options.sdk.protection import instance_from_environment, keys_from_environment
    from mrtr_options.sdk.serving import listen, serve_http, serve_stdio, try_databases
    from mrtr_options.sdk.telemetry import log_to_standard_error
    from mrtr_options.tool.catalogue import load, option_named
    from mrtr_options.tool.settings import LEDGER_VARIABLE, Settings, database_url
    from mrtr_options.tool.weather import MemoryLedger, SqliteLedger

    file = args.ledger if args.ledger is not None else os.environ.get(LEDGER_VARIABLE) or None
    option = option_named(args.option)
    keys = keys_from_environment()
    ledger = MemoryLedger() if file is None else SqliteLedger(file)
    instance = instance_from_environment()
    settings = Settings(
        ledger,
        keys=keys,
        wrappers=[ask_again] if args.ask_again else (),
        database=database_url(),
        instance=instance,
    )
    server = load(option.path, settings)
    try_databases(server)
    listener = None if args.stdio else listen(args.http)
    if args.log:
        log_to_standard_error()

    if listener is None:
        if sys.stdin.isatty():
            print(
                "waiting for a client on standard input and output; Ctrl-C ends it", file=sys.stderr
            )
        # The SDK reads standard input in a thread that only the end of the input can stop.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        serve_stdio(server)
        return 0
    if file is None:
        print(IN_MEMORY, file=sys.stderr)
    with closing(listener):
        serve_http(server, listener)
    return 0
