"""What is installed: the same versions by pip and by uv."""

import tomllib

from tests.commands import REPOSITORY


def test_uv_has_the_constraints_of_pip() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = [line for line in lines if not line.startswith("#")]
    assert project["tool"]["uv"]["constraint-dependencies"] == pinned
