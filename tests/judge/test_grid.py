"""Tests of the matrix: the rows that documents quote, and the guarantees of every option."""

from typing import Any

import anyio
import pytest

from mrtr_options.review.bench.deployments.memory import Memory
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import Subject, all_subjects
from mrtr_options.review.judge import grid, guarantees
from mrtr_options.review.judge.observation import Observation, Outcome
from tests.evidence import every

SUBJECTS = {each.name: each for each in all_subjects()}
ONE_OF_EACH = ("F", "H", "J+guard")
"""The columns of `make test`: markers, a frame, and the guard."""


@pytest.fixture(scope="module")
def observations() -> list[Observation]:
    """Play a few schedules of two options."""
    few = [SCHEDULES[slug] for slug in ("lost-final", "crash-after-effect")]
    return anyio.run(grid.run, grid.cells([SUBJECTS["E"], SUBJECTS["G+guard"]], schedules=few))


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", every("every run of the matrix, by subject", SUBJECTS, ONE_OF_EACH)
)
def test_no_run_of_a_column_refutes_a_guarantee(subject: Subject) -> None:
    seen = anyio.run(grid.run, grid.cells([subject]))
    assert grid.describe_broken(subject, grid.judge(subject, seen)) == []
    own = guarantees.guarantees_of(subject)
    assert own is not None
    assert len(guarantees.find_kept(seen, guarantees.declared(own), own)) >= 10


def test_a_crash_under_the_guard_has_an_open_end_and_one_run(
    observations: list[Observation],
) -> None:
    found = {(each.subject, each.schedule, each.deployment): each for each in observations}
    seen = found["G+guard", "crash-after-effect", "two"]
    assert seen.outcome == "refused"
    assert seen.code == -32001
    assert seen.effects == {"audit": 1, "bill": 1}
    assert seen.message is not None
    assert "may still be at work" in seen.message


@pytest.mark.parametrize(("slug", "ways"), [("lost-final", 1), ("concurrent-final", 3)])
def test_deliveries_at_once_are_played_in_each_order_of_turns(
    slug: str, ways: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    run_one = grid.run_one

    async def note(subject: Subject, scenario: Scenario, where: Memory) -> History:
        turns.append(where.turns)
        return await run_one(subject, scenario, where)

    monkeypatch.setattr(grid, "run_one", note)
    cells = grid.cells([SUBJECTS["E"]], schedules=[SCHEDULES[slug]], deployments=("one",))
    anyio.run(grid.run, cells)
    assert len({*turns}) == ways


def test_a_guarantee_that_does_not_hold_is_refuted(observations: list[Observation]) -> None:
    own = guarantees.guarantees_of(SUBJECTS["E"])
    assert own is not None
    guaranteed = guarantees.declared(own.model_copy(update={"bill_once": ("lost-final",)}))
    seen = [each for each in observations if each.subject == "E"]
    refuted = guarantees.find_broken(seen, guaranteed, own)
    assert {each.name for each, _ in refuted} == {"bill-once-lost-final"}


@pytest.mark.parametrize(("times", "why"), [(1, "the author's code was entered once"), (3, None)])
def test_code_that_is_entered_once_is_not_entered_again(times: int, why: str | None) -> None:
    own = guarantees.guarantees_of(SUBJECTS["E"])
    assert own is not None
    declared = {each.name: each for each in guarantees.declared(own)}
    entries = {"call_weather": times}
    seen = Observation("E", "modern", "one", "clean-springfield", entries=entries)
    assert declared["re-execution-visible"].find_problem(seen) == why


@pytest.mark.parametrize(
    ("outcome", "audit", "bill", "verdict"),
    [
        ("completed", 1, 1, "once"),
        ("completed", 1, 0, "missing"),
        ("completed", 0, [1, 2], "duplicated"),
        ("cancelled", 1, 0, "missing"),
        ("refused", 1, 0, "refused"),
        ("refused", 1, 2, "duplicated"),
        ("lost", 1, 0, "lost"),
        ("hung", 0, 0, "lost"),
    ],
)
def test_a_verdict_says_what_happened(
    outcome: Outcome, audit: int, bill: Any, verdict: str
) -> None:
    effects = {"audit": audit, "bill": bill}
    seen = Observation("E", "modern", "one", "fork", outcome=outcome, effects=effects)
    assert seen.verdict == verdict
    assert len(seen.cell) == 3
