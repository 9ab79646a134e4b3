"""Tests on proposals by authors who had read only the contract; some have a bug.

`corpus/` has two correct files; the second one extends the first. `corpus/correct.toml` makes more
correct files, which keep a call in other ways. `corpus/broken.toml` makes the broken ones; it names
the rule that a file breaks, and a case that shows it. `make evidence` plays all.
"""

import tomllib
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.children import Children
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.redeploys import patched
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.cases import at_random, systematic
from mrtr_options.review.check.report import Report
from mrtr_options.tool.catalogue import option_at
from tests.bounds import SECONDS
from tests.evidence import every

CORPUS = Path(__file__).parent / "corpus"
HMAC, TABLE = (
    (CORPUS / name).read_text(encoding="utf-8") for name in ("hmac_json.py", "sqlite_table.py")
)
FILES = {"hmac_json": HMAC, "sqlite_table": f"{HMAC}\n\n{TABLE}"}
MADE: dict[str, dict[str, Any]] = tomllib.loads(
    (CORPUS / "correct.toml").read_text(encoding="utf-8")
)
BROKEN: dict[str, dict[str, Any]] = tomllib.loads(
    (CORPUS / "broken.toml").read_text(encoding="utf-8")
)

BY_FIRST_WORD = {"hmac": "hmac_json", "table": "sqlite_table"}
"""The correct file of broken ones, by the first word of their names, unless that is its name."""

DIFFERENT = ("sqlite_table",)
"""The correct file of `make test`: it extends the other one, and keeps calls in a table."""

BREAKS = (
    "hmac-unfolds-the-state",  # a forged state
    "encrypted-no-caller-may-go-on",  # another user's state
    "table-one-round-for-equal-calls",  # a call that ends with another one
    "table-old-until-swept",  # a state that does not expire
    "hmac-one-bill-a-second",  # a missing bill
    "hmac-audits-stripped",  # an audit of something else
    "hmac-key-in-the-envelope",  # a key that leaks
    "hmac-calls-as-a-resource",  # a leak in what is listed
    "hmac-asserts-the-signature",  # a check that another environment leaves out
    "hmac-canceled",  # a cancellation that does not end the call
)
"""The broken files of `make test`: one for each kind of harm. `test_check` has one that hangs."""

RANDOM = 40
"""The number of randomly drawn cases that `shown_by` can name."""

USUAL: tuple[tuple[str, Era, Literal[1, 2]], ...] = (
    ("clean-springfield", "modern", 1),
    ("duplicate-final", "modern", 1),
    ("every-place", "modern", 1),
    ("bad-answers", "modern", 1),
    ("hostile-locations", "modern", 1),
    ("near-keys", "modern", 1),
    ("attacks-springfield", "modern", 1),
    ("attacks-tokyo", "modern", 1),
    ("bad-states", "modern", 1),
    ("pairs-in-turn-1", "modern", 1),
    ("astray", "modern", 2),
    ("late-elsewhere", "modern", 2),
    ("restart-same", "modern", 1),
    ("slow-bill-beside", "modern", 1),
    ("legacy", "legacy", 1),
    ("legacy-waits", "legacy", 1),
    ("legacy-stays", "legacy", 1),
    ("legacy-at-once", "legacy", 1),
    ("legacy-thinks", "legacy", 1),
    ("crash@bill3", "modern", 1),
    ("down@bill3", "modern", 1),
)


def case_of(slug: str, era: Era, instances: Literal[1, 2] = 1) -> Scenario:
    """Return a case by its name; a name with "@" is a fault that the usual client meets."""
    if "@" in slug:
        return calling("Springfield", "one" if instances == 1 else "sticky", era=era).under(
            parse(slug)
        )
    found = [
        case
        for case in (*systematic(), *islice(at_random(0), RANDOM))
        if (case.name, case.setup.era, case.instances) == (slug, era, instances)
    ]
    if found:
        return found[0]
    return named(slug, era).on_one() if instances == 1 else named(slug, era)


def source_of(name: str) -> str:
    """Return the source of a proposal."""
    if name in FILES:
        return FILES[name]
    change = (MADE | BROKEN)[name]
    first = name.partition("-")[0]
    of = change["of"] if name in MADE else BY_FIRST_WORD.get(first, first)
    return patched(source_of(of), change["diff"], f"[{name}]")


async def broken_rules(name: str, folder: Path, cases: list[Scenario]) -> set[str]:
    """Return the rules that `check` reports of a proposal, without what follows from others."""
    file = folder / f"{name}.py"
    file.write_text(source_of(name), encoding="utf-8")
    subject = Subject(option_at(file))
    report = Report(name)
    with scratch() as shared, anyio.fail_after(SECONDS):
        children = Children(subject.option, shared)
        async with children.running():
            for case in cases:
                report.hold(await run(subject, case, children))
    return {each.rule for each in (*report.breaches, *report.departures)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", every("correct files of the corpus", {name: name for name in FILES | MADE}, DIFFERENT)
)
def test_a_correct_file_is_not_accused(name: str, tmp_path: Path) -> None:
    rules = anyio.run(broken_rules, name, tmp_path, [case_of(*usual) for usual in USUAL])
    assert not rules, f"this file is correct, but check found that it breaks {rules}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", every("broken files of the corpus", {name: name for name in BROKEN}, BREAKS)
)
def test_a_broken_file_is_told_the_rule_that_it_breaks(name: str, tmp_path: Path) -> None:
    rule = BROKEN[name]["rule"]
    case = case_of(*BROKEN[name]["shown_by"])
    rules = anyio.run(broken_rules, name, tmp_path, [case])
    assert rule in rules, f"this file breaks {rule}, but check found {rules or 'nothing'}"
