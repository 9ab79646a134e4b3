"""Play every schedule with every option, and print what happens."""

from __future__ import annotations

import argparse

from mrtr_options.review.cli._shared import add_form, form_of, parse_slugs, print_left_out
from mrtr_options.terminal import PROGRAM, refuse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of schedules, options and deployments."""
    parser.add_argument("--only", metavar="SCHEDULES", help="only these: names with commas")
    parser.add_argument("--options", metavar="LETTERS", help="only these, as in E,F,H or EFH")
    parser.add_argument("--era", choices=("modern", "legacy"), help="only clients of this era")
    parser.add_argument(
        "--deployment",
        metavar="NAME",
        help="a deployment of docs/results/RESULTS.md; one and two instances in memory by default",
    )
    add_form(parser, markdown=True)


def run(args: argparse.Namespace) -> int:
    """Play them, and print the tables. Return 1 if a rule or a guarantee is broken."""
    from mrtr_options.review.bench.deployments import offered
    from mrtr_options.review.bench.messages import ERAS
    from mrtr_options.review.bench.schedules import SCHEDULES

    chosen = parse_slugs(args.only, SCHEDULES)
    if args.options is not None and not _split_names(args.options):
        refuse("--options names no option; leave it out for all of them")
    if args.deployment and args.deployment not in offered():
        refuse(f"{args.deployment!r} is not a deployment; name one of {', '.join(offered())}")

    import anyio

    from mrtr_options.review.bench.subjects import all_subjects
    from mrtr_options.review.judge import grid
    from mrtr_options.review.show.progress import counting
    from mrtr_options.review.show.tables import show
    from mrtr_options.tool.catalogue import option_named, runnable

    wanted = [runnable(option_named(name)) for name in _split_names(args.options)]
    for option in wanted:
        if option.is_foreign:
            refuse(
                f"the matrix has the options of the deck; for {option.path} write {PROGRAM} check"
            )
    columns = [column for column in all_subjects() if not wanted or column.option in wanted]
    if not wanted:
        print_left_out()
    eras = (args.era,) if args.era else ERAS
    deployments = (args.deployment,) if args.deployment else grid.IN_MEMORY
    schedules = [SCHEDULES[slug] for slug in chosen or SCHEDULES]
    to_run, missing = grid.split(columns, schedules=schedules, eras=eras, deployments=deployments)
    if not (to_run or missing):
        refuse(
            "nothing of this can be played together; leave out --only, --options, --era or"
            " --deployment"
        )
    form = form_of(args)
    with counting("schedules", len(to_run), quiet=form != "text") as begin:
        observations = anyio.run(grid.run, to_run, begin)
    judged = {column: grid.judge(column, observations) for column in columns}
    show(observations, judged, form, missing)
    return 1 if any(judged.values()) else 0


def _split_names(options: str | None) -> list[str]:
    """Return the options that --options names: "E,F,H", "once,H" or "EFH"."""
    if not options:
        return []
    names = options.split(",") if "," in options or "_" in options else list(options)
    return [name.strip() for name in names if name.strip()]
