"""A server over stdio that loses one of its responses to `tools/call`.

`python -m scoreboard.clients.swallow SERVER FOLDER N` serves one of `server.SERVERS` or a subject,
with its effects and its records in that folder, and passes on all but the N-th of those responses,
or all if N is 0.
Knows servers, and JSON-RPC lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from mrtr_options.sdk.serving import serve_stdio
from scoreboard.clients.server import build, way


def main(name: str, folder: Path, lost: int) -> None:
    """Serve one client, until it closes its end."""
    if lost:
        lose([sys.executable, "-m", "scoreboard.clients.swallow", name, str(folder), "0"], lost)
    else:
        serve_stdio(build(way(name), folder))


def lose(command: Sequence[str], lost: int) -> None:
    """Run a server, and pass on all lines in both directions, except one response."""
    calls: set[str] = set()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        to_server = server.stdin

        def requests() -> None:
            for line in sys.stdin.buffer:
                message = json.loads(line)
                if message.get("method") == "tools/call":
                    calls.add(repr(message["id"]))
                to_server.write(line)
                to_server.flush()
            to_server.close()

        threading.Thread(target=requests, daemon=True).start()
        seen = 0
        for line in server.stdout:
            message = json.loads(line)
            if "method" not in message and repr(message.get("id")) in calls:
                seen += 1
                if seen == lost:
                    continue
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
