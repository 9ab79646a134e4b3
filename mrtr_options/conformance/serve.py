"""One server of the suite's, as a process: `python -m mrtr_options.conformance.serve MODULE`.

Prints its URL and serves until it is terminated, or until whoever started it is gone.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading

from mrtr_options.tool.serving import PATH, listen, serve_http


def _end_with_the_starter() -> None:
    """Standard input ends when the process at its other end does, however that comes about."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(module: str) -> None:
    """Serve what a module's `server()` makes."""
    listener = listen(0)
    server = importlib.import_module(f"mrtr_options.conformance.{module}").server()
    host, port = listener.getsockname()
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    print(f"http://{host}:{port}{PATH}", flush=True)
    serve_http(server, listener)


if __name__ == "__main__":
    main(sys.argv[1])
