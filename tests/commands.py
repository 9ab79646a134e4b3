"""The command lines of the documents, run as they are written on a copy of the project.

Knows how a document shows a command (`$ ` in a console block), and nothing of what commands do.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bounds import SECONDS

PATIENCE_SECONDS = 5.0
"""How long people wait before they press Ctrl-C again."""

REPOSITORY = Path(__file__).parent.parent
COPIED = ("mrtr_options", "tests", "docs", "notebooks")


def commands_in(text: str) -> list[str]:
    """The commands in a document's console blocks, without their comments."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s+#.*", "", line[2:]) for line in lines]


def mentioned_in(text: str) -> list[str]:
    """The commands in a document's running text, without those that leave a word to the reader."""
    found = re.findall(r"`(python -m [^`]*)`", text)
    return [command for command in dict.fromkeys(found) if not re.search(r"\b[A-Z]{4,}\b", command)]


def copy_of_the_project(folder: Path) -> Path:
    """A scratch copy, with the interpreter that runs the tests as its `.venv`."""
    copy = folder / "project"
    copy.mkdir()
    for name in COPIED:
        if (REPOSITORY / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, copy / name, ignore=ignored)
    for file in REPOSITORY.iterdir():
        if file.is_file():
            shutil.copy2(file, copy)
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


def environment(copy: Path) -> dict[str, str]:
    """What a command finds: the copy's package before an installed one, and its `python`."""
    return os.environ | {
        "PATH": f"{copy / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(copy),
    }


def run(command: str, copy: Path, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        command: As it is written.
        copy: Where.
        said: What the user types.
    """
    return subprocess.run(
        command,
        shell=True,
        cwd=copy,
        env=environment(copy),
        input=said,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@contextmanager
def begun(command: str, copy: Path, shows: str) -> Generator[str]:
    """A command that takes long, from when it shows that it is at work; interrupted with the block.

    It runs on a terminal of its own, since progress is for people.

    Args:
        command: As it is written.
        copy: Where.
        shows: A pattern. Yields what matched it.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        f"exec {command}",
        shell=True,
        cwd=copy,
        env=environment(copy) | {"COLUMNS": "100", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # A shell has what it runs in the background ignore Ctrl-C, and these tests may run there.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    try:
        yield _wait_until_shown(ours, shows)
    finally:
        try:
            _interrupt(process, ours)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            os.close(ours)


def _interrupt(process: subprocess.Popen[bytes], terminal: int) -> None:
    """Press Ctrl-C, and again as long as nothing comes of it, as people do.

    Hypothesis loses what comes in its first pass of the garbage collector.
    """
    for _ in range(round(SECONDS / PATIENCE_SECONDS)):
        os.killpg(process.pid, signal.SIGINT)
        if _is_closed(terminal, PATIENCE_SECONDS):
            break
    process.wait(SECONDS)


def _is_closed(terminal: int, seconds: float) -> bool:
    """Whether a terminal is closed at its other end, within this time.

    It is read meanwhile: to end, a command may have to write more than a terminal holds.
    """
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                os.read(terminal, 4096)
            except OSError:
                return True
    return False


def _wait_until_shown(terminal: int, shows: str) -> str:
    shown = ""
    while (found := re.search(shows, shown)) is None:
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the other end is closed: it ended
            raise AssertionError(f"ended before it showed {shows!r}: {shown}") from None
    return found[0]
