"""The notebooks run from top to bottom, and what they keep is what a run says today."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest

from mrtr_options.bench.subjects import all_columns
from mrtr_options.judge import kept
from mrtr_options.show.review import (
    CannotExecute,
    Notebook,
    all_notebooks,
    execute,
    keep,
    outputs,
    read,
    texts,
)
from mrtr_options.tool.catalogue import all_options
from tests.evidence import every
from tests.warm import python

pytestmark = pytest.mark.slow

MOST_BYTES = 400_000
new_code_cell = cast("Any", nbformat).v4.new_code_cell
RENEW = "stale: run python -m mrtr_options.show.review --execute"

every_notebook = pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)


REVIEW = "verdict.review(proposal, guarantees)"
"""What takes longest in them; see `in_one_kernel`."""

BEGINS = """
from mrtr_options.show.pictures import heatmap, sequence, style
style.DOTS_PER_INCH = 20
for module in (heatmap, sequence):
    module.picture = lambda figure, says, style=style: style.picture(style.Figure(), says)

from mrtr_options.bench import runs
from mrtr_options.bench.subjects import all_columns
runs.engine = runs.engine_for(all_columns())
database = await runs.engine.__aenter__()
async def on_one_engine(cell, played=runs.history_of, database=database, **how):
    return await played(cell, **how, database=database())
runs.history_of = on_one_engine
"""
"""Drawing takes seconds, and so does an engine for every run. tests/show/test_pictures.py draws what is
blank here, and `make evidence` does all as it stands."""

ENDS = """
from mrtr_options.bench import runs
await runs.engine.__aexit__(None, None, None)
"""


@pytest.fixture(scope="module", autouse=True)
def warm_kernels(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Kernels begin with their imports behind them."""
    folder = tmp_path_factory.mktemp("jupyter")
    spec = folder / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [*python(), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JUPYTER_PATH", str(folder))
        yield


@pytest.fixture(scope="module")
def in_one_kernel(
    played: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Notebook, Notebook]]:
    """What each notebook keeps and what it shows now, in order; a kernel takes seconds to begin.

    The kernel forgets all names between two notebooks. It draws small or not at all, has one durable
    engine, reads the runs that these tests made, and reviews the proposal in one schedule; what that
    cell says is left out.
    """
    found = [read(path) for path in all_notebooks()]
    together = read(all_notebooks()[0])
    together.cells = [new_code_cell(BEGINS)]
    for notebook in found:
        together.cells.append(new_code_cell("%reset -f"))
        together.cells += deepcopy(notebook.cells)
    together.cells.append(new_code_cell(ENDS))
    for number, cell in enumerate(together.cells):
        cell.id = f"cell-{number}"
        cell.source = cell.source.replace(REVIEW, f"{REVIEW[:-1]}, only=['clean-tokyo'])")
    path = tmp_path_factory.mktemp("notebooks") / "together.ipynb"
    keep(path, together)
    now = iter(execute(path, {kept.PLAYED_VARIABLE: str(played)}).cells[1:])
    both: list[tuple[Notebook, Notebook]] = []
    for notebook in found:
        next(now)
        shown = deepcopy(notebook)
        shown.cells = [next(now) for _ in notebook.cells]
        told = [place for place, cell in enumerate(notebook.cells) if REVIEW not in cell.source]
        for each in (notebook, shown):
            each.cells = [each.cells[place] for place in told]
        both.append((notebook, shown))
    return both


def pictures(notebook: Notebook) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def test_there_are_four_notebooks() -> None:
    assert [path.stem for path in all_notebooks()] == [
        "01_the_argument",
        "02_what_goes_wrong",
        "03_what_it_costs",
        "04_your_proposal",
    ]


@pytest.mark.parametrize("place", range(4), ids=[path.stem for path in all_notebooks()])
def test_a_notebook_runs_from_top_to_bottom_and_says_what_it_keeps(
    place: int, in_one_kernel: list[tuple[Notebook, Notebook]]
) -> None:
    before, now = in_one_kernel[place]
    assert texts(now) == texts(before), RENEW
    assert pictures(now) == pictures(before), RENEW


@pytest.mark.parametrize("path", every("notebooks", {path.stem: path for path in all_notebooks()}))
def test_a_notebook_in_a_kernel_of_its_own_says_what_it_keeps(path: Path, played: Path) -> None:
    before, now = read(path), execute(path, {kept.PLAYED_VARIABLE: str(played)})
    assert texts(now) == texts(before), RENEW
    assert pictures(now) == pictures(before), RENEW


@every_notebook
def test_what_is_kept_renders_where_the_repository_is_hosted(path: Path) -> None:
    kept = read(path)
    assert path.stat().st_size < MOST_BYTES
    assert {output["output_type"] for output in outputs(kept)} <= {"display_data", "execute_result"}
    for cell in kept["cells"]:
        last = cell["source"].splitlines()[-1]
        if cell["cell_type"] == "code" and re.search(r"^(?!.* = | *return ).*\)$", last):
            assert cell["outputs"], f"{last} shows nothing"


@every_notebook
def test_nothing_of_this_machine_is_kept(path: Path) -> None:
    words = json.dumps([texts(read(path)), [cell["source"] for cell in read(path)["cells"]]])
    here = (
        sys.prefix,
        sys.base_prefix,
        str(Path.home()),
        str(path.parents[1]),
        "/tmp/",
        "site-packages",
    )
    assert not [part for part in here if part in words]


def test_every_option_is_in_the_argument_and_every_column_in_the_matrix() -> None:
    argument, wrong = (read(path) for path in all_notebooks()[:2])
    words = "\n".join(texts(argument))
    for option in all_options().values():
        assert f"| {option.letter} {option.name} |" in words
    heat_map = next(text for text in texts(wrong) if text.startswith("modern client"))
    columns = heat_map.partition("columns ")[2].partition(";")[0].split(", ")
    assert len(columns) == len(all_columns())


def test_the_proposal_keeps_its_word_and_the_broken_one_is_told_which_it_does_not() -> None:
    good, broken = texts(read(all_notebooks()[3]))[::2]
    assert "**No guarantee is broken.**" in good
    assert "| **modern-clean-springfield-counts** |" in broken


def test_a_cell_that_fails_is_named_in_one_line(tmp_path: Path) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "one",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    broken: dict[str, Any] = {
        "cells": [{**cell, "source": "raise ValueError('no such option')"}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = tmp_path / "broken.ipynb"
    path.write_text(json.dumps(broken))
    with pytest.raises(CannotExecute) as caught:
        execute(path)
    assert str(caught.value) == "broken.ipynb: ValueError: no such option"
