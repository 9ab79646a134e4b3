"""The layout: the deck alone at the root, no part of the package knows one that is built on it, and
pip and uv install the same versions.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import mrtr_options
from tests.commands import REPOSITORY

ROOT = Path(mrtr_options.__file__).parent

MAY_IMPORT = {
    "sdk": {"sdk"},
    "tool": {"tool", "sdk"},
    "option": {"tool", "sdk"},
    "bench": {"bench", "option", "tool", "sdk"},
    "judge": {"judge", "bench", "option", "tool", "sdk"},
    "show": {"show", "judge", "bench", "option", "tool", "sdk"},
    "demo": {"demo", "show", "judge", "bench", "option", "tool", "sdk"},
    "cli": {"cli", "demo", "show", "judge", "bench", "option", "tool", "sdk"},
}
"""What the modules of each folder may import at the top. CONTRIBUTING draws the same directions."""

BASE = {"handlers", "questions", "server", "settings"}
"""All that `tool` may know of `sdk`: what any server needs, and no option's own machinery."""

TERMINAL = "mrtr_options.terminal"
"""How a command looks; it knows nothing, so any module that is a command may import it."""


def part_of(module: str) -> str:
    """The folder that a module is in; "option" for an option file."""
    name = module.split(".")[1]
    return "option" if name.startswith("option_") else name


def imports_of(path: Path) -> Iterator[str]:
    """The modules of this package that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        modules = (
            ".".join(name.split(".")[:3]) for name in names if name.startswith("mrtr_options.")
        )
        yield from (module for module in modules if part_of(module) in MAY_IMPORT)


MODULES = sorted(
    path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.name.startswith("option_")
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_arrow_climbs(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    part, imports = part_of(module), [*imports_of(path)]
    if module == TERMINAL:
        assert imports == []
    # The last lines of an option file run it, which nothing that imports it does.
    besides = {TERMINAL, *(["mrtr_options.demo.option"] if part == "option" else [])}
    assert {each for each in imports if part_of(each) not in MAY_IMPORT[part]} <= besides
    if part == "tool":
        assert {each.rpartition(".")[2] for each in imports if part_of(each) == "sdk"} <= BASE


BESIDE = re.compile(r"^\s*(?:from|import) (?:documents|tests|scoreboard|examples)\b", re.MULTILINE)


def test_the_package_knows_nothing_beside_it() -> None:
    assert BESIDE.search("def late():\n    from tests.chaos import crowd\n")
    for path in ROOT.rglob("*.py"):
        assert not BESIDE.search(path.read_text(encoding="utf-8")), path


def test_the_root_holds_the_deck_alone() -> None:
    beside = {"__init__.py", "__main__.py", "guarantees.toml", "py.typed"}
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert {name for name in files if not name.startswith("option_")} == beside


def test_uv_has_the_constraints_of_pip() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = [line for line in lines if not line.startswith("#")]
    assert project["tool"]["uv"]["constraint-dependencies"] == pinned
