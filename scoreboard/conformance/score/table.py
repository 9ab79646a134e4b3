"""The kept results of docs/data/suite-score.json, and the tables that are made from them.

Knows `requirements.toml`, the mutants and their code; runs nothing, so it needs no npm.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mrtr_options.review.explore.kept import KeptFile, digest_of
from mrtr_options.terminal import markdown
from scoreboard.conformance.report import SUITE
from scoreboard.conformance.score import client, correct
from scoreboard.conformance.score.client import CLIENTS
from scoreboard.conformance.score.mutants import MUTANTS
from scoreboard.conformance.score.others import OTHERS

FOLDER = Path(__file__).parents[1]
REQUIREMENTS = FOLDER / "requirements.toml"
ROOT = FOLDER.parents[1]
RESULTS = ROOT / "docs" / "data" / "suite-score.json"
SPECIFICATION = "https://modelcontextprotocol.io/specification/2026-07-28/"

SCENARIOS = FOLDER / "scenarios" / "input-required-result-conduct.ts"

CLIENT_SCENARIO = SCENARIOS.with_name("mrtr-client-conduct.ts")

Side = Literal["server", "client", "proposed", "proposed_client"]
"""Servers and clients under the published suite, and both under the proposed scenarios."""

_SERVERS = {"correct": correct.Fixture, **MUTANTS, **OTHERS}

PROGRAMS: dict[Side, Mapping[str, type]] = {
    "server": _SERVERS,
    "client": CLIENTS,
    "proposed": _SERVERS,
    "proposed_client": CLIENTS,
}
"""The correct server and client, and their mutants, by name."""

BAD = ("FAILURE", "WARNING")

SECTIONS = {
    "basic/patterns/mrtr": "mrtr",
    "client/elicitation": "elicitation",
    "server/tools": "tools",
    "basic/index": "responses",
}
"""The section of each page of the specification; the other pages are about lost streams."""

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT"]


def keyword_in(row: dict[str, Any]) -> Level:
    """Return the keyword of a sentence."""
    (found,) = re.findall(r"\b(?:MUST|SHOULD)(?: NOT)?\b", row["text"])
    return found


class Requirement(BaseModel):
    """A sentence of the specification; `requirements.toml` says what each field is."""

    model_config = ConfigDict(extra="forbid")

    id: str
    who: Literal["server", "client"]
    anchor: str
    text: str
    level: Level = Field(default_factory=keyword_in)
    check: str = ""
    mutant: str = ""
    other: str = ""
    harm: str = ""
    repeats: str = ""
    why: str = ""

    @property
    def section(self) -> str:
        """The section of the score that it counts in."""
        return SECTIONS.get(self.anchor.partition("#")[0], "lost streams")


class Outcome(BaseModel):
    """The suite's result for a program.

    Attributes:
        code: The digest of the program's code and the suite's version.
        checks: The worst status of each check, by its id. For a mutant, only the checks that differ
            from those of the correct program.
    """

    code: str
    checks: dict[str, str]


class SuiteRuns(BaseModel):
    """The runs of every program, by its side and name."""

    suite: str = SUITE
    server: dict[str, Outcome] = {}
    client: dict[str, Outcome] = {}
    proposed: dict[str, Outcome] = {}
    proposed_client: dict[str, Outcome] = {}

    def of(self, side: Side) -> dict[str, Outcome]:
        return getattr(self, side)

    def found_by(self, side: Side, name: str) -> list[str]:
        """Return the checks that find a mutant.

        They fail or warn for the mutant, and not for the correct program.
        """
        before = self.of(side)["correct"].checks
        checks = self.of(side)[name].checks
        return sorted(
            check
            for check, status in checks.items()
            if status in BAD and before.get(check) not in BAD
        )


KEPT = KeptFile(RESULTS, SuiteRuns)
"""The kept results."""


def proposed_checks() -> dict[str, tuple[str, Requirement]]:
    """Return each check of the proposed scenarios: its negative fixture, and what it holds."""
    kept = tomllib.loads(SCENARIOS.with_name("sep-2322-conduct.toml").read_text(encoding="utf-8"))
    by_id = {row.id: row for row in requirements()}
    by_fixture = {name: row for row in requirements() for name in (row.mutant, row.other)}
    return {
        check: (fixture, by_id[held[0]] if held else by_fixture[fixture])
        for check, (fixture, *held) in kept.items()
    }


def traceability() -> str:
    """Return the rows of these checks, in the form of the suite's `src/seps/*.yaml`."""
    return "\n".join(
        f"  - check: {check}\n    text: {json.dumps(row.text, ensure_ascii=False)}\n"
        f"    url: {SPECIFICATION}{row.anchor}"
        for check, (_, row) in proposed_checks().items()
    )


@cache
def requirements() -> list[Requirement]:
    """Return the table's rows, in the order of the pages."""
    rows = tomllib.loads(REQUIREMENTS.read_text(encoding="utf-8"))
    return [Requirement(id=name, **row) for name, row in rows.items()]


def read() -> SuiteRuns:
    """Return the kept results."""
    return KEPT.read()


def code_of(side: Side, name: str) -> str:
    """Return the digest of a program; the correct program, the mutant and the suite change it."""
    whole = inspect.getsource(client.Client if side.endswith("client") else correct)
    if side.startswith("proposed"):
        whole += (CLIENT_SCENARIO if side.endswith("client") else SCENARIOS).read_text(
            encoding="utf-8"
        )
    parts = [SUITE, whole, *(inspect.getsource(of) for of in PROGRAMS[side][name].__mro__[:-2])]
    return digest_of("\n".join(parts))


# --- the page -----------------------------------------------------------------------------------


def broken(side: Side) -> list[Requirement]:
    """Return the rows of one side that have a mutant."""
    who = "client" if side.endswith("client") else "server"
    return [row for row in requirements() if row.who == who and row.mutant]


def of(found: Iterable[bool]) -> str:
    """Return how many of these are true, as in "3 of 5"; empty without any."""
    each = list(found)
    return f"{each.count(True)} of {len(each)}" if each else ""


PROPOSED: dict[Literal["server", "client"], Side] = {
    "server": "proposed",
    "client": "proposed_client",
}
"""The proposed scenarios of each side."""


def found_of(kept: SuiteRuns, programs: Iterable[tuple[str, Requirement]]) -> tuple[str, str]:
    """Return how many of some programs the suite finds, without and with the proposed scenarios.

    Args:
        kept: The kept results.
        programs: The programs, by name, with the sentence that each breaks.
    """
    found = [
        [bool(kept.found_by(side, name)) for side in (row.who, PROPOSED[row.who])]
        for name, row in programs
    ]
    return of(published for published, _ in found), of(map(any, found))


def mutants_found(kept: SuiteRuns, rows: Iterable[Requirement]) -> tuple[str, str]:
    """Return how many mutants of some sentences the suite finds; see `found_of`."""
    return found_of(kept, ((row.mutant, row) for row in rows))


def scores(kept: SuiteRuns) -> str:
    """Return a table of the score by section."""

    def cells(rows: list[Requirement]) -> list[str]:
        server = [row for row in rows if row.who == "server"]
        must = [row for row in server if row.level.startswith("MUST")]
        should = [row for row in server if row not in must]
        clients = [row for row in rows if row.who == "client"]
        published, with_ours = mutants_found(kept, server)
        levels = (mutants_found(kept, part)[0] for part in (must, should))
        return [published, *levels, with_ours, *mutants_found(kept, clients)]

    rows = [*broken("server"), *broken("client")]
    sections = dict.fromkeys(row.section for row in requirements())
    lines = [[name, *cells([row for row in rows if row.section == name])] for name in sections]
    lines.append(["**all**", *cells(rows)])
    head = (
        "servers found",
        "MUST",
        "SHOULD",
        "with the proposed scenarios",
        "clients found",
        "with the proposed scenario",
    )
    return markdown(("section", *head), lines)


def mutants(kept: SuiteRuns, who: Literal["server", "client"]) -> str:
    """Return a table of the mutants of one side, with the checks that find each.

    It goes page by page, the sentences with MUST first.
    """
    pages = [*dict.fromkeys(row.section for row in requirements())]
    rows = sorted(
        broken(who), key=lambda row: (pages.index(row.section), row.level.startswith("SHOULD"))
    )
    return _table(kept, who, {row.mutant: row for row in rows})


def others(kept: SuiteRuns) -> str:
    """Return a table of the servers that break a sentence in another way than its mutant."""
    return _table(kept, "server", _rows_of_others())


def _rows_of_others() -> dict[str, Requirement]:
    rows = {row.other: row for row in requirements() if row.other}
    return {name: rows[name] for name in OTHERS}


def _table(
    kept: SuiteRuns, who: Literal["server", "client"], rows: Mapping[str, Requirement]
) -> str:
    """Return a table of programs, by name, that each break a sentence."""
    return markdown(
        ("sentence", "level", f"the {who}", "published suite", "proposed scenarios"),
        (
            [
                f"[{row.id}]({SPECIFICATION}{row.anchor})",
                row.level,
                " ".join((PROGRAMS[row.who][name].__doc__ or "").split()),
                _found(kept, row.who, name),
                _found(kept, PROPOSED[row.who], name),
            ]
            for name, row in rows.items()
        ),
    )


def _found(kept: SuiteRuns, side: Side, name: str) -> str:
    """Return the first check that finds a program, and the number of the others."""
    first, *more = kept.found_by(side, name) or [""]
    if not first:
        return "no"
    return f"`{first}`" + (f" +{len(more)}" if more else "")


def idle(kept: SuiteRuns, side: Side) -> str:
    """Return the checks that pass on the correct program and fail on no mutant."""
    worked = {each for row in broken(side) for each in kept.found_by(side, row.mutant)}
    checks = kept.of(side)["correct"].checks
    found = sorted(each for each in checks if checks[each] == "SUCCESS" and each not in worked)
    return ", ".join(f"`{each}`" for each in found) + "."


def unseen() -> str:
    """Return a table of the sentences that cannot be broken visibly, by their reason."""
    reasons = Counter(row.why for row in requirements() if row.why)
    return markdown(
        ("sentences", "why"), ([str(count), why] for why, count in reasons.most_common())
    )


def numbers(kept: SuiteRuns) -> str:
    """Return the score in a few sentences."""
    server, more = mutants_found(kept, broken("server"))
    clients, more_clients = mutants_found(kept, broken("client"))
    on_page, _ = mutants_found(kept, (row for row in broken("server") if row.section == "mrtr"))
    unknown, unknown_more = found_of(kept, _rows_of_others().items())
    rows = requirements()
    with_mutant = len([row for row in rows if row.mutant])
    repeated = len([row for row in rows if row.repeats])
    invisible = len([row for row in rows if row.why])
    return (
        f"**On the page on multi-round requests the suite {kept.suite} finds {on_page} broken"
        f" servers; of all pages here, {server} servers and {clients} clients.**"
        f" With the proposed scenarios, which were written for these mutants, it finds {more} and"
        f" {more_clients}."
        f" Of ten servers that the scenarios were not written for, the suite finds {unknown}, and"
        f" {unknown_more} with them."
        f" Of {len(rows)} sentences, {with_mutant} have a mutant, {repeated} repeat another one,"
        f" and {invisible} cannot be seen to be broken."
    )


def failed_by_correct(kept: SuiteRuns) -> str:
    """Return a sentence with the checks that the correct server itself fails."""
    checks = kept.of("server")["correct"].checks
    failed = sorted(name for name, status in checks.items() if status == "FAILURE")
    names = ", ".join(f"`{name}`" for name in failed)
    return (
        f"The correct server itself fails {len(failed)} of the {len(checks)} checks that the"
        f" published suite makes on it; a mutant counts by what it fails beside these: {names}."
    )


if __name__ == "__main__":
    print(traceability())
