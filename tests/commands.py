"""The command lines of the documents, run as they are written on a copy of the project.

Knows how a document shows a command (`$ ` in a console block), and nothing of what commands do.

Hundreds of imports are most of what a command takes. So a server of forks does them once (`RUNNER`),
and a command that is a Python module is a fork of it: a process of its own that is given its words, its
folder and its terminal. Where a test has changed the copy, the fork imports the package again.
"""

from __future__ import annotations

import multiprocessing
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
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.bounds import SECONDS

RUNNER = multiprocessing.get_context("forkserver")
RUNNER.set_forkserver_preload(
    [
        "tests.commands",
        "matplotlib",
        "mrtr_options.bench.chaos",
        "mrtr_options.conformance.columns",
        "mrtr_options.cost.report",
        "mrtr_options.demo.option",
        "mrtr_options.demo.tour",
        "mrtr_options.judge.check",
        "mrtr_options.judge.mutation",
        "mrtr_options.sdk.durable",
        "mrtr_options.sdk.tasks",
        "mrtr_options.show.check",
        "mrtr_options.show.explore",
        "mrtr_options.show.mutants",
    ]
)

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
            shutil.copytree(REPOSITORY / name, copy / name)  # with what is compiled: it takes seconds
    for file in REPOSITORY.iterdir():
        if file.is_file():
            shutil.copy2(file, copy)
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


def environment(copy: Path) -> dict[str, str]:
    """What a command finds: the copy's package before an installed one, and its `python`."""
    return os.environ | {
        "PATH": f"{copy / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")])),
    }


def run(
    command: str, copy: Path, said: str = "", *, anew: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        command: As it is written.
        copy: Where.
        said: What the user types.
        anew: Whether it imports the package from the copy, as it is now.
    """
    typed, printed, errors = (copy / name for name in ("typed.txt", "printed.txt", "errors.txt"))
    typed.write_text(said, encoding="utf-8")
    printed.touch()
    errors.touch()
    process = _forked(command, copy, environment(copy), typed, printed, errors, anew=anew)
    process.join(SECONDS)
    status = process.exitcode
    process.kill()
    assert status is not None, f"does not end: {command}"
    out, err = (file.read_text(encoding="utf-8") for file in (printed, errors))
    for file in (typed, printed, errors):
        file.unlink()
    return subprocess.CompletedProcess(command, status, out, err)


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
    terminal = Path(os.ttyname(theirs))
    with_terminal = environment(copy) | {"COLUMNS": "100", "TERM": "xterm", **(variables or {})}
    process = _forked(command, copy, with_terminal, terminal, terminal, terminal)
    try:
        yield _wait_until_shown(process, ours, shows)
    finally:
        os.close(theirs)
        try:
            _interrupt(process, ours)
        finally:
            if process.is_alive():
                os.killpg(process.pid or 0, signal.SIGKILL)
                process.join()
            os.close(ours)


def _forked(
    command: str,
    folder: Path,
    variables: dict[str, str],
    typed: Path,
    printed: Path,
    errors: Path,
    *,
    anew: bool = False,
) -> ForkServerProcess:
    process = RUNNER.Process(
        target=_as_written, args=(command, folder, variables, (typed, printed, errors), anew)
    )
    process.start()
    return process


def _as_written(
    command: str,
    folder: Path,
    variables: dict[str, str],
    files: tuple[Path, Path, Path],
    anew: bool,
) -> None:
    """Be the command, in a process that has nothing else to do.

    Args:
        command: As it is written.
        folder: Where.
        variables: Its environment.
        files: What it reads and what it writes to: input, output, errors.
        anew: Whether it imports the package from the folder, as it is now.
    """
    os.setsid()  # the first terminal that it opens becomes its own
    for number, file in enumerate(files):
        os.dup2(os.open(file, os.O_RDWR), number)
    # A shell has what it runs in the background ignore Ctrl-C, and these tests may run there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    words = shlex.split(command)
    if words[:2] != ["python", "-m"] or ">" in words:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execvp("sh", ["sh", "-c", f"exec {command}"])
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    module = words[2]
    sys.argv = [module, *words[3:]]
    if anew:
        sys.path.insert(0, str(folder))
        for name in [
            name for name in sys.modules if name.partition(".")[0] in ("mrtr_options", "tests")
        ]:
            del sys.modules[name]
    elif module != "mrtr_options":
        sys.modules.pop(module, None)  # a module that is there already cannot be run
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _interrupt(process: ForkServerProcess, terminal: int) -> None:
    """Press Ctrl-C, and again as long as nothing comes of it, as people do.

    Hypothesis loses what comes in its first pass of the garbage collector.
    """
    for _ in range(round(SECONDS / PATIENCE_SECONDS)):
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGINT)
        if _is_closed(terminal, PATIENCE_SECONDS):
            break
    process.join(SECONDS)


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


def _wait_until_shown(process: ForkServerProcess, terminal: int, shows: str) -> str:
    shown = ""
    while (found := re.search(shows, shown)) is None:
        ready, _, _ = select.select([terminal, process.sentinel], [], [])
        assert terminal in ready, f"ended before it showed {shows!r}: {shown}"
        shown += os.read(terminal, 4096).decode(errors="replace")
    return found[0]
