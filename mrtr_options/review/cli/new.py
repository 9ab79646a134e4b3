"""Write a server for your own tool, with a test that loses a response."""

from __future__ import annotations

import argparse
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from mrtr_options.review.cli._shared import write_new
from mrtr_options.terminal import console, refuse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file to be written."""
    parser.add_argument("file", type=Path, metavar="FILE", help="as in: new book_table.py")


def run(args: argparse.Namespace) -> int:
    """Write it, with the tool named after the file."""
    path: Path = args.file
    if not path.stem.isidentifier():
        refuse(
            f"{str(path)!r} is not a tool's name: take letters, digits and _, as in new book_table.py"
        )
    found = None if path.exists() else find_spec(path.stem)
    if found is not None and found.origin is not None:
        refuse(
            f"{path} would hide the module {path.stem} of Python's or of a package; take another name"
        )
    template = (files("mrtr_options.demo") / "own_tool.py").read_text(encoding="utf-8")
    write_new(path, template.replace("own_tool", path.stem), "new book_table.py")
    console().print(
        f"{path} is written; python {path} serves it, pytest {path} tests it (pip install pytest)"
    )
    return 0
