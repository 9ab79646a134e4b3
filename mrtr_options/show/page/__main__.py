"""`python -m mrtr_options.show.page` writes the page.

`make page` takes the tables that are kept, and plays the runs that their cells open; `make review` plays
every set of faults again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mrtr_options.bench.subjects import all_subjects, keyed_subjects, subject_named
from mrtr_options.show.check import try_files
from mrtr_options.show.explore import read
from mrtr_options.show.page import costs
from mrtr_options.show.page.chooser import choices
from mrtr_options.show.page.document import document, proofs_of
from mrtr_options.show.page.html import MAX_BYTES, page
from mrtr_options.show.page.runs import Worlds, kept_worlds, tell, worlds_of
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import Parser, refuse, run
from mrtr_options.tool.catalogue import lacking

FOLDER = Path("build") / "review"
FAULTS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, and print where it is; returns the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.show.page",
        description="One page to choose what goes wrong in a call and see the result.",
        allow_abbrev=False,
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="as in: F H F¹; all without")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER", help=f"instead of {FOLDER}")
    parser.add_argument(
        "--faults", type=int, choices=(1, 2), default=FAULTS, help=f"how many at most (default {FAULTS})"
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="take the tables from docs/explored.json, and play what their cells open",
    )
    args = parser.parse_args(argv)
    if not costs.FILE.is_file():
        refuse("the costs are not beside this package; run it in a clone of the repository")
    subjects = [subject_named(name) for name in args.subjects] or [*all_subjects(), *keyed_subjects()]
    if not args.subjects:
        for line in lacking():
            print(f"left out: {line}", file=sys.stderr)
    try:
        args.to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"cannot write to {error.filename}: {error.strerror}")
    try_files(each for each in subjects if each.option.is_foreign)
    names = {each.name for each in subjects}
    worlds = (
        kept_worlds(row for row in read() if row["subject"] in names)
        if args.kept
        else worlds_of(subjects, args.faults)
    )
    with progress(quiet=False) as bar:
        task = bar.add_task("runs", total=len(worlds))
        text = written(worlds, stepping(bar, task))
    if len(text.encode()) > MAX_BYTES:
        refuse(f"the page has {len(text.encode()):,} bytes; at most {MAX_BYTES:,} may be")
    file = args.to / "index.html"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"cannot write to {error.filename}: {error.strerror}")
    print(file)
    return 0


def written(worlds: Worlds, on_world: Callable[[str], None] = lambda name: None) -> str:
    """The page, made from runs that are made now.

    Args:
        worlds: What is played.
        on_world: Told the name of each world that is done.
    """
    told = tell(worlds, on_world)
    proofs = proofs_of({each.found.subject for each in told if each.kept is None})
    return page(document(told, proofs, choices()), costs.read())


if __name__ == "__main__":
    sys.exit(run(main))
