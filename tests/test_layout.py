"""Tests of the layout: the imports that a folder may have, and no import circles."""

import ast
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import mrtr_options
from tests.commands import REPOSITORY, python

ROOT = Path(mrtr_options.__file__).parent

BASE = {"checks", "errors", "files", "names", "terminal"}
"""The modules of the root beside the options: small shared ideas that know no folder."""

EXAMPLES = {"basic", "basic_multiround"}
"""The modules of the root that run an example."""

LAYERS = (
    "base",
    "sdk",
    "tool",
    "option",
    "demo",
    "review.bench",
    "review.judge",
    "review.explore",
    "review.check",
    "review.show",
    "review.cli",
)
"""The folders; each may import from itself and from those above it. CONTRIBUTING says the same."""

MAY_NOT_IMPORT = {
    "option": {"base"},
    "demo": {"option"},
    **{part: {"demo"} for part in ("review.judge", "review.explore", "review.check")},
}
"""The folders above it that a folder does not know all the same."""

KNOWN_OF_SDK = {
    "NAMES",
    "capabilities",
    "files",
    "handler",
    "protection",
    "questions",
    "server",
    "settings",
    "telemetry",
}
"""The modules of `sdk` that `tool` and `demo` may know: no option's own machinery."""


def part_of(module: str) -> str:
    """Return the layer that a module is in; its name, if it is in none."""
    _, name, *rest = module.split(".")
    if name.startswith("option_"):
        return "option"
    if name in BASE | EXAMPLES:
        return "base" if name in BASE else "example"
    return ".".join([name, *rest[:1]]) if name == "review" else name


def module_of(path: Path) -> str:
    """Return the dotted name of a module, from its path in the repository."""
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return the dotted names that a file imports, also within functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


MODULES = sorted(path for path in ROOT.rglob("*.py") if not path.name.startswith("__"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_the_folders_that_its_own_may_know(path: Path) -> None:
    part = part_of(module_of(path))
    names = {name for name in imports_of(path) if name.startswith("mrtr_options.")}
    if part == "option":
        names.discard("mrtr_options.demo.option.demo")  # imported to run the file as a program
    known = {part_of(name) for name in names} & {*LAYERS, "example"}
    last = LAYERS.index(part) if part in LAYERS else 0
    assert known <= {part, *LAYERS[: last + 1]} - MAY_NOT_IMPORT.get(part, set())
    if part == "tool":
        of_sdk = {name.split(".")[2] for name in names if part_of(name) == "sdk"}
        assert of_sdk - {"server"} <= KNOWN_OF_SDK


OUTSIDE = {
    "mrtr_options": ("documents", "tests", "scoreboard", "examples", "model"),
    "scoreboard": ("documents", "tests"),
    "documents": ("tests",),
    "examples": ("documents", "tests", "scoreboard"),
    "model": ("documents", "tests", "scoreboard", "examples", "mrtr_options"),
}
"""The top folders that a top folder does not know."""

DEFINITIONS = "mrtr_options.review.judge.anomalies"
"""The one module of the package that the model knows. It knows properties alone."""


@pytest.mark.parametrize("folder", OUTSIDE)
def test_a_top_folder_knows_nothing_of_those_beside_it(folder: str) -> None:
    for path in (REPOSITORY / folder).rglob("*.py"):
        known = {name for name in imports_of(path) if not name.startswith(f"{DEFINITIONS}.")}
        assert {name.split(".")[0] for name in known}.isdisjoint(OUTSIDE[folder]), path


OF_A_DIGEST = {f"scoreboard.conformance.score.{name}" for name in ("correct", "mutants", "others")}
"""Programs in a circle whose results are kept with a digest of their text."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    folders = ("mrtr_options", "documents", "scoreboard", "tests", "model")
    paths = {
        module_of(path): path
        for folder in folders
        for path in (REPOSITORY / folder).rglob("*.py")
        if "corpus" not in path.parts
    }
    known = {
        module: {_module_in(name, paths) for name in imports_of(path)} - {module, None}
        for module, path in paths.items()
    }
    for module in OF_A_DIGEST:
        known[module] -= OF_A_DIGEST
    TopologicalSorter(known).prepare()  # it raises a circle


def _module_in(name: str, paths: dict[str, Path]) -> str | None:
    """Return the module of an imported name, which is the module itself or a name in it."""
    if name in paths:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in paths else None


def test_the_invariant_loads_nothing_of_the_review() -> None:
    """Play it in a process of its own, as somebody does who reads it first."""
    invariant = ["tests/test_invariant.py", "-q", "-k", "[E] or wire"]
    code = f"""
import sys, pytest
assert pytest.main({invariant}) == 0
print("loaded", sorted(name for name in sys.modules if name.startswith("mrtr_options.")))
"""
    ran = python("-c", code)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (loaded,) = [line for line in ran.stdout.splitlines() if line.startswith("loaded ")]
    assert "mrtr_options.tool.catalogue" in loaded
    assert "mrtr_options.review" not in loaded


def test_uv_has_the_constraints_of_pip() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = [line for line in lines if not line.startswith("#")]
    assert project["tool"]["uv"]["constraint-dependencies"] == pinned
