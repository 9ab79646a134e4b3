"""The command lines of the documents, run as they are written on a copy of the project.

Knows how a document shows a command (`$ ` in a console block), and nothing of what commands do.
"""

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from mrtr_options.terminal import run as run_command
from tests.bounds import SECONDS

REPOSITORY = Path(__file__).parent.parent
COPIED = (
    "documents",
    "mrtr_options",
    "model",
    "tests",
    "examples",
    "docs",
    "notebooks",
    "scoreboard",
)


def commands_in(text: str) -> list[str]:
    """Return the commands in a document's console blocks, without their comments."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s+#.*", "", line[2:]) for line in lines]


def mentioned_in(text: str) -> list[str]:
    """Return the commands in a document's running text; skip those with a placeholder word."""
    found = re.findall(r"`(python -m [^`]*)`", text)
    return [command for command in dict.fromkeys(found) if not re.search(r"\b[A-Z]{4,}\b", command)]


def copy_of_the_project(folder: Path) -> Path:
    """Make a scratch copy, with the interpreter that runs the tests as its `.venv`."""
    copy = folder / "project"
    copy.mkdir()
    for name in COPIED:
        if (REPOSITORY / name).is_dir():
            # The compiled modules are copied too, since compiling would take seconds.
            shutil.copytree(REPOSITORY / name, copy / name)
    for file in REPOSITORY.iterdir():
        if file.is_file():
            shutil.copy2(file, copy)
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


def environment(copy: Path) -> dict[str, str]:
    """Return an environment that finds the copy's package first, and this `python`."""
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")])),
    }


def called(command: str) -> object:
    """Do in this process, and in its folder, what `python -m MODULE` does; return the exit code."""
    python, flag, module, *arguments = shlex.split(command)
    assert python == "python", command
    assert flag == "-m", command
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)
        patch.setattr(sys, "argv", [module, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    return ended.value.code


def printed(main: Callable[[list[str]], object], *argv: str, code: int = 0) -> str:
    """Return the output of a command; check that it ends with this code."""
    with redirect_stdout(io.StringIO()) as out:
        assert main([*argv]) == code
    return out.getvalue()


def refusal(main: Callable[[list[str]], int], argv: list[str]) -> str:
    """Return the one line of the error with which a command refuses its arguments."""
    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        run_command(lambda: main(argv))
    assert ended.value.code == 2
    assert out.getvalue() == ""
    assert err.getvalue().count("\n") == 1
    return err.getvalue()


Ran = subprocess.CompletedProcess[str]


def python(*arguments: str, cwd: Path = REPOSITORY, **environment: str) -> Ran:
    """Run Python to its end."""
    return _ran([sys.executable, *arguments], cwd, os.environ | environment)


def output(*command: str, cwd: Path) -> str:
    """Return the output of a command; check that it ends with 0."""
    ran = _ran(command, cwd, dict(os.environ))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _ran(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Ran:
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )


@contextmanager
def standard_input(typed: str, *, ends: bool = True) -> Generator[None]:
    """Put this text on standard input, and close it or leave it open."""
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


def run(command: str, copy: Path) -> Ran:
    """Run a command as it is written, in a process that imports the package from the copy."""
    return _ran(["sh", "-c", f"exec {command}"], copy, environment(copy))
