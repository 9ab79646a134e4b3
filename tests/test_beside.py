"""Tests that a proposal finds the modules beside it, in every command that loads it."""

import sys
from pathlib import Path

import pytest

from mrtr_options.__main__ import main
from mrtr_options.tool.catalogue import load, option_named
from tests.sending import settings

HELPER = "from mrtr_options.tool import weather\n\nSAID = []\nTITLE = 'helper of {}'\n"


def proposal(folder: Path, name: str = "my_option.py") -> Path:
    """Write F, with its domain taken from a module beside it, and that module."""
    source = option_named("F").source
    old = "from mrtr_options.tool import weather\n"
    late = "    import my_late\n\n    my_late.SEEN.append(1)\n    desk = ctx.lifespan_context\n"
    assert old in source
    folder.mkdir(exist_ok=True)
    text = source.replace(old, "from my_helper import SAID, TITLE, weather\n\nSAID.append(1)\n", 1)
    text = text.replace("    desk = ctx.lifespan_context\n", late, 1)
    (folder / "my_helper.py").write_text(HELPER.format(folder.name), encoding="utf-8")
    (folder / "my_late.py").write_text("SEEN = []\n", encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def loaded(path: Path, name: str) -> object:
    """Load a file, and return a global name of its module."""
    load(path, settings())
    return vars(sys.modules[f"mrtr_options_loaded_{path.stem}"])[name]


def test_two_loads_of_a_file_share_no_module_beside_it(tmp_path: Path) -> None:
    path = proposal(tmp_path / "one")
    assert [loaded(path, "SAID"), loaded(path, "SAID")] == [[1], [1]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["check {} --only clean-tokyo --drawn 0 --faults 0", "play {} clean-tokyo"],
    ids=["check", "play"],
)
def test_a_command_runs_a_proposal_with_modules_beside_it(command: str, tmp_path: Path) -> None:
    assert main(command.format(proposal(tmp_path)).split()) == 0


def test_a_proposal_in_a_package_finds_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "my_package"
    path = proposal(folder)
    (folder / "__init__.py").touch()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("from my_helper", "from .my_helper"), encoding="utf-8")
    assert loaded(path, "TITLE") == "helper of my_package"
