"""The command line: arguments and nothing else. `python -m mrtr_options` alone is the tour.

Knows every part that a command starts, and imports it when that command is given: the SDK alone takes
a second or two.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from mrtr_options.show.terminal import Parser, refuse, run

if TYPE_CHECKING:
    from mrtr_options.bench.subjects import Subject


@dataclass(frozen=True)
class Command:
    """One command: what its help says, the arguments it takes, and what it does (the exit code)."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _name_left_out() -> None:
    """Say on standard error which options are left out for want of an extra."""
    from mrtr_options.tool.catalogue import lacking

    for reason in lacking():
        print(f"left out: {reason}", file=sys.stderr)


def _tour(args: argparse.Namespace) -> int:
    from mrtr_options.demo.tour import tour

    _name_left_out()
    return tour(as_json=args.json)


def _form_arguments(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print tables in Markdown")


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("options", nargs="*", metavar="OPTION", help="letters, names or files: diff E F")
    parser.add_argument("--stat", action="store_true", help="count lines for every option instead")
    parser.add_argument("--all", action="store_true", help="docstrings, comments and blank lines too")
    parser.add_argument(
        "--unified", action="store_true", help="a unified diff on wide terminals too, not side by side"
    )
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def _diff(args: argparse.Namespace) -> int:
    if args.stat and (args.options or args.all or args.unified):
        refuse("diff --stat counts the author code of every option; leave out all else")
    if not args.stat and len(args.options) != 2:
        refuse("diff takes two options, as in: diff E F; or --stat for all of them")

    from mrtr_options.demo.diff import print_diff, print_stat
    from mrtr_options.tool.catalogue import CannotLoad, option_named

    if args.stat:
        print_stat(as_json=args.json)
        return 0
    try:
        left, right = (option_named(letter) for letter in args.options)
        print_diff(left, right, everything=args.all, is_unified=args.unified, as_json=args.json)
    except CannotLoad as error:
        refuse(str(error))
    return 0


IN_MEMORY = "effects are counted in memory and go with this process; --ledger FILE keeps them"


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("option", metavar="OPTION", help="the option's letter or name")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help="streamable HTTP on 127.0.0.1 (0: any port); requests at work have 12 s after a signal",
    )
    where.add_argument(
        "--stdio",
        action="store_true",
        help="one client on standard input and output, until it closes them",
    )
    parser.add_argument(
        "--ledger", metavar="FILE", help="SQLite file to count effects in (MRTR_LEDGER); else in memory"
    )
    parser.add_argument(
        "--ask-again", action="store_true", help="ask again where an answer does not fit; else -32602"
    )
    parser.add_argument("--log", action="store_true", help="a line on standard error for each round")


LEGACY_UNLESS_TOLD = (
    "clients that speak the legacy era (2025-11-25) unless told:"
    " TypeScript v2 (versionNegotiation: { mode: 'auto' }) and the Inspector"
)


def _serve(args: argparse.Namespace) -> int:
    from mrtr_options.sdk.ask_again import ask_again
    from mrtr_options.tool.catalogue import DURABLE, CannotLoad, load, option_named
    from mrtr_options.tool.protection import (
        KEYS_VARIABLE,
        BadInstance,
        BadKeys,
        instance_from_environment,
        keys_from_environment,
    )
    from mrtr_options.tool.serving import PATH, CannotListen, listen, serve_http, serve_stdio
    from mrtr_options.tool.settings import LEDGER_VARIABLE, Settings, database_url
    from mrtr_options.tool.telemetry import log_to_standard_error
    from mrtr_options.tool.weather import LedgerUnusable, MemoryLedger, SqliteLedger

    file = args.ledger if args.ledger is not None else os.environ.get(LEDGER_VARIABLE) or None
    try:
        option = option_named(args.option)
        keys = keys_from_environment()
        ledger = MemoryLedger() if file is None else SqliteLedger(file)
        instance = instance_from_environment()
        settings = Settings(
            ledger,
            keys,
            wrappers=[ask_again] if args.ask_again else (),
            database=database_url(),
            instance=instance,
        )
        server = load(option.path, settings)
        if option.extra == DURABLE and settings.database is not None:
            _connect_once(settings.database)
        listener = None if args.stdio else listen(args.http)
    except (CannotLoad, BadKeys, BadInstance, LedgerUnusable, CannotListen) as error:
        refuse(str(error))
    if args.log:
        log_to_standard_error()

    if listener is None:
        if sys.stdin.isatty():
            print("waiting for a client on standard input and output; Ctrl-C ends it", file=sys.stderr)
        # The SDK reads standard input in a thread that only the end of the input can stop.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        serve_stdio(server)
        return 0
    # uvicorn stops in order on SIGINT and SIGTERM, and then raises the signal again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if keys is None:
            print(
                f"warning: {KEYS_VARIABLE} is not set, so the state key is of this process only:"
                " after a restart, and by a second worker, every state it handed out is refused",
                file=sys.stderr,
            )
        if file is None:
            print(IN_MEMORY, file=sys.stderr)
        host, port = listener.getsockname()
        print(f"http://{host}:{port}{PATH}", file=sys.stderr)
        print(LEGACY_UNLESS_TOLD, file=sys.stderr, flush=True)
        serve_http(server, listener)
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
    return 0


def _connect_once(database: str) -> None:
    """Refuse a database that the option could not use once it serves."""
    from mrtr_options.sdk.durable.liveness import CannotConnect, connect_once
    from mrtr_options.tool.settings import DATABASE_VARIABLE

    try:
        connect_once(database)
    except CannotConnect as error:
        refuse(f"cannot use the database in {DATABASE_VARIABLE}: {error}")


def _matrix_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="SCHEDULES", help="slugs, with commas between them")
    parser.add_argument(
        "--options", metavar="LETTERS", help="as in E,F,H or EFH; all of them without it"
    )
    parser.add_argument("--era", choices=("modern", "legacy"), help="one era; both without it")
    parser.add_argument(
        "--deployment",
        choices=("one", "two", "processes"),
        help="one or two instances in memory (both without it), or two server processes",
    )
    _form_arguments(parser)
    parser.add_argument(
        "--soak",
        type=float,
        metavar="MINUTES",
        help="instead: draw calls at random for so long, and hold them against the contract",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="where --soak starts; anywhere without it")


def _matrix(args: argparse.Namespace) -> int:
    if args.soak is not None:
        return _soak(args)
    if args.seed is not None:
        refuse("--seed goes with --soak: the schedules with names are the same each time")

    from mrtr_options.bench.faults import ERAS
    from mrtr_options.bench.schedules import SCHEDULES

    slugs = _slugs(args.only, SCHEDULES)
    if args.options is not None and not _names(args.options):
        refuse("--options names no option; leave it out for all of them")

    from mrtr_options.bench.subjects import all_subjects
    from mrtr_options.judge import matrix
    from mrtr_options.show.matrix import show
    from mrtr_options.tool.catalogue import CannotLoad, option_named, runnable

    try:
        wanted = [runnable(option_named(name)).letter for name in _names(args.options)]
    except CannotLoad as error:
        refuse(str(error))
    columns = [column for column in all_subjects() if not wanted or column.option.letter in wanted]
    if not wanted:
        _name_left_out()
    eras = (args.era,) if args.era else ERAS
    places = (args.deployment,) if args.deployment else matrix.IN_MEMORY
    schedules = [SCHEDULES[slug] for slug in slugs or SCHEDULES]
    if not matrix.cells(columns, schedules=schedules, eras=eras, places=places):
        refuse(
            "nothing of this can be played together; leave out --only, --options, --era or --deployment"
        )
    return show(
        columns,
        schedules=schedules,
        eras=eras,
        places=places,
        form="json" if args.json else "markdown" if args.markdown else "table",
    )


def _names(options: str | None) -> list[str]:
    """What --options names: "E,F,H", "once,H" or "EFH"."""
    if not options:
        return []
    names = options.split(",") if "," in options or "_" in options else list(options)
    return [name.strip() for name in names if name.strip()]


def _soak(args: argparse.Namespace) -> int:
    if not 0 < args.soak < math.inf:
        refuse("--soak takes a number of minutes, as in: matrix --soak 10")
    named = (args.only, args.options, args.era, args.deployment)
    if args.markdown or any(each is not None for each in named):
        refuse(
            "--soak makes its own schedules;"
            " leave out --only, --options, --era, --deployment and --markdown"
        )

    from mrtr_options.show.search import soak

    return soak(args.soak, args.seed, as_json=args.json)


def _world_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fleet",
        choices=("one", "sticky", "free"),
        default="sticky",
        help="one instance; two, where rounds go to the one that asked (default); two in turn",
    )
    parser.add_argument("--era", choices=("modern", "legacy"), default="modern", help="the client's era")
    parser.add_argument("--location", default="Springfield", choices=("Tokyo", "Springfield"))
    parser.add_argument(
        "--honours-keys", action="store_true", help="the effects' destination honours idempotency keys"
    )


MOST_FAULTS = 4
TOO_MANY_FAULTS = (
    f"--faults takes a number from 0 to {MOST_FAULTS}; each one more takes about forty times as long"
)


MARKS = "F+single-use is F¹, F+legacy-shim F², F+call-key Fᵏ"


def _explore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help=f"as in: explore E F F¹ F¹ᵏ; all without; {MARKS}"
    )
    parser.add_argument(
        "--faults",
        type=int,
        default=1,
        metavar="K",
        help="how many at most (default 1; try 2); 1 for options on a durable engine that are not named",
    )
    parser.add_argument(
        "--policy",
        choices=("retry", "call-again", "both"),
        default="both",
        help="what the client does when a response is lost (default: each in turn)",
    )
    _world_arguments(parser)
    parser.add_argument(
        "--resume", metavar="FILE", help="keep what is done in FILE, and go on from what is in it"
    )
    _form_arguments(parser)


def _explore(args: argparse.Namespace) -> int:
    if not 0 <= args.faults <= MOST_FAULTS:
        refuse(TOO_MANY_FAULTS)

    from mrtr_options.bench.scenario import Policy, calling
    from mrtr_options.bench.subjects import LEGACY_SHIM, all_subjects, keyed_subjects
    from mrtr_options.judge.shares import CannotResume
    from mrtr_options.show.explore import show

    if not args.subjects:
        _name_left_out()
    everyone = [  # a modern client does not notice the shim for legacy ones
        each for each in all_subjects() if args.era == "legacy" or LEGACY_SHIM not in each.wrappers
    ]
    if args.era == "modern":  # an old client has a whole call in one request
        everyone += keyed_subjects()
    subjects = _subjects(args.subjects) if args.subjects else everyone
    policies: dict[str, tuple[Policy, ...]] = {
        "retry": ("retry",),
        "call-again": ("call again",),
        "both": ("retry", "call again"),
    }
    calls = {
        (
            subject,
            calling(args.location, args.fleet, policy, args.era, honours_keys=args.honours_keys),
        ): (args.faults if args.subjects or subject.option.extra is None else min(args.faults, 1))
        for subject in subjects
        for policy in policies[args.policy]
    }
    form = "json" if args.json else "markdown" if args.markdown else "text"
    try:
        return show(calls, form=form, keep_in=Path(args.resume) if args.resume else None)
    except CannotResume as error:
        refuse(str(error))


def _subjects(names: Sequence[str]) -> list[Subject]:
    from mrtr_options.bench.subjects import subject_named
    from mrtr_options.tool.catalogue import CannotLoad

    try:
        subjects = [subject_named(name) for name in names]
    except CannotLoad as error:
        refuse(str(error))
    _try_files(subjects)
    return subjects


def _try_files(subjects: Iterable[Subject]) -> None:
    """Refuse a stranger's file that hangs at its first call, or ends the process it runs in."""
    if foreign := [each for each in subjects if each.option.is_foreign]:
        from mrtr_options.show.check import try_files

        try_files(foreign)


def _play_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subjects",
        nargs="+",
        metavar="SUBJECT",
        help=f"one or more, and perhaps a schedule: play E F¹ --faults lost3; play E fork; {MARKS}",
    )
    parser.add_argument("--faults", metavar="FAULTS", help='what goes wrong, as in "lost3 restart2"')
    parser.add_argument("--call-again", action="store_true", help="the client calls again, not retries")
    _world_arguments(parser)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def _play(args: argparse.Namespace) -> int:
    from mrtr_options.bench.explore import check
    from mrtr_options.bench.faults import NoFault, parse
    from mrtr_options.bench.scenario import calling
    from mrtr_options.bench.schedules import SCHEDULES
    from mrtr_options.demo.play import play
    from mrtr_options.tool.catalogue import CannotLoad

    schedule = SCHEDULES.get(args.subjects[-1]) if len(args.subjects) > 1 else None
    for name in args.subjects if schedule is None else args.subjects[:-1]:
        if name in SCHEDULES:
            refuse(f"{name} is a schedule; an option comes before it, as in: play E {name}")
    if schedule is not None and args.faults is not None:
        refuse("a schedule says itself what goes wrong; leave out --faults or the schedule")
    try:
        faults = parse(args.faults or "")
        subjects = _subjects(args.subjects if schedule is None else args.subjects[:-1])
        if schedule is None:
            policy = "call again" if args.call_again else "retry"
            call = calling(args.location, args.fleet, policy, args.era, honours_keys=args.honours_keys)
            for subject in subjects:
                check(subject, call, faults)
            return play(subjects, call.under(faults), faults, as_json=args.json)
        scenario = schedule.of(args.era)
        if scenario is None:
            refuse(f"{schedule.name} has no steps for a {args.era} client; choose the other --era")
        scenario = scenario.on_one() if args.fleet == "one" else scenario
        return play(subjects, scenario, (), as_json=args.json)
    except (NoFault, CannotLoad) as error:
        refuse(str(error))


def _schedules_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help="what they are played on (E F H F¹ and tasks: K)"
    )
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def _schedules(args: argparse.Namespace) -> int:
    from mrtr_options.show.schedules import show
    from mrtr_options.tool.catalogue import all_options

    played = ["E", "F", "H", "F¹", *("K" for letter in all_options() if letter == "K")]
    return show(_subjects(args.subjects or played), as_json=args.json)


def _slugs(named: str | None, known: Collection[str]) -> list[str]:
    """Those of the known schedules that `--only` names; none if it is left out."""
    if named is None:
        return []
    if not named.strip():
        refuse("--only names no schedule; leave it out for all of them")

    slugs = [slug.strip() for slug in named.split(",")]
    for slug in slugs:
        if slug not in known:
            near = get_close_matches(slug, known, n=3, cutoff=0.6)
            there = f"; there are {', '.join(near)}" if near else ""
            refuse(f"there is no schedule {slug!r}{there}; {_program()} schedules lists them")
    return slugs


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="an option, a Python file, a module, or a URL; URL,URL for instances of one server",
    )
    parser.add_argument("--init", metavar="FILE", help="instead: write an option that passes, to edit")
    parser.add_argument("--ledger", metavar="FILE", help="the SQLite file a running server counts in")
    parser.add_argument("--all", action="store_true", help="every run, not only what was found")
    parser.add_argument("--only", metavar="SCHEDULES", help="make no runs but these: slugs with commas")
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        metavar="N",
        help="how long, from the start, runs are drawn at random; those with names are all made;"
        " 20 without it",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="where runs drawn at random start; 0 without it"
    )
    parser.add_argument(
        "--faults",
        type=int,
        metavar="K",
        help="how many at a time, at most, to see where it hurts; 1 without it, 0 for none",
    )
    parser.add_argument("--html", metavar="FILE", help="write a report with pictures to FILE, too")
    parser.add_argument("--watch", action="store_true", help="again whenever a file beside it is saved")
    parser.add_argument(
        "--hang-seconds",
        type=float,
        default=15.0,
        metavar="N",
        help="how long one request may take before it is called hung; 15 without it",
    )
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def _init(path: Path) -> int:
    from mrtr_options.judge.check import write_skeleton
    from mrtr_options.tool.catalogue import CannotLoad

    try:
        write_skeleton(path)
    except CannotLoad as error:
        refuse(str(error))
    print(f"{path} is written; next: {_program()} check {path}")
    return 0


def _check(args: argparse.Namespace) -> int:
    if (args.target is None) == (args.init is None):
        refuse("check takes one target, as in: check my_option.py; or --init my_option.py to begin one")
    if args.init is not None:
        return _init(Path(args.init))
    html = None if args.html is None else Path(args.html)
    if html is not None and (html.suffix != ".html" or not html.parent.is_dir() or html.is_dir()):
        refuse(f"cannot write {html}: name a file with the suffix .html in a folder that is there")
    if args.watch and "://" in args.target:
        refuse("--watch repeats when a file is saved, and a URL has none; leave one of them out")
    if args.ledger is not None and "://" not in args.target:
        refuse("--ledger goes with a URL; a file is run by check, which counts its effects itself")
    if not 0 <= args.seconds < math.inf:
        refuse("--seconds takes a number of seconds, as in: check my_option.py --seconds 60")
    if args.faults is not None and not 0 <= args.faults <= MOST_FAULTS:
        refuse(TOO_MANY_FAULTS)
    if not 0 < args.hang_seconds < math.inf:
        refuse("--hang-seconds takes a number of seconds over 0, as in: check mine.py --hang-seconds 60")
    from mrtr_options.bench.schedules import SCHEDULES
    from mrtr_options.judge.cases import systematic

    only = _slugs(args.only, [*SCHEDULES, *(each.name for each in systematic())])

    from mrtr_options.bench.remote import CannotReach
    from mrtr_options.judge.check import CannotJudge, file_of
    from mrtr_options.show.check import refuse_to_judge, show
    from mrtr_options.show.watch import watch
    from mrtr_options.tool.catalogue import CannotLoad
    from mrtr_options.tool.weather import LedgerUnusable

    try:
        if args.watch:
            again = [each for each in args.given if each != "--watch"]
            return watch(file_of(args.target), again)
        return show(
            args.target,
            ledger=args.ledger,
            everything=args.all,
            as_json=args.json,
            seconds=args.seconds,
            seed=args.seed,
            hang_seconds=args.hang_seconds,
            faults=args.faults,
            only=only,
            html=html,
        )
    except CannotJudge as error:
        refuse_to_judge(error)
    except (CannotLoad, CannotReach, LedgerUnusable) as error:
        refuse(str(error))


COMMANDS = (
    Command("diff", "what differs between two files, or line counts for all", _diff_arguments, _diff),
    Command(
        "matrix", "every schedule for every option: what really happens", _matrix_arguments, _matrix
    ),
    Command(
        "explore",
        "every set of faults up to a bound: which anomalies, and the smallest witnesses",
        _explore_arguments,
        _explore,
    ),
    Command("play", "one or two options under chosen faults, round by round", _play_arguments, _play),
    Command("schedules", "the faults and the schedules with names", _schedules_arguments, _schedules),
    Command("check", "one proposal through the whole review", _check_arguments, _check),
    Command("serve", "serve one option over HTTP or stdio", _serve_arguments, _serve),
)


COMMAND = "mrtr-options"
"""The name of the installed command."""


def _program() -> str:
    """How it was started, as a user types it."""
    return COMMAND if Path(sys.argv[0]).name == COMMAND else "python -m mrtr_options"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Bad input ends the program with code 2 and one line.

    Args:
        argv: The arguments; None for those of this process.
    """
    parser = Parser(
        prog=_program(),
        description="Without a command: a call, the same with a lost response, every option's bills.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_tour)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        of_command = commands.add_parser(
            command.name, help=command.help, description=command.help, allow_abbrev=False
        )
        command.add_arguments(of_command)
        of_command.set_defaults(run=command.run)
    given = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(given, argparse.Namespace(given=given))
    return run(lambda: args.run(args))


if __name__ == "__main__":
    sys.exit(main())
