"""The command lines of the documents, run as they are written on a copy of the project.

Knows how a document shows a command (`$ ` in a console block), and nothing of what commands do.
"""

from __future__ import annotations

import os
import pty
import re
import runpy
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bounds import SECONDS

PATIENCE_SECONDS = 5.0
"""How long people wait before they press Ctrl-C again."""

REPOSITORY = Path(__file__).parent.parent
COPIED = ("mrtr_options", "tests", "examples", "docs", "notebooks", "scoreboard")


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
            shutil.copytree(REPOSITORY / name, copy / name)  # with what is compiled: it takes seconds
    for file in REPOSITORY.iterdir():
        if file.is_file():
            shutil.copy2(file, copy)
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


def environment(copy: Path) -> dict[str, str]:
    """What a command finds: the copy's package before an installed one, and its `python`."""
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")])),
    }


def called(command: str) -> object:
    """Do in this process, and in its folder, what `python -m MODULE` does; the exit code.

    Args:
        command: As it is written.
    """
    python, flag, module, *arguments = shlex.split(command)
    assert (python, flag) == ("python", "-m"), command
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)
        patch.setattr(sys, "argv", [module, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    return ended.value.code


@contextmanager
def standard_input(typed: str, *, ends: bool = True) -> Generator[None]:
    """Standard input with this text in it, at its end or left open."""
    reading, writing = os.pipe()
    os.write(writing, typed.encode())
    if ends:
        os.close(writing)
    with os.fdopen(reading) as stdin, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        try:
            yield
        finally:
            if not ends:
                os.close(writing)


def run(command: str, copy: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a process that imports the package from the copy.

    Args:
        command: As it is written.
        copy: Where.
    """
    return subprocess.run(
        _as_written(command),
        cwd=copy,
        env=environment(copy),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )


@contextmanager
def begun(
    command: str, copy: Path, shows: str, variables: Mapping[str, str] | None = None
) -> Generator[str]:
    """A command that takes long, from when it shows that it is at work; interrupted with the block.

    It runs on a terminal of its own, since progress is for people.

    Args:
        command: As it is written.
        copy: Where.
        shows: A pattern. Yields what matched it.
        variables: Set in its environment.
    """
    ours, theirs = pty.openpty()
    with_terminal = environment(copy) | {"COLUMNS": "100", "TERM": "xterm", **(variables or {})}
    process = subprocess.Popen(
        _as_written(command),
        cwd=copy,
        env=with_terminal,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield _wait_until_shown(process, ours, shows)
    finally:
        try:
            _interrupt(process, ours)
        finally:
            process.kill()
            process.wait()
            os.close(ours)


def _as_written(command: str) -> list[str]:
    # A shell has what it runs in the background ignore Ctrl-C, and these tests may run there.
    return ["env", "--default-signal=INT", "sh", "-c", f"exec {command}"]


def _interrupt(process: subprocess.Popen[bytes], terminal: int) -> None:
    """Press Ctrl-C, and again as long as nothing happens, as people do.

    Hypothesis loses what comes in its first pass of the garbage collector.
    """
    for _ in range(round(SECONDS / PATIENCE_SECONDS)):
        if process.poll() is None:
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


def _wait_until_shown(process: subprocess.Popen[bytes], terminal: int, shows: str) -> str:
    shown = ""
    while (found := re.search(shows, shown)) is None:
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            raise AssertionError(f"{process.args} ended before it showed {shows!r}: {shown}") from None
    return found[0]
