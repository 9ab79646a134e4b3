"""The official conformance suite as referee: its fixture tools in the style of each option.

`fixtures` has the questions of the suite's tools, as data; `styles` and `tasks` answer the suite in
the way of each option; `__main__` starts the servers and runs the suite's own runner. The results
are read by `scoreboard.conformance.report`. Knows the stand-ins in `sdk` and the shared server, no
review.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from mrtr_options.errors import refuse
from mrtr_options.review.bench.world.starting import program


def require_node() -> None:
    """End the command if npm is missing; make a signal end the servers, too."""
    if shutil.which("npm") is None:
        refuse("the suite needs node and npm: apt-get install nodejs npm, or the like")
    # Without an exception, a signal would leave the server running.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def serving(module: str, *arguments: str) -> Generator[str]:
    """Run a server for the block, and yield its URL, which is the first line that it prints."""
    command = [sys.executable, "-m", f"{__name__}.{module}", *arguments]
    with program(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
