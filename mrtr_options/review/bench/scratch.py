"""Folders for the files of one run. Knows nothing of what is written to them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def scratch() -> Generator[Path]:
    """Make a folder that is deleted at the end of the block, in memory if the system allows it.

    A database waits for the disk at every commit, and under review is the death of processes, not
    that of the machine.
    """
    where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mrtr-", dir=where) as folder:
        yield Path(folder)
