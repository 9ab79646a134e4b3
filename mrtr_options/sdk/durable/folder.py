"""A folder in the temporary directory that goes with its process, also with one that was killed.

Knows the file system and nothing of what is kept there.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "mrtr-durable-"
YOUNG_SECONDS = 60.0
"""A folder, or a lock file, that is younger may not be locked yet and is left alone."""


@contextmanager
def own_folder() -> Generator[Path]:
    """A folder for as long as the block lasts. First removes those of processes that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove_if_left(left)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name)
        with _lock_of(folder).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder


def is_young(path: Path) -> bool:
    """Whether something was made in the last `YOUNG_SECONDS`."""
    return time.time() - path.stat().st_mtime < YOUNG_SECONDS


def _remove_if_left(folder: Path) -> None:
    if is_young(folder):
        return
    with _lock_of(folder).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def _lock_of(folder: Path) -> Path:
    return folder / "lock"
