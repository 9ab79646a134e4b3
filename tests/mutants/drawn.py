"""Small slips in options and stand-ins, drawn at random: does the review notice them, or do the tests?

A slip is tried on a copy of the project, in processes of its own: by the matrix, which holds each run to
the contract and the guarantees, then by the tests that name the changed module. cosmic-ray knows more
operators, but changes files in place and draws no sample.

Knows the project's folders.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import all_subjects

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "mrtr_options"
FILES = [*sorted(PACKAGE.glob("option_*.py")), *sorted(PACKAGE.glob("sdk/**/[!_]*.py"))]
SECONDS = 900.0
"""How long the review of a slip may take, and how long its tests may."""


@dataclass(frozen=True)
class Slip:
    """One slip: its file, where (line from 1), what is changed to what, and the whole file with it."""

    file: Path
    line: int
    what: str
    source: bytes

    def __str__(self) -> str:
        return f"{self.file.relative_to(PACKAGE)}:{self.line} {self.what}"


_PAIRS = (("<", "<="), (">", ">="), ("==", "!="), ("is", "is not"), ("in", "not in"))
_OTHER = {**dict(_PAIRS), **{after: before for before, after in _PAIRS}}


def _operator(node: ast.AST) -> tuple[str, ast.expr | ast.stmt, str] | None:
    """What kind of slip a node allows, the part of it that is replaced, and what replaces it."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return "negate the condition", test, f"(not ({ast.unparse(test)}))"
        case ast.Call(args=[first, second, *_], func=function):
            others = [ast.unparse(each) for each in (second, first, *node.args[2:], *node.keywords)]
            return "swap the arguments", node, f"{ast.unparse(function)}({', '.join(others)})"
        case ast.Constant(value=bool() as value):
            return "change the constant", node, str(not value)
        case ast.Constant(value=int() | float() as value):
            return "change the constant", node, str(value + 1)
        case ast.Constant(value=str() as value) if value.isidentifier():
            return "rename the key", node, repr(f"{value}_")
        case ast.Await(value=value):
            return "drop the await", node, f"({ast.unparse(value)})"
        case ast.ExceptHandler(type=ast.expr() as caught) if ast.unparse(caught) != "Exception":
            return "widen the except", caught, "Exception"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            sign = ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[1:-1].strip()
            changed = f"({ast.unparse(left)} {_OTHER[sign]} {ast.unparse(right)})"
            return "change the comparison", node, changed
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            return "swap and with or", node, word.join(f"({ast.unparse(each)})" for each in values)
        case ast.Expr() | ast.Raise() | ast.AugAssign():
            return "leave the statement out", node, "pass"
        case ast.Return(value=ast.expr()):
            return "leave the statement out", node, "return None"
        case _:
            return None


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a tree that run, without texts, docstrings, annotations and `__main__` blocks."""
    match node:
        case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return
        case _:
            yield node
    not_run = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    for child in ast.iter_child_nodes(node):
        if child not in [*not_run, *getattr(node, "decorator_list", [])]:
            yield from _running(child)


def slips(file: Path) -> Iterator[Slip]:
    """Every slip that a file allows."""
    source = file.read_bytes()
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node in _running(ast.parse(source)):
        if (found := _operator(node)) is not None:
            kind, part, after = found
            begin = starts[part.lineno - 1] + part.col_offset
            end = starts[(part.end_lineno or 0) - 1] + (part.end_col_offset or 0)
            if (before := source[begin:end].decode()) != after:
                what = f"{kind}: {' '.join(before.split())} -> {after}"
                yield Slip(file, part.lineno, what, source[:begin] + after.encode() + source[end:])


def sample(files: Sequence[Path], size: int, seed: int) -> list[Slip]:
    """At most so many slips in these files; the same seed draws the same."""
    every = [slip for file in files for slip in slips(file)]
    return random.Random(seed).sample(every, min(size, len(every)))


def option_of(file: Path) -> str | None:
    """The letter of what shows a slip: an option, or the first that uses the stand-in."""
    name = file.relative_to(PACKAGE).with_suffix("").parts[-1 if file.parent == PACKAGE else 1]
    for subject in all_subjects():
        named = f"sdk.{name} import" in subject.option.source
        if subject.option.path == file or named or name.replace("_", "-") in subject.wrappers:
            return subject.option.letter
    return None


_processes: set[subprocess.Popen[str]] = set()


def killer(slip: Slip) -> str | None:
    """What kills a slip; None if it survives."""
    letter = option_of(slip.file)
    matrix = ("mrtr_options", "matrix", "--deployment", "one", "--options", str(letter))
    with scratch() as folder:
        for name in ("mrtr_options", "tests", "docs", "scoreboard"):
            shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PROJECT / "pyproject.toml", folder)
        (folder / slip.file.relative_to(PROJECT)).write_bytes(slip.source)
        variables = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        for words in (matrix, ("pytest", "-x", *tests_of(slip.file)))[letter is None :]:
            command = [sys.executable, "-m", *words]
            with subprocess.Popen(
                command,
                cwd=folder,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                _processes.add(process)
                try:
                    printed, _ = process.communicate(timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    return f"{words[0]}, which hangs"
                finally:
                    _processes.discard(process)
                    process.kill()
            if process.returncode:
                said = re.search(r"^((FAILED|ERROR) \S|  .* breaks ).*", printed, re.MULTILINE)
                return said[0].strip() if said else f"{words[0]}, which does not run"
    return None


def tests_of(file: Path) -> list[str]:
    """The test files that import from a stand-in; of an option, the one about all options."""
    named = re.compile(rf"\b{'.'.join(file.relative_to(PACKAGE).with_suffix('').parts[:2])}\b.* import ")
    tests = sorted(PROJECT.glob("tests/**/test_*.py"))
    found = [path for path in tests if named.search(path.read_text(encoding="utf-8"))]
    return [str(path.relative_to(PROJECT)) for path in found] or ["tests/test_options.py"]


def tried(chosen: Sequence[Slip]) -> Iterator[tuple[Slip, str | None]]:
    """Slips and what kills each, as soon as it is known; as many at once as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as at_once:
        running = {at_once.submit(killer, slip): slip for slip in chosen}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:  # a slip may make it deaf to Ctrl-C
            at_once.shutdown(wait=False, cancel_futures=True)
            while not all(each.done() for each in running):
                for process in tuple(_processes):
                    process.kill()
                wait(running, timeout=0.1)
