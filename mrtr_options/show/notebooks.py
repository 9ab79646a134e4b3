"""The notebooks: finding them, executing one, and keeping what it shows.

What is kept has no times, no machine's paths and no numbers of runs, so that it differs only where
the review does. Needs nbclient and ipykernel; knows nothing of what is in a notebook.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio

import mrtr_options

FOLDER = Path(__file__).parents[2] / "notebooks"
SECONDS = 150
"""How long one cell may take."""

_METADATA: dict[str, Any] = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

Notebook = dict[str, Any]


class CannotExecute(Exception):
    """A notebook cannot be executed. The text is one line that says what to do."""


def all_notebooks() -> list[Path]:
    """Every notebook, in order."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Notebook:
    """A notebook as it is kept."""
    return json.loads(path.read_text(encoding="utf-8"))


def execute(path: Path, variables: Mapping[str, str] | None = None) -> Notebook:
    """A notebook with what its cells show now, from top to bottom, in a kernel of its own.

    Args:
        path: The notebook.
        variables: Set in the kernel's environment, beside this process's.

    Raises:
        CannotExecute: A cell fails, or there is nothing to execute it with.
    """
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
        from traitlets.config import Config
    except ImportError as error:
        raise CannotExecute(f"{error.name} is not installed: pip install nbclient ipykernel") from error

    text = path.read_text(encoding="utf-8")
    found: Any = cast("Any", nbformat).reads(text, as_version=4)
    package = str(Path(mrtr_options.__file__).parents[1])
    with tempfile.TemporaryDirectory(prefix="mrtr-kernel-") as folder:
        # Sockets in a folder instead of ports, which anybody on the machine could talk to.
        kernel = {"transport": "ipc", "ip": f"{folder}/kernel"}
        client = NotebookClient(
            found,
            config=Config({"KernelManager": kernel}),
            timeout=SECONDS,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(path.parent)}},
        )
        try:
            env = {**os.environ, **(variables or {}), "PYTHONPATH": package}
            anyio.run(partial(cast("Any", client).async_execute, env=env))
        except CellExecutionError as error:
            raise CannotExecute(f"{path.name}: {error.ename}: {error.evalue}") from error
        except CellTimeoutError as error:
            raise CannotExecute(f"{path.name}: a cell took more than {SECONDS} s") from error
        except DeadKernelError as error:
            raise CannotExecute(f"{path.name}: its kernel died") from error
    return _plain(found)


def keep(path: Path, notebook: Notebook) -> None:
    """Write a notebook."""
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def outputs(notebook: Notebook) -> list[dict[str, Any]]:
    """What all its cells show, in order."""
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def texts(notebook: Notebook) -> list[str]:
    """All that it shows in words: tables, what is printed, and what each picture says."""
    found: list[str] = []
    for output in outputs(notebook):
        shown: dict[str, Any] = output.get("data", {"text/plain": output.get("text", "")})
        found += ["".join(value) for kind, value in shown.items() if kind.startswith("text/")]
    return found


def _plain(notebook: Any) -> Notebook:
    """As it is kept: an nbformat notebook without what differs between two runs of one code."""
    found: Notebook = json.loads(json.dumps(notebook))
    found["metadata"] = _METADATA
    for cell in found["cells"]:
        cell["metadata"] = {}
        cell["source"] = _lines(cell["source"])
        for output in cell.get("outputs", []):
            for kind, value in output.get("data", {}).items():
                output["data"][kind] = _lines(value) if kind.startswith("text/") else value
            if "text" in output:
                output["text"] = _lines(output["text"])
    return found


def _lines(text: str | list[str]) -> list[str]:
    return "".join(text).splitlines(keepends=True)
