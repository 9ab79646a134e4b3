"""`python -m documents` renews the generated parts of README.md and docs/, and the pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import anyio

from documents import candidates, explored
from documents.parts import renew_kept, renew_text
from documents.tables import FAULTS, PICTURES, Runs, documents
from model import kept
from mrtr_options.review.bench.subjects import all_subjects, subject_named
from mrtr_options.review.explore.never import KEPT
from mrtr_options.review.judge import grid
from mrtr_options.review.show.progress import counting
from mrtr_options.terminal import Parser, refuse, run
from scoreboard import libraries, rounds


@cache
def matrix() -> Runs:
    """Play every run of the matrix. It takes a minute, and some documents do not need it."""
    to_run = grid.cells(all_subjects())
    with counting("schedules", len(to_run)) as begin:
        return anyio.run(grid.run, to_run, begin)


def write(paths: Sequence[Path]) -> int:
    """Renew the generated parts of some documents, and every picture; return the exit code."""
    for path, picture in PICTURES.items():
        path.write_text(picture.drawing, encoding="utf-8")
    renewed = [renew_text(path.read_text(encoding="utf-8"), matrix) for path in paths]
    for path, text in zip(paths, renewed, strict=True):
        path.write_text(text, encoding="utf-8")
    return 0


def keep_verdicts() -> None:
    """Search all states of the model, and keep its verdicts."""
    every = kept.tasks()
    done: list[kept.Verdict] = []
    with counting("searches", len(every)) as begin:
        for verdict in kept.verdicts(every):
            begin(verdict.task.name)
            done.append(verdict)
    KEPT.write_text(kept.as_text(done), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m documents",
        description="Renews the generated parts of README.md and docs/, from runs and from what is"
        " kept of runs that take longer.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="documents; all without"
    )
    parser.add_argument(
        "--explore",
        action="append",
        metavar="SUBJECT",
        help="before that, try every set of faults on this subject (M, F+guard, all), and keep what"
        " comes of it in docs/data/explored.json; may be given several times",
    )
    parser.add_argument(
        "--faults", type=int, choices=(1, 2), default=FAULTS, help=f"how many (default {FAULTS})"
    )
    parser.add_argument(
        "--candidates",
        action="store_true",
        help="before that, try every fault alone on the candidates for a default, with three"
        " clients and three destinations (minutes), and keep what comes of it in"
        " docs/data/candidates.json",
    )
    parser.add_argument(
        "--model",
        action="store_true",
        help="before that, search all states of the model (minutes), and keep its verdicts where"
        " `explore` reads them",
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="write only the tables of what is kept of clients, servers, frameworks, the official"
        " suite and costs (seconds)",
    )
    args = parser.parse_args(argv)
    if args.kept:
        for page in documents():
            page.write_text(renew_kept(page.read_text(encoding="utf-8")), encoding="utf-8")
        libraries.write(rounds.files_of_libraries(rounds.read_board()))
        return 0
    paths: list[Path] = [path.resolve() for path in args.files] or documents()
    for path in paths:
        if path not in documents():
            refuse(f"{path} has no generated parts; name README.md or a page of docs/")
    names = [subject_named(name).name for name in args.explore or () if name != "all"]
    code = explored.keep(names, args.faults) if args.explore else 0
    code |= candidates.keep() if args.candidates else 0
    if args.model:
        keep_verdicts()
    return write(paths) or code


if __name__ == "__main__":
    sys.exit(run(main))
