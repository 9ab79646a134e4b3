"""Write a server for your own tool, with a test that loses responses."""

from __future__ import annotations

import argparse
import keyword
from importlib.util import find_spec
from pathlib import Path

from mrtr_options.demo.own_tool import DEFAULT, STYLES, files_of
from mrtr_options.names import nearest
from mrtr_options.review.cli._shared import write_new
from mrtr_options.terminal import console, refuse

EXAMPLE = "new book_table.py"
MAX_NAME_CHARS = 64
"""The longest name of a tool that all clients take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file to be written, and the style."""
    parser.add_argument("file", type=Path, metavar="FILE", help=f"as in: {EXAMPLE}")
    others = "; ".join(each.title for name, each in STYLES.items() if name != DEFAULT)
    parser.add_argument(
        "--style",
        default=DEFAULT,
        metavar="LETTER",
        help=f"how the tool is written (default: {STYLES[DEFAULT].title}); else {others}",
    )


def run(args: argparse.Namespace) -> int:
    """Write the tool, named after the file, and its test."""
    path: Path = args.file
    test = path.with_name(f"test_{path.name}")
    style: str = args.style.lower()
    if style not in STYLES:
        near = nearest(style, STYLES) or f"there are {', '.join(STYLES)}"
        refuse(f"there is no style {args.style!r}; {near}")
    _check_name(path)
    if test.exists():
        refuse(f"{test} is there already; name a new file")
    tool_text, test_text = files_of(style, path.stem)
    write_new(path, tool_text, EXAMPLE)
    write_new(test, test_text, EXAMPLE)
    console().print(
        f"{path} is written; python {path} serves it, pytest {test} tests it (pip install pytest)"
    )
    return 0


def _check_name(path: Path) -> None:
    """Refuse a name that no tool or no module can have."""
    name = path.stem
    is_name = name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
    if not is_name or len(name) > MAX_NAME_CHARS:
        refuse(
            f"{str(path)!r} is not a tool's name: take up to {MAX_NAME_CHARS} letters, digits"
            f" and _, as in {EXAMPLE}"
        )
    found = None if path.exists() else find_spec(name)
    if found is None or found.origin is None:
        return
    folders = Path.cwd(), path.resolve().parent
    is_a_file = found.has_location  # modules inside the interpreter have no file
    if not (is_a_file and Path(found.origin).resolve().parent in folders):
        refuse(
            f"{path} would hide the module {name} of Python's or of a package; take another name"
        )
