"""The notebooks as pages: `python -m mrtr_options.show.review` (part of `make review`).

nbconvert makes the HTML. What is added here are links to one another and to the page beside them
(`show.page`), and a security policy: everything is inside the pages, and they may ask the network for
nothing. `--execute` executes the notebooks first and keeps what they show, without times and paths of
the machine.

The code of a cell that shows something is folded away, and each picture says in words what is in it.

Knows what a notebook file looks like; nothing of what is in one.
"""

from __future__ import annotations

import html
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio

from mrtr_options.show.terminal import Parser, refuse, require, run

if __name__ == "__main__":
    require("nbformat", "nbclient", "nbconvert")

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ClearMetadataPreprocessor
from traitlets.config import Config

import mrtr_options
from mrtr_options.show.progress import progress

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
FOLDER = Path("build") / "review"
SECONDS = 280
"""How long one cell may take."""

Notebook = Any  # nbformat has no types

_POLICY = (
    '<meta http-equiv="Content-Security-Policy"'
    " content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)
_TEMPLATE = """{% extends 'basic/index.html.j2' %}
{% block input_group %}
{% if cell.outputs %}<details><summary>code</summary>{% endif %}
{{ super() }}
{% if cell.outputs %}</details>{% endif %}
{% endblock %}
"""
_STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 sans-serif; color: #1a1a1a }
nav { border-bottom: 1px solid #ccc; padding-bottom: .5rem }
nav a { margin-right: 1.5rem }
img { max-width: 100% }
pre { background: #f6f6f6; padding: .6rem .8rem; overflow-x: auto; font-size: 13px; line-height: 1.4 }
.rendered_html { overflow-x: auto }
summary { color: #595959; font-size: 14px; cursor: pointer }
table { border-collapse: collapse; font-size: 14px; margin: .8rem 0 }
th, td { border: 1px solid #ddd; padding: .2rem .6rem; text-align: left; vertical-align: top }
"""


class CannotExecute(Exception):
    """A notebook cannot be executed. The text is one line that says what to do."""


def all_notebooks() -> list[Path]:
    """Every notebook, in order."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def read(path: Path) -> Notebook:
    """A notebook as it is kept."""
    return cast("Any", nbformat).read(path, as_version=4)


def execute(path: Path, variables: Mapping[str, str] | None = None) -> Notebook:
    """A notebook with what its cells show now, executed from top to bottom in a kernel of its own.

    Args:
        path: The notebook.
        variables: Set in the kernel's environment, beside this process's.

    Raises:
        CannotExecute: A cell fails or takes more than `SECONDS`, or the kernel dies.
    """
    found = read(path)
    package = str(Path(mrtr_options.__file__).parents[1])
    env = {**os.environ, **(variables or {}), "PYTHONPATH": package}
    with tempfile.TemporaryDirectory(prefix="mrtr-kernel-") as folder:
        # Sockets in a folder: ports would be open to everyone on the machine.
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
            anyio.run(partial(cast("Any", client).async_execute, env=env))
        except CellExecutionError as error:
            raise CannotExecute(f"{path.name}: {error.ename}: {error.evalue}") from error
        except CellTimeoutError as error:
            raise CannotExecute(f"{path.name}: a cell took more than {SECONDS} s") from error
        except DeadKernelError as error:
            raise CannotExecute(f"{path.name}: its kernel died") from error
    plain, _ = cast("Any", ClearMetadataPreprocessor)(enabled=True).preprocess(found, {})
    for cell in plain.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output.execution_count = None
    plain.metadata.kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return plain


def keep(path: Path, notebook: Notebook) -> None:
    """Write a notebook."""
    cast("Any", nbformat).write(notebook, path)


def outputs(notebook: Notebook) -> list[dict[str, Any]]:
    """What all its cells show, in order."""
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def texts(notebook: Notebook) -> list[str]:
    """All that it shows in words: tables, what is printed, and what each picture says."""
    found: list[str] = []
    for output in outputs(notebook):
        shown: dict[str, str] = output.get("data", {"text/plain": output.get("text", "")})
        found += [value for kind, value in shown.items() if kind.startswith("text/")]
    return found


def render(notebooks: Sequence[Path], folder: Path) -> list[Path]:
    """Write a page for each notebook; returns all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    exporter = cast("Any", HTMLExporter)(
        template_name="basic",
        raw_template=_TEMPLATE,
        exclude_anchor_links=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        embed_images=True,
    )
    bodies: dict[str, str] = {}
    titles: list[tuple[str, str]] = []
    colours = ""
    for path in notebooks:
        notebook = read(path)
        for output in outputs(notebook):
            if "image/png" in output.get("data", {}):
                output["metadata"]["image/png"] = {"alt": output["data"]["text/plain"]}
        file = f"{path.stem}.html"
        title = notebook.cells[0].source.split("\n\n")[0].removeprefix("# ")
        titles.append((file, title))
        bodies[file], resources = exporter.from_notebook_node(notebook)
        colours = "\n".join(resources["inlining"]["css"])
    pages = [("index.html", "The page"), *titles]
    links = " ".join(f'<a href="{file}">{html.escape(title)}</a>' for file, title in pages)
    for file, title in titles:
        (folder / file).write_text(
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_POLICY}\n'
            f'<meta name="viewport" content="width=device-width">\n<title>{html.escape(title)}</title>\n'
            f"<style>{colours}{_STYLE}</style>\n</head>\n"
            f"<body>\n<nav>{links}</nav>\n{bodies[file]}\n</body>\n</html>\n",
            encoding="utf-8",
        )
    return [folder / file for file, _ in titles]


def main(argv: Sequence[str] | None = None) -> int:
    """Render, and print where the pages are; returns the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.show.review",
        description="The notebooks as pages that open in a browser.",
        allow_abbrev=False,
    )
    parser.add_argument("--execute", action="store_true", help="execute the notebooks first; minutes")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER", help=f"instead of {FOLDER}")
    args = parser.parse_args(argv)
    notebooks = all_notebooks()
    if not notebooks:
        refuse("there are no notebooks beside this package; run it in a clone of the repository")
    if args.execute:
        with progress(quiet=False) as bar:
            task = bar.add_task("notebooks", total=len(notebooks))
            for path in notebooks:
                try:
                    keep(path, execute(path))
                except CannotExecute as error:
                    bar.stop()
                    refuse(str(error))
                bar.advance(task)
    try:
        written = render(notebooks, args.to)
    except OSError as error:
        refuse(f"cannot write to {args.to}: {error.strerror}")
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
