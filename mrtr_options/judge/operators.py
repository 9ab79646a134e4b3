"""Mutants made by rule: one small change to the source of an option or of a stand-in.

Each operator is a kind of slip: a condition negated, a statement left out, two arguments swapped, a
constant changed, an `await` dropped, an `except` widened, a key renamed. A mutant is judged in a process
of its own, which sees a copy of the package with one changed file, by everything that the review plays
in memory: the cases of the contract, the schedules with names, and one fault at a time.

Knows the rest of the judge, and where the package's files are.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import anyio

import mrtr_options
from mrtr_options.bench.explore import World
from mrtr_options.bench.runs import Cell, engine_for, history_of
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import LEGACY_SHIM, SINGLE_USE, Column, all_columns, column_named
from mrtr_options.judge import matrix
from mrtr_options.judge.cases import systematic
from mrtr_options.judge.contract import violations
from mrtr_options.judge.witnesses import witnesses

PACKAGE = Path(mrtr_options.__file__).parent

STAND_INS = f"{PACKAGE.name}.sdk"
MODULE = f"{PACKAGE.name}.judge.operators"

HANG_SECONDS = 5.0
"""How long one request may take before it is called hung."""

SLOWER, MORE_SECONDS = 5, 60.0
"""How many times as long as that of its sound subjects the review of one mutant may take, and how many
seconds more. One that takes longer hangs, and is killed."""

SURVIVORS = Path(__file__).with_name("survivors.toml")
"""Mutants that the review lets live, each with the test that kills it, or why it is equivalent."""


@dataclass(frozen=True)
class Change:
    """One change to one file.

    Attributes:
        file: Which, from the root of the package.
        line: Where, from 1.
        operator: What kind of slip it is.
        before, after: The changed part.
        source: The whole file with the change.
    """

    file: str
    line: int
    operator: str
    before: str
    after: str
    source: str

    @property
    def name(self) -> tuple[str, str, str]:
        """The file, the line as it was, and what is changed there: the same when lines move."""
        lines = (PACKAGE / self.file).read_text(encoding="utf-8").splitlines()
        return self.file, lines[self.line - 1].strip(), self.what

    @property
    def what(self) -> str:
        """What is changed, in a few words."""
        return f"{self.operator}: {self.before} -> {self.after}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.what}"


@dataclass(frozen=True)
class Judged:
    """What the review said of a change.

    Attributes:
        change: The change.
        by: What showed it, in a few words; None if it survived.
    """

    change: Change
    by: str | None

    @property
    def test(self) -> str | None:
        """Of one that survived: the test that kills it; None if there is none."""
        return None if self.by else survivors().get(self.change.name, {}).get("test")

    @property
    def because(self) -> str | None:
        """Of one that survived: why it is equivalent to its original; None if that is not known."""
        return None if self.by else survivors().get(self.change.name, {}).get("because")

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        change = self.change
        return {
            "file": change.file,
            "line": change.line,
            "operator": change.operator,
            "before": change.before,
            "after": change.after,
            "killed_by": self.by,
            "killed_by_test": self.test,
            "equivalent_because": self.because,
        }


@cache
def survivors() -> dict[tuple[str, str, str], dict[str, str]]:
    """What is known of mutants that the review lets live, by `Change.name`: a `test`, or `because`."""
    tables = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {
        (file, entry["line"], entry["change"]): entry
        for file, entries in tables.items()
        for entry in entries
    }


# --- the operators ------------------------------------------------------------------------------


def _negate(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        changed = copy.deepcopy(node)
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
        return changed
    return None


def _swap_arguments(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Call) and len(node.args) >= 2:
        changed = copy.deepcopy(node)
        changed.args[:2] = reversed(changed.args[:2])
        return changed
    return None


def _change_constant(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.Constant(value=bool() as value):
            return ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            return ast.Constant(value + 1)
        case _:
            return None


def _rename_key(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return ast.Constant(node.value + "_")
    return None


def _drop_await(node: ast.AST) -> ast.AST | None:
    return node.value if isinstance(node, ast.Await) else None


def _widen_except(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        changed = copy.deepcopy(node)
        changed.type = ast.Name("Exception")
        return changed if ast.unparse(changed.type) != ast.unparse(node.type) else None
    return None


def _change_comparison(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Compare):
        return None
    others: dict[type[ast.cmpop], type[ast.cmpop]] = {
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
    }
    changed = copy.deepcopy(node)
    changed.ops[0] = others[type(changed.ops[0])]()
    return changed


def _change_boolean(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return changed
    return None


def _leave_out(node: ast.AST) -> ast.AST | None:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Expr | ast.Raise | ast.AugAssign) and not is_docstring:
        return ast.Pass()
    if isinstance(node, ast.Return) and node.value is not None:
        return ast.Return(ast.Constant(None))
    return None


OPERATORS: dict[str, Callable[[ast.AST], ast.AST | None]] = {
    "negate the condition": _negate,
    "leave the statement out": _leave_out,
    "swap the arguments": _swap_arguments,
    "change the constant": _change_constant,
    "rename the key": _rename_key,
    "drop the await": _drop_await,
    "widen the except": _widen_except,
    "change the comparison": _change_comparison,
    "swap and with or": _change_boolean,
}


@dataclass(frozen=True)
class Site:
    """Where an operator applies.

    Attributes:
        file: From the root of the package.
        node: Which node of its syntax tree, as `ast.walk` counts them.
        operator: Which operator.
    """

    file: str
    node: int
    operator: str

    def change(self) -> Change | None:
        """The change; None in what does not run: imports, annotations, docstrings, `__main__` blocks."""
        tree = ast.parse((PACKAGE / self.file).read_text(encoding="utf-8"))
        node = next(each for number, each in enumerate(ast.walk(tree)) if number == self.node)
        changed = OPERATORS[self.operator](node)
        assert changed is not None
        line, before, after = getattr(node, "lineno", 0), _short(node), _short(changed)
        replaced = _Replace(node, changed)
        source = ast.unparse(ast.fix_missing_locations(replaced.visit(tree)))
        return Change(self.file, line, self.operator, before, after, source) if replaced.done else None


def sites(file: str) -> list[Site]:
    """Every place in a file where an operator applies.

    Args:
        file: From the root of the package.
    """
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    return [
        Site(file, number, operator)
        for number, node in enumerate(ast.walk(tree))
        for operator, change in OPERATORS.items()
        if change(node) is not None
    ]


class _Replace(ast.NodeTransformer):
    """Puts one node in the place of another, if that is code that runs."""

    def __init__(self, target: ast.AST, changed: ast.AST) -> None:
        self._target = target
        self._changed = changed
        self.done = False

    def visit(self, node: ast.AST) -> Any:
        if node is self._target:
            self.done = True
            return self._changed
        match node:
            case ast.Import() | ast.ImportFrom():
                return node
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return node
            case ast.arg():
                return node
            case ast.AnnAssign(value=None):
                return node
            case ast.AnnAssign(value=value) if value is not None:
                node.value = self.visit(value)
                return node
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.body = [self.visit(each) for each in node.body]
                self.visit(node.args)
                return node
            case ast.Expr(value=ast.Constant()):
                return node
            case _:
                return self.generic_visit(node)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    return text if len(text) <= 60 else text[:57] + "..."


# --- the review of one of them ------------------------------------------------------------------


def subjects_of(file: str) -> list[Column]:
    """The subjects that a change to a file can show in: the option, or those that use the stand-in.

    Args:
        file: From the root of the package.
    """
    every = all_columns()
    subjects = [subject for subject in every if _module(file) in _needed(subject)]
    plain = [subject for subject in subjects if not subject.wrappers]
    return (plain or subjects)[:2]


def _module(file: str) -> str:
    return f"{PACKAGE.name}.{file.removesuffix('.py').replace('/', '.')}"


def _needed(subject: Column) -> set[str]:
    """The modules that are a subject's own: its option, its stand-ins and what these are made of."""
    wrappers = {SINGLE_USE: "sdk.single_use", LEGACY_SHIM: "sdk.legacy_shim"}
    found: set[str] = set()
    new = {_module(subject.option.path.relative_to(PACKAGE).as_posix())}
    new |= {f"{PACKAGE.name}.{wrappers[wrapper]}" for wrapper in subject.wrappers}
    while new:
        module = new.pop()
        found.add(module)
        new |= _stand_ins_of(module) - found
    return found


@cache
def _stand_ins_of(module: str) -> frozenset[str]:
    """The stand-ins' modules that a module imports."""
    path = PACKAGE.parent / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(STAND_INS):
            found |= {str(node.module), *(f"{node.module}.{each.name}" for each in node.names)}
    return frozenset(filter(_is_module, found))


def _is_module(name: str) -> bool:
    path = PACKAGE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


Looks = dict[str, list[str]]
"""What the review sees of a subject, by what was played: broken rules and guarantees, and witnesses."""


async def look(subject: Column) -> AsyncGenerator[tuple[str, list[str]]]:
    """Review a subject in memory, from what tells most to what tells least.

    Args:
        subject: Which.

    Yields:
        What was played, and what is wrong there.
    """
    async with engine_for([subject]) as database:
        for case in systematic():
            place = "one" if case.instances == 1 else "two"
            cell = Cell(subject, case.schedule, case.era, place)
            history = await history_of(cell, hang_seconds=HANG_SECONDS, database=database())
            yield (
                f"{case.schedule.slug}, {case.era}",
                sorted({each.rule for each in violations(history)}),
            )
    shown = await witnesses(World(subject), 1)
    for name, sets in shown.witnesses.items():
        yield name, sorted(" ".join(map(str, faults)) for faults in sets)
    yield "anomalies", sorted(shown.witnesses)
    observations = await matrix.run(matrix.cells([subject], places=("one",)))
    broken = matrix.judge(subject, observations).broken
    yield "guarantees", sorted({each.guarantee.name for each in broken})


async def looks_of(subject: Column) -> Looks:
    """All that the review sees of a subject."""
    return {played: found async for played, found in look(subject)}


async def first_difference(before: dict[str, Looks]) -> str | None:
    """What the review sees first that was not so before.

    Args:
        before: What it saw of each subject, by its name.
    """
    for name, looks in before.items():
        async for played, found in look(column_named(name)):
            if different := set(found) ^ set(looks.get(played, [])):
                return f"{played}: {min(different)}"
    return None


def review(change: Change, before: dict[str, Looks], seconds: float) -> Judged:
    """Review one change, in a process and a copy of the package of its own.

    Args:
        change: The change.
        before: What the review sees of each subject as it is, by its name.
        seconds: How long it may take.
    """
    mine = {subject.name: before[subject.name] for subject in subjects_of(change.file)}
    with scratch() as folder:
        copied = folder / PACKAGE.name
        shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / change.file).write_text(change.source, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", MODULE],
                input=json.dumps(mine),
                text=True,
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Judged(change, "it hangs")
    if done.returncode != 0:
        return Judged(change, "it does not run")
    return Judged(change, json.loads(done.stdout))


def sample(files: Sequence[str], size: int, seed: int) -> list[Change]:
    """Changes to several files, drawn at random.

    Args:
        files: Which, from the root of the package.
        size: How many at most.
        seed: The same one draws the same.
    """
    every = [site for file in files for site in sites(file)]
    random.Random(seed).shuffle(every)
    found: list[Change] = []
    for site in every:
        if len(found) == size:
            break
        if (change := site.change()) is not None:
            found.append(change)
    return found


def reviewed(
    changed: Sequence[Change], on_begin: Callable[[str], None] = lambda name: None
) -> Iterator[Judged]:
    """Review several changes, as many at once as there are processors.

    Args:
        changed: Which.
        on_begin: Told the name of each subject before it is reviewed as it is.

    Yields:
        Each as soon as it is done.
    """
    subjects = {each.name: each for change in changed for each in subjects_of(change.file)}
    before: dict[str, Looks] = {}
    took = 0.0
    for name, subject in subjects.items():
        on_begin(name)
        begun = time.monotonic()
        before[name] = anyio.run(looks_of, subject)
        took = max(took, time.monotonic() - begun)
    seconds = SLOWER * took + MORE_SECONDS
    at_once = ThreadPoolExecutor(os.cpu_count())
    try:
        running = [at_once.submit(review, change, before, seconds) for change in changed]
        for done in as_completed(running):
            yield done.result()
    finally:
        at_once.shutdown(cancel_futures=True)


def files() -> list[str]:
    """The option files and the stand-ins, from the root of the package, as far as they run here."""
    options = {subject.option.path for subject in all_columns()}
    stand_ins = {path for path in (PACKAGE / "sdk").rglob("*.py") if path.name != "__init__.py"}
    named = sorted(path.relative_to(PACKAGE).as_posix() for path in options | stand_ins)
    return [file for file in named if subjects_of(file)]


if __name__ == "__main__":
    print(json.dumps(anyio.run(first_difference, json.load(sys.stdin))))
