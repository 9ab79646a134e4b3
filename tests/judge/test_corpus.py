"""Proposals by authors who had read nothing but the contract: correct ones, and ones with one bug each.

`corpus/` has correct files for each way to keep a call; `corpus/broken.toml` the broken ones, each as
an edit to one of them with the rule that it breaks and a case that shows it. `make evidence` plays all.
"""

from __future__ import annotations

import tomllib
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from mrtr_options.bench.deployments.children import Children
from mrtr_options.bench.faults import Era
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import Scenario
from mrtr_options.bench.schedules import named
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge.cases import at_random, systematic
from mrtr_options.judge.contract import violations
from mrtr_options.tool.catalogue import option_at
from tests.bounds import SECONDS
from tests.evidence import every

CORPUS = Path(__file__).parent / "corpus"
CORRECT = sorted(CORPUS.glob("*.py"))
BROKEN: list[dict[str, Any]] = tomllib.loads((CORPUS / "broken.toml").read_text(encoding="utf-8"))[
    "broken"
]

DIFFERENT = {
    "encrypted": "a state that only the server can read",
    "sqlite_table": "a table on the server, and a handle in the state",
    "threaded": "threads, and calls that block",
}
"""The correct files of `make test`, and how each differs from the others."""

BREAKS = (
    "hmac-unfolds-the-state",  # a forged state
    "encrypted-no-caller-may-go-on",  # another user's state
    "table-one-round-for-equal-calls",  # a call that ends with another one
    "table-old-until-swept",  # a state that does not expire
    "hmac-one-bill-a-second",  # a bill too few
    "hmac-audits-stripped",  # an audit of something else
    "hmac-key-in-the-envelope",  # a key that leaks
    "hmac-canceled",  # a cancellation that does not end the call
)
"""The broken files of `make test`: one for each kind of harm. What hangs is in `test_check`."""

RANDOM = 40
"""How many cases drawn at random may be named."""

USUAL: tuple[tuple[str, Era], ...] = (
    ("clean-springfield", "modern"),
    ("duplicate-final", "modern"),
    ("every-place", "modern"),
    ("bad-answers", "modern"),
    ("legacy", "legacy"),
)


def case_of(slug: str, era: Era, instances: Literal[1, 2] = 1) -> Scenario:
    """A case by its name."""
    found = [
        case
        for case in (*systematic(), *islice(at_random(0), RANDOM))
        if (case.name, case.setup.era, case.instances) == (slug, era, instances)
    ]
    if found:
        return found[0]
    return named(slug, era).on_one() if instances == 1 else named(slug, era)


async def broken_rules(file: Path, cases: list[Scenario]) -> set[str]:
    """The rules that a file breaks when it is run as `check` runs it."""
    subject = Subject(option_at(file))
    found: set[str] = set()
    with scratch() as folder, anyio.fail_after(SECONDS):
        children = Children(subject.option, folder)
        async with children.running():
            for case in cases:
                history = await run(subject, case, children)
                found |= {each.property for each in violations(history)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", every("correct files of the corpus", {file.stem: file for file in CORRECT}, DIFFERENT)
)
def test_a_correct_file_is_not_accused(file: Path) -> None:
    rules = anyio.run(broken_rules, file, [case_of(*usual) for usual in USUAL])
    assert not rules, f"it is said to be correct, and breaks {rules}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", every("broken files of the corpus", {each["name"]: each for each in BROKEN}, BREAKS)
)
def test_a_broken_file_is_told_the_rule_that_it_breaks(broken: dict[str, Any], tmp_path: Path) -> None:
    case = case_of(*broken["shown_by"])
    source = (CORPUS / broken["file"]).read_text(encoding="utf-8")
    assert source.count(broken["old"]) == 1
    file = tmp_path / broken["file"]
    file.write_text(source.replace(broken["old"], broken["new"]), encoding="utf-8")
    rules = anyio.run(broken_rules, file, [case])
    assert broken["rule"] in rules, f"it is said to break {broken['rule']}, and breaks {rules or 'none'}"
