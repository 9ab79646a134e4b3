"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mrtr_options.names import nearest
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.terminal import PROGRAM, refuse

if TYPE_CHECKING:
    from mrtr_options.review.bench.scenario import Scenario
    from mrtr_options.review.bench.subjects import Subject
    from mrtr_options.tool.weather import Destination

IN_WRAPPERS = "in wrappers: F+guard, F+guard+named, F+legacy-shim, F+call-key, L+temporal"

CLIENTS = {name.replace(" ", "-"): name for name in POLICIES}
"""The clients' policies after a lost response, as they are typed; today's first."""

CLIENTS_SAY = "; ".join(policy.says for policy in POLICIES.values())

DESTINATIONS: dict[str, Destination] = {
    "ignores-keys": "ignores keys",
    "honours-keys": "honours keys",
    "business-key": "business key",
}
"""The destinations of effects, as they are typed."""

MOST_FAULTS = 4
TOO_MANY_FAULTS = (
    f"--faults takes a number from 0 to {MOST_FAULTS}; each one more takes about forty times as"
    " long"
)


def add_form(parser: argparse.ArgumentParser, *, markdown: bool = False) -> None:
    """Add `--json`, which may also stand before the command, and perhaps `--markdown`."""
    parser.set_defaults(prints_json=True)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    if markdown:
        form.add_argument("--markdown", action="store_true", help="print tables in Markdown")


def add_setup(parser: argparse.ArgumentParser, *destinations: str) -> None:
    """Add the options for the setup of a call, and its location.

    Args:
        parser: The command's parser.
        destinations: Values of `--destination` besides those of `DESTINATIONS`.
    """
    parser.add_argument(
        "--fleet",
        choices=("one", "sticky", "free"),
        default="sticky",
        help="one instance; two, each round to the one that asked (default); two, used in turn",
    )
    parser.add_argument(
        "--era", choices=("modern", "legacy"), default="modern", help="the client's era"
    )
    parser.add_argument(
        "--location",
        default="Springfield",
        choices=("Tokyo", "Springfield"),
        help="Tokyo: one question; Springfield: two",
    )
    parser.add_argument(
        "--destination",
        choices=(*DESTINATIONS, *destinations),
        default="ignores-keys",
        help="of an effect that it has seen, it does another one (default), absorbs one with the"
        " same idempotency key, or absorbs one about the same thing",
    )


def add_extent(parser: argparse.ArgumentParser) -> None:
    """Add the faults and the client that an exploration tries if it is asked to."""
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        choices=("unsure",),
        help="also try effects that take place and are reported as failed",
    )
    add_words(parser)


def add_words(parser: argparse.ArgumentParser) -> None:
    """Add the words of a client that calls again."""
    parser.add_argument(
        "--words",
        choices=("same", "other"),
        default="same",
        help="a client that calls again does it in the same words (default) or in other ones",
    )


def form_of(args: argparse.Namespace) -> Literal["text", "json", "markdown"]:
    """Return the form in which a command prints."""
    if args.json:
        return "json"
    return "markdown" if args.markdown else "text"


def call_of(args: argparse.Namespace, policy: str, destination: Destination) -> Scenario:
    """Return the call without faults that `add_setup` and `add_words` describe."""
    from mrtr_options.review.bench.scenario import calling

    call = calling(args.location, args.fleet, policy, args.era, destination=destination)
    return call.in_words(args.words)


def asked_kinds(names: Collection[str]) -> tuple[str, ...]:
    """Return the kinds of faults that `--also` names."""
    from mrtr_options.review.bench.faults import ASKED

    return tuple(kind for kind in ASKED if kind.partition("@")[0] in names)


def parse_slugs(named: str | None, known: Collection[str]) -> list[str]:
    """Return the schedules that `--only` names; none if it is left out."""
    if named is None:
        return []

    found = [slug.strip() for slug in named.split(",")]
    for slug in found:
        if slug not in known:
            refuse_if_played(slug)
            there = nearest(slug, known) or f"{PROGRAM} schedules lists them"
            refuse(f"there is no schedule {slug!r}; {there}")
    return found


def refuse_if_played(name: str) -> None:
    """End the command if a name is that of a schedule or a fault, and say how it is played."""
    from mrtr_options.review.bench.faults import PLAYABLE
    from mrtr_options.review.bench.schedules import SCHEDULES

    kind = name.rstrip("0123456789.")
    if name in SCHEDULES:
        refuse(f"{name} is a schedule; write {PROGRAM} play E {name}")
    if kind in PLAYABLE:
        refuse(f"{name} is a fault; write {PROGRAM} play E --faults {kind}{name[len(kind) :] or 3}")


def find_subjects(names: Sequence[str], *, or_one_of: Collection[str] = ()) -> list[Subject]:
    """Return the subjects of some names.

    A file is tried first: a file that hangs, or ends the process it runs in, is refused.

    Args:
        names: The names as they are typed.
        or_one_of: Other names that a name may have been meant for.
    """
    from mrtr_options.review.bench.subjects import subject_named
    from mrtr_options.tool.catalogue import CannotLoad

    found: list[Subject] = []
    for name in names:
        try:
            found.append(subject_named(name))
        except CannotLoad as error:
            refuse_if_played(name)
            near = nearest(name, or_one_of)
            refuse(f"there is no option or schedule {name!r}; {near}" if near else str(error))
    foreign = [each.option.path for each in found if each.option.is_foreign]
    if foreign:
        import anyio

        from mrtr_options.review.check.targets import try_file

        for path in foreign:
            anyio.run(try_file, path)
    return found


def print_left_out() -> None:
    """Say on standard error which options are left out for lack of an extra."""
    from mrtr_options.tool.catalogue import lacking

    for reason in lacking():
        print(f"left out: {reason}", file=sys.stderr)


def write_new(path: Path, text: str, example: str) -> None:
    """Write a Python file that is not there yet.

    Args:
        path: The file.
        text: The text of the file.
        example: The command as it should be written, shown where the name cannot be used.
    """
    if path.suffix != ".py":
        refuse(f"{str(path)!r} is not a file name that ends in .py; write {example}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        refuse(f"{path} is there already; name a new file")
    except OSError as error:
        refuse(f"cannot write {path}: {error.strerror}")
