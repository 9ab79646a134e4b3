"""`python -m mrtr_options.show.page` (`make review`): play every set of faults and write the page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mrtr_options.bench.subjects import Subject, all_subjects, keyed_subjects, subject_named
from mrtr_options.cost import report
from mrtr_options.show.check import try_files
from mrtr_options.show.page.costs import costs
from mrtr_options.show.page.document import document, proofs_of
from mrtr_options.show.page.html import MAX_BYTES, page
from mrtr_options.show.page.runs import tell, worlds_of
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import Parser, plural, refuse, run
from mrtr_options.tool.catalogue import CannotLoad, lacking

FOLDER = Path("build") / "review"
FAULTS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, and print where it is; returns the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.show.page",
        description="One page: every explored set of faults, to be chosen by hand.",
        allow_abbrev=False,
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="as in: F H F¹; all without")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER", help=f"instead of {FOLDER}")
    parser.add_argument(
        "--faults", type=int, choices=(1, 2), default=FAULTS, help=f"how many at most (default {FAULTS})"
    )
    args = parser.parse_args(argv)
    if not report.FILE.is_file():
        refuse("the costs are not beside this package; run it in a clone of the repository")
    try:
        subjects = [subject_named(name) for name in args.subjects] or [
            *all_subjects(),
            *keyed_subjects(),
        ]
    except CannotLoad as error:
        refuse(str(error))
    if not args.subjects:
        for line in lacking():
            print(f"left out: {line}", file=sys.stderr)
    try:
        args.to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"cannot write to {error.filename}: {error.strerror}")
    try_files(each for each in subjects if each.option.is_foreign)
    worlds = worlds_of(subjects, args.faults)
    with progress(quiet=False) as bar:
        task = bar.add_task(f"up to {plural(args.faults, 'fault')}", total=len(worlds))
        text = written(subjects, args.faults, stepping(bar, task))
    if len(text.encode()) > MAX_BYTES:
        refuse(f"the page has {len(text.encode()):,} bytes; at most {MAX_BYTES:,} may be")
    file = args.to / "index.html"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"cannot write to {error.filename}: {error.strerror}")
    print(file)
    return 0


def written(
    subjects: Sequence[Subject], faults: int, on_world: Callable[[str], None] = lambda name: None
) -> str:
    """The page, made from runs that are made now.

    Args:
        subjects: Of these.
        faults: Up to so many.
        on_world: Told the name of each world that is done; see `worlds_of`.
    """
    told = tell(worlds_of(subjects, faults), on_world)
    runs = sum(each.found.histories for each in told)
    return page(
        document(told, proofs_of(subjects)),
        costs=costs(report.read()),
        footer=f"Made from {runs:,} runs by <code>python -m mrtr_options.show.page</code>. Nothing is"
        " simulated here: <code>python -m mrtr_options play</code> makes each of them again.",
    )


if __name__ == "__main__":
    sys.exit(run(main))
