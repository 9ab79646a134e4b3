"""A server over stdio, of whose responses to `tools/call` one is lost.

`python -m mrtr_options.bench.swallow OPTION LEDGER N` serves an option in a process of its own, with
its effects in that file, and passes on all but the N-th of those responses. Knows JSON-RPC lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading


def main(option: str, ledger: str, lost: int) -> int:
    """Pass lines on in both directions until the client closes its end; the exit code."""
    command = [sys.executable, "-m", "mrtr_options", "serve", option, "--stdio", "--ledger", ledger]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    calls: set[str] = set()

    def to_client() -> None:
        assert server.stdout is not None
        responses = 0
        for line in server.stdout:
            message = json.loads(line)
            if "method" not in message and repr(message.get("id")) in calls:
                responses += 1
                if responses == lost:
                    continue
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    back = threading.Thread(target=to_client, daemon=True)
    back.start()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            calls.add(repr(message["id"]))
        server.stdin.write(line)
        server.stdin.flush()
    server.stdin.close()
    back.join()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
