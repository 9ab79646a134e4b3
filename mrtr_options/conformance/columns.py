"""What the suite is run against: every style, the shared server and our client; and what it may say.

Also the process of one server: `python -m mrtr_options.conformance.columns NAME` prints its URL and
serves until it is terminated, or until the process that started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server import MCPServer, Server

from mrtr_options.conformance import shared, styles
from mrtr_options.conformance.scenarios import CLIENT, MRTR, MRTR_PREFIX, SHARED, TASKS
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.serving import PATH, listen, serve_http

_SCENARIOS = {"K": TASKS, "shared": SHARED, "client": CLIENT}
"""Those of the columns that have not the ones of `scenarios.MRTR`."""

_CANNOT = {
    "I": {
        MRTR_PREFIX + "basic-elicitation": (
            "a question's key is the resolver's module and name; the suite asks for `user_name`"
        ),
        MRTR_PREFIX + "non-tool-request": (
            "resolvers fill a tool's parameters; a prompt that asks is written by hand, as in E"
        ),
    }
}

_IGNORE = (MRTR_PREFIX + "ignore-extra-params", "sep-2322-ignore-unexpected-params")
_COLD = (
    "the scenario answers with the first request, before anything was asked. {} "
    "Keys that were not asked are ignored (schedule `extra-answer`)"
)
EXPECTED: dict[tuple[str, str, str], str] = {
    ("H", *_IGNORE): _COLD.format("An answer without a state belongs to no frame, so H asks."),
    ("I", *_IGNORE): _COLD.format("The SDK takes answers to what its state says it asked, so it asks."),
    ("J", *_IGNORE): _COLD.format("J takes answers to what its record says it asked, so it asks."),
    ("L", *_IGNORE): _COLD.format("An answer without a state belongs to no call, so L asks."),
}
"""Complaints of the suite that are accepted, by column, scenario and check, each with the reason.

A complaint that is not listed is a failure of the run, and so is a line here that does not come true.
All of these are warnings; no failure is expected.
"""


@dataclass(frozen=True)
class Column:
    """One thing that is tested.

    Attributes:
        name: A style's letter, "careless", "shared" or "client".
        scenarios: What it is tested with.
        cannot: Those of them that it cannot express, and why.
    """

    name: str
    scenarios: tuple[str, ...]
    cannot: Mapping[str, str]


def all_columns() -> list[Column]:
    """Every column, the styles first; without those whose option cannot be loaded here."""
    letters = sorted({"K", *styles.STYLES} & all_options().keys())
    return [
        Column(name, _SCENARIOS.get(name, MRTR), _CANNOT.get(name, {}))
        for name in (*letters, "careless", "shared", "client")
    ]


def server_of(name: str) -> Server[Any] | MCPServer[Any]:
    """A fresh server of a column."""
    if name == "K":
        from mrtr_options.conformance import tasks  # needs the extra

        return tasks.server()
    return shared.server() if name == "shared" else styles.STYLES[name]()


def serve(name: str) -> None:
    """Serve a column's server."""
    listener = listen(0)
    server = server_of(name)
    host, port = listener.getsockname()
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    print(f"http://{host}:{port}{PATH}", flush=True)
    serve_http(server, listener)


def _end_with_the_starter() -> None:
    """Standard input ends when the process at its other end does, however that comes about."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(sys.argv[1])
