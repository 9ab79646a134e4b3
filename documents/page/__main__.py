"""`python -m documents.page` writes the page, from the kept tables.

It plays the runs that the tables' cells open, which takes about a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from documents import ROOT
from documents.choosing import choices
from documents.explored import read
from documents.page.document import document
from documents.page.html import MAX_BYTES, page
from documents.page.runs import tell, worlds_of
from documents.tables import play_redeploys
from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, refuse, run
from scoreboard.cost import report as costs

FOLDER = ROOT / "docs" / "page"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, print its path, and return the exit code."""
    parser = Parser(
        prog="python -m documents.page",
        description="One page to choose what goes wrong in a call and see the result.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--to", type=Path, default=FOLDER, metavar="FOLDER", help="instead of docs/page"
    )
    args = parser.parse_args(argv)
    file = args.to / "index.html"
    try:
        args.to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"cannot write to {error.filename}: {error.strerror}")
    worlds = worlds_of(read())
    with counting("runs", len(worlds)) as begin:
        text = page(document(tell(worlds, begin), choices(), play_redeploys()), costs.read())
    if len(text.encode()) > MAX_BYTES:
        refuse(f"the page has {len(text.encode()):,} bytes; at most {MAX_BYTES:,} may be")
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"cannot write to {error.filename}: {error.strerror}")
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
