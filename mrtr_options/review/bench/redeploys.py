"""The next version of an option file, which its author deploys while calls are in flight.

Next versions are kept as diffs, a file for each option and in it a table for each change
(`next_versions_of`). What has none for a change is not tried under that change, and everything that
prints results says so (`why_not`). Only what modern clients see is changed: no legacy call stays
open during a redeploy.

Knows `weather`, which some changes replace.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import mcp_types as types
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from mrtr_options.review.bench.messages import Form, form_of
from mrtr_options.review.bench.steps import Change
from mrtr_options.sdk.handler import first_error
from mrtr_options.sdk.questions import Question, request_for
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import DECK, CannotLoad, Option
from mrtr_options.tool.guarantees import read_toml

KEPT = Path(__file__).with_name("next_versions")
"""The next versions of the options of this package, a file for each."""

ALL = KEPT / "all.toml"
"""What is the same for every option that has a file there."""

# --- the next version of the domain -------------------------------------------------------------


class Consent(BaseModel):
    """Answer to `may_bill`. Its only choice is filled in: whoever accepts the form consents."""

    consent: Literal["yes"] = "yes"


def may_bill(place: str) -> weather.Question[Consent]:
    """Question "consent", which `inserted` puts before the units."""
    return weather.Question("consent", f"The report for {place} is billed. Go on?", Consent)


def _units_reworded(
    place: str, *, unasked: Literal["metric"] | None = None
) -> weather.Question[weather.UnitsAnswer]:
    was = weather.which_units(place, unasked=unasked)
    return replace(was, message=f"Report {place} in which units?")


_choices: Any = Literal["metric", "imperial", "kelvin"]
_UnitsWithKelvin = create_model("Units", __base__=weather.UnitsAnswer, units=(_choices, ...))


def _units_with_kelvin(
    place: str, *, unasked: Literal["metric"] | None = None
) -> weather.Question[weather.UnitsAnswer]:
    return replace(weather.which_units(place, unasked=unasked), answer=_UnitsWithKelvin)


def _report_with_kelvin(place: str, answer: weather.UnitsAnswer) -> str:
    if str(answer.units) != "kelvin":
        return weather.report(place, answer)
    today = weather.REPORTS[place]
    return f"{place}: {today.celsius + 273} K, {today.sky}."


def _first_place(location: str) -> str:
    return weather.places_named(location)[0]


def _domain(**changed: Any) -> ModuleType:
    module = ModuleType(weather.__name__)
    module.__dict__.update({**vars(weather), **changed})
    return module


DOMAINS: dict[Change, ModuleType] = {
    "reworded": _domain(which_units=_units_reworded),
    "schema": _domain(which_units=_units_with_kelvin, report=_report_with_kelvin),
    "removed": _domain(only_place=_first_place),
}
"""The replacements of `weather` in the next versions that change the domain itself.

The stored diffs import them, as well as `Consent` and `may_bill`.
"""

DOMAIN_DIFF = """\
-from mrtr_options.tool import weather
+from mrtr_options.review.bench.redeploys import DOMAINS
+
+weather = DOMAINS["{}"]
"""
"""The diff with which an option of the deck takes one of them."""


def questions(change: Change | None, location: str, place: str) -> dict[str, Form]:
    """Return the questions of a version in a clean call, by key.

    Args:
        change: The change that makes the version; None for the file as it is.
        location: The tool's argument.
        place: The place that the user means.
    """
    found: list[Question[BaseModel]] = []
    if change != "removed" and weather.only_place(location) is None:
        found.append(weather.which_place(location))
    if change == "inserted":
        found.append(may_bill(place))
    if change == "reworded":
        found.append(_units_reworded(place))
    elif change == "schema":
        found.append(_units_with_kelvin(place))
    else:
        found.append(weather.which_units(location if change == "reordered" else place))
    return {question.key: _form_of(request_for(question)) for question in found}


def _form_of(request: types.InputRequest) -> Form:
    assert isinstance(request.params, types.ElicitRequestFormParams)
    return form_of(request.params.message, request.params.requested_schema)


# --- the next version of a file -----------------------------------------------------------------


def next_versions_of(option: Option) -> Path:
    """Return the file with an option's next versions, which need not be there.

    `next_versions/n.toml` has those of option N, beside the ones in `all.toml`, and
    `my_option.next.toml` beside `my_option.py` has those of a stranger's file.
    """
    if option.path.parent == DECK:
        return KEPT / f"{option.letter.lower()}.toml"
    return option.path.with_suffix(".next.toml")


def next_versions(option: Option) -> str:
    """Return the text of the files with an option's next versions; "" if it has no file."""
    kept = next_versions_of(option)
    if not kept.is_file():
        return ""
    return "".join(each.read_text(encoding="utf-8") for each in _files_at(kept))


def _files_at(kept: Path) -> list[Path]:
    return [ALL, kept] if kept.parent == KEPT else [kept]


def source(option: Option, change: Change) -> str | None:
    """Return the next version of an option's file; None if there is none."""
    return _made(option, change).source


def why_not(option: Option, changes: Iterable[Change]) -> str:
    """Say why one of some changes has no next version, and what to add; "" if each has one."""
    for change in sorted(changes):
        missing = _made(option, change).missing
        if missing:
            return missing
    return ""


def write(option: Option, change: Change, folder: Path) -> Path:
    """Write the next version of an option's file to a folder, beside links to what comes with it.

    Raises:
        ValueError: There is no next version with this change.
    """
    version = _made(option, change)
    if version.source is None:
        raise ValueError(version.missing)
    # Names derived from the module's (I's keys) change where that is the change, and nowhere else.
    name = option.path.name if change != "renamed" else f"renamed_{option.path.name}"
    path = folder / change / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(version.source, encoding="utf-8")
        if option.is_foreign:
            _link_neighbours(option.path.absolute(), path)
    return path


def _link_neighbours(file: Path, version: Path) -> None:
    """Link what stands beside a file to the folder of its next version: the file may read it."""
    for each in file.parent.iterdir():
        if each.name != version.name:
            (version.parent / each.name).symlink_to(each)


@dataclass(frozen=True)
class _Version:
    """A next version of a file.

    Attributes:
        source: Its text; None if there is none.
        missing: The reason why there is none, and what to add.
    """

    source: str | None
    missing: str = ""


class _NextVersion(BaseModel):
    """A table of a file of next versions."""

    model_config = ConfigDict(strict=True, extra="forbid")

    diff: str


_TABLES = TypeAdapter(dict[Change, _NextVersion])


@cache
def _made(option: Option, change: Change) -> _Version:
    kept = next_versions_of(option)
    in_deck = kept.parent == KEPT
    title = f"option {option.letter}" if in_deck else option.path.name
    where = kept.relative_to(DECK.parent).as_posix() if in_deck else kept.name
    if not option.path.is_file():
        return _Version(None, f"the file of {title} is not here")  # a server reached by URL
    if not kept.is_file():
        return _Version(None, f"no next version of {title} is kept; add {where}")
    tables = {change: DOMAIN_DIFF.format(change) for change in DOMAINS} if in_deck else {}
    for file in _files_at(kept):
        tables |= read(file)
    if change not in tables:
        missing = f"no next version of {title} is kept for it; add [{change}] to {where}"
        return _Version(None, missing)
    place = f"{where}: in [{change}]"
    try:
        source = patched(option.source, tables[change], place)
        ast.parse(source, place)
    except (CannotPatch, SyntaxError) as error:
        return _Version(None, f"the next version of {title} does not fit: {error}")
    return _Version(source)


def read(path: Path) -> dict[Change, str]:
    """Read the diffs of a file of next versions, by change.

    Raises:
        CannotLoad: It cannot be read, or a table is not a change with a diff.
    """
    try:
        tables = _TABLES.validate_python(read_toml(path))
    except ValidationError as error:
        raise CannotLoad(f"{path}: {first_error(error)}") from error
    return {change: table.diff for change, table in tables.items()}


# --- diffs --------------------------------------------------------------------------------------


class CannotPatch(ValueError):
    """A diff that does not fit the text that it is to change. The text is one line."""


def patched(source: str, diff: str, name: str) -> str:
    """Apply changes as `diff -u` prints them, without line numbers.

    Args:
        source: The text to change.
        diff: The changes. A line that begins with "@@" starts another place.
        name: The name of the changes, for the error.

    Raises:
        CannotPatch: A place is not found exactly once.
    """
    source = f"\n{source}\n"  # the first and the last line are lines, too
    for place in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [line or " " for line in place.splitlines()]
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        times = source.count(f"\n{before}")
        if times != 1:
            raise CannotPatch(f"{name} this is found {times} times, not once: {before!r}")
        source = source.replace(f"\n{before}", f"\n{after}")
    return source[1:-1]
