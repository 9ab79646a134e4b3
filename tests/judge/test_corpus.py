"""Proposals by authors who had read nothing but the contract: correct ones, and ones with one bug each.

`corpus/` has the correct files. `corpus/broken.toml` has the broken ones, each as an edit to one of them
with the rule that it breaks and a case that shows it. `make test` plays a sample, `pytest -m whole
tests/judge/test_corpus.py` the rest.
"""

from __future__ import annotations

import tomllib
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from mrtr_options.bench.children import Children
from mrtr_options.bench.history import Era
from mrtr_options.bench.player import play
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.judge.cases import Case, at_random, systematic
from mrtr_options.judge.contract import violations
from mrtr_options.tool.catalogue import option_at
from tests.bounds import SECONDS

CORPUS = Path(__file__).parent / "corpus"
CORRECT = sorted(CORPUS.glob("*.py"))
BROKEN: list[dict[str, Any]] = tomllib.loads((CORPUS / "broken.toml").read_text(encoding="utf-8"))[
    "broken"
]

EVERY_CORRECT, EVERY_BROKEN = 14, 12
"""Which files are in the sample: each fourteenth, each twelfth."""

RANDOM = 40
"""How many cases drawn at random may be named."""

USUAL: tuple[tuple[str, Era], ...] = (
    ("clean-springfield", "modern"),
    ("duplicate-final", "modern"),
    ("every-place", "modern"),
    ("bad-answers", "modern"),
    ("legacy", "legacy"),
)


def sampled(files: list[Any], every: int) -> list[Any]:
    """The files as parameters, all but a few of them with the mark of the whole corpus."""
    return [
        pytest.param(file, marks=[] if number % every == every - 1 else pytest.mark.whole)
        for number, file in enumerate(files)
    ]


def case_of(slug: str, era: Era, instances: Literal[1, 2] = 1) -> Case:
    """A case by its name."""
    found = [
        case
        for case in (*systematic(), *islice(at_random(0), RANDOM))
        if (case.schedule.slug, case.era, case.instances) == (slug, era, instances)
    ]
    return found[0] if found else Case(SCHEDULES[slug], era, instances)


async def broken_rules(file: Path, cases: list[Case]) -> set[str]:
    """The rules that a file breaks when it is run as `check` runs it."""
    column = Column(option_at(file))
    found: set[str] = set()
    with scratch() as folder, anyio.fail_after(SECONDS):
        children = Children(column.option, folder)
        async with children.running():
            for case in cases:
                deployment = await children.deployment(
                    case.instances, honours_keys=case.schedule.honours_keys
                )
                history = await play(case.schedule, case.era, deployment, column)
                found |= {each.rule for each in violations(history)}
    return found


def test_there_are_twenty_correct_files_and_more_than_forty_broken_ones() -> None:
    assert (len(CORRECT), len(BROKEN) > 40) == (20, True)
    assert len({each["name"] for each in BROKEN}) == len(BROKEN)


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(CORRECT, EVERY_CORRECT), ids=lambda file: file.stem)
def test_a_correct_file_is_not_accused(file: Path) -> None:
    assert anyio.run(broken_rules, file, [case_of(*usual) for usual in USUAL]) == set()


@pytest.mark.slow
@pytest.mark.parametrize("broken", sampled(BROKEN, EVERY_BROKEN), ids=lambda broken: broken["name"])
def test_a_broken_file_is_told_the_rule_that_it_breaks(broken: dict[str, Any], tmp_path: Path) -> None:
    case = case_of(*broken["shown_by"])
    source = (CORPUS / broken["file"]).read_text(encoding="utf-8")
    assert source.count(broken["old"]) == 1
    file = tmp_path / broken["file"]
    file.write_text(source.replace(broken["old"], broken["new"]), encoding="utf-8")
    assert broken["rule"] in anyio.run(broken_rules, file, [case])
