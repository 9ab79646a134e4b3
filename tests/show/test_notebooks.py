"""Tests of the notebooks: they run from top to bottom, and give their stored outputs."""

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from documents import ROOT
from tests.bounds import SECONDS
from tests.evidence import every

pytestmark = pytest.mark.slow

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
def test_nothing_of_this_machine_is_kept(path: Path) -> None:
    words = json.dumps([shown(read(path)), [cell["source"] for cell in read(path)["cells"]]])
    here = (sys.prefix, sys.base_prefix, str(Path.home()), str(ROOT), "/tmp/", "site-packages")
    assert not [part for part in here if part in words]
