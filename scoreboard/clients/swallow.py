"""A server over stdio that loses one of its responses to `tools/call`.

`python -m scoreboard.clients.swallow SERVER FOLDER N` serves one of `server.SERVERS` or a subject,
with its effects and its records in that folder, and passes on all but the N-th of those responses.
Knows servers, and JSON-RPC lines.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from mrtr_options.sdk.serving import serve_stdio
from scoreboard.clients.server import build, way


def main(name: str, folder: Path, lost: int) -> None:
    """Serve one client, until it closes its end."""
    server = build(way(name), folder)
    _lose(lost)
    serve_stdio(server)


def _lose(lost: int) -> None:
    """Pass on all lines in both directions, except one response, until this process ends."""
    from_client = os.dup(0)
    to_client = os.dup(1)
    server_reads, to_server = os.pipe()
    from_server, server_writes = os.pipe()
    os.dup2(server_reads, 0)
    os.dup2(server_writes, 1)
    os.close(server_reads)
    os.close(server_writes)
    calls: set[str] = set()

    def requests() -> None:
        with open(from_client, "rb") as lines, open(to_server, "wb", buffering=0) as server:
            for line in lines:
                message = json.loads(line)
                if message.get("method") == "tools/call":
                    calls.add(repr(message["id"]))
                server.write(line)

    def responses() -> None:
        seen = 0
        with open(from_server, "rb") as lines, open(to_client, "wb", buffering=0) as client:
            for line in lines:
                message = json.loads(line)
                if "method" not in message and repr(message.get("id")) in calls:
                    seen += 1
                    if seen == lost:
                        continue
                client.write(line)

    for passing in (requests, responses):
        threading.Thread(target=passing, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
