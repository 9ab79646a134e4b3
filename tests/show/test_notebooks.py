"""Tests of the notebooks: they run from top to bottom, and give their stored outputs."""

import json
import re
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from documents import ROOT
from mrtr_options.review.bench.subjects import all_subjects
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.notation import titled
from tests.bounds import SECONDS
from tests.evidence import every

pytestmark = pytest.mark.slow

MOST_BYTES = 400_000
RENEW = "stale: run make notebooks"

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    """Read a stored notebook."""
    return cast("Any", nbformat).read(path, as_version=4)


def shown(notebook: Any) -> list[str]:
    """Return the outputs of a notebook that are texts: tables, prints, and drawings."""
    found: list[str] = []
    for output in outputs(notebook):
        data: dict[str, str] = output.get("data", {"text/plain": output.get("text", "")})
        found += [value for kind, value in sorted(data.items()) if kind != "image/png"]
    return found


def outputs(notebook: Any) -> list[dict[str, Any]]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize(
    "path", every("notebooks", {path.stem: path for path in NOTEBOOKS}, also=["01_design_review"])
)
def test_a_notebook_runs_from_top_to_bottom_and_says_what_it_keeps(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kept = read(path)
    # Use sockets in a folder, since ports would be open to everyone on the machine.
    client = NotebookClient(
        deepcopy(kept),
        config=Config({"KernelManager": {"transport": "ipc", "ip": str(tmp_path / "kernel")}}),
        timeout=int(SECONDS),
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    now = cast("Any", client).execute()
    assert "".join(shown(now)) == "".join(shown(kept)), RENEW  # a print may come in parts


@every_notebook
def test_what_is_kept_renders_where_the_repository_is_hosted(path: Path) -> None:
    kept = read(path)
    assert path.stat().st_size < MOST_BYTES
    kinds = {output["output_type"] for output in outputs(kept)}
    assert kinds <= {"display_data", "execute_result", "stream"}
    for cell in kept["cells"]:
        last = cell["source"].splitlines()[-1]
        if cell["cell_type"] == "code" and re.search(r"^(?!.* = | *return ).*\)$", last):
            assert cell["outputs"], f"{last} shows nothing"


@every_notebook
def test_nothing_of_this_machine_is_kept(path: Path) -> None:
    words = json.dumps([shown(read(path)), [cell["source"] for cell in read(path)["cells"]]])
    here = (sys.prefix, sys.base_prefix, str(Path.home()), str(ROOT), "/tmp/", "site-packages")
    assert not [part for part in here if part in words]


PAIRS = ("EA", "BH", "CD", "FG", "HE")


def test_the_design_review_has_a_diff_a_fault_and_a_vote_for_each_pair() -> None:
    kept = read(NOTEBOOKS[0])
    diffs = [text for text in shown(kept) if "@@" in text]
    for pair, diff in zip(PAIRS, diffs, strict=True):
        removed, added = (f"\x1b[3{colour}m" for colour in "12")
        assert f"{removed}--- {titled(pair[0])}" in diff
        assert f"{added}+++ {titled(pair[1])}" in diff
    words = "".join(cell["source"] for cell in kept["cells"] if cell["cell_type"] == "markdown")
    assert words.count("The fault:") == words.count("**Vote.**") == len(PAIRS)
    assert len([each for each in outputs(kept) if "image/svg+xml" in each.get("data", {})]) == 10


def test_what_goes_wrong_has_every_column_and_tells_who_took_an_old_answer() -> None:
    matrix, *_, fates, conclusion = [text for text in shown(read(NOTEBOOKS[1])) if "<" not in text]
    (head,) = re.findall(r"^\| audit/bill \|(.*)\|$", matrix, re.MULTILINE)
    assert len(head.split("|")) == len(all_subjects())
    names, _, *rows = [line.strip("| ").split(" | ")[1:] for line in fates.splitlines()]
    stale = {name for name, *cells in zip(names, *rows, strict=True) if "stale" in cells}
    assert stale == set(conclusion.splitlines()[0].removeprefix("stale: ").split(", "))
    assert len(names) == len(all_options())


def test_the_proposal_keeps_its_word_and_the_broken_one_is_told_which_it_does_not() -> None:
    good, broken = shown(read(NOTEBOOKS[2]))
    assert "my_option.py: Keeps the contract and its own guarantees." in good
    assert "breaks modern-clean-springfield-counts" in broken
