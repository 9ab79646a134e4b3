"""Tests of `--proposal FILE`, which holds a file of one's own to the invariant."""

from pathlib import Path

import pytest

from mrtr_options.tool.catalogue import option_named
from tests.commands import python
from tests.evidence import every

pytestmark = pytest.mark.slow


def held(folder: Path, old: str = "", new: str = "") -> str:
    """Run the invariant on a copy of F with one change, and return pytest's output."""
    source = option_named("F").source
    assert old in source
    file = folder / "my_option.py"
    file.write_text(source.replace(old, new, 1) if old else source, encoding="utf-8")
    invariant = "tests/test_invariant.py"
    ran = python("-m", "pytest", invariant, f"--proposal={file}", "-k", "proposal")
    return ran.stdout


def test_a_proposal_is_played_in_every_column_and_its_counts_are_printed(tmp_path: Path) -> None:
    said = held(tmp_path)
    assert said.count("my_option.py, ") == 4
    assert "my_option.py, modern client, Springfield: Cell(audits=1, bills=1, user='asked')" in said
    assert "AssertionError" not in said


SPOILT = {
    "two bills": (
        "    return text(weather",
        "    await desk.bill(place)\n    return text(weather",
        "to bill 1",
    ),
    "not asked": (
        "    units = answer_to(which_units, ctx, params)\n",
        "    units = which_units.assumed\n",
        "the user was not asked",
    ),
    "another text": ("weather.report(place, units)", "place", "came     Seen("),
}
"""What is replaced in F, by what, and what the invariant says."""


@pytest.mark.parametrize(
    "spoilt", every("proposals against the invariant", SPOILT, also=("two bills",))
)
def test_a_proposal_that_does_or_shows_something_else_is_red(
    spoilt: tuple[str, str, str], tmp_path: Path
) -> None:
    old, new, why = spoilt
    said = held(tmp_path, old, new)
    assert "AssertionError" in said
    assert why in said


def test_a_proposal_that_cannot_be_loaded_is_refused_in_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing.py"
    ran = python("-m", "pytest", "tests/test_invariant.py", f"--proposal={missing}")
    assert ran.stderr.startswith(f"ERROR: there is no file {missing}; ")
    assert ran.stderr.strip().count("\n") == 0
