"""Tests that the styles without a letter behave as CANDIDATES says, under faults and redeploys."""

from functools import cache
from pathlib import Path

import anyio
import pytest

from mrtr_options.review.bench.faults import Faults
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore.counterexamples import counterexamples
from mrtr_options.review.judge import grid

FOLDER = Path(__file__).parents[1] / "examples" / "styles"
ALIKE = {"suspend_with_data": "F", "generator": "M"}
"""The styles, and the letters that they behave like."""
NOT_ALIKE = {"suspend_with_data": {"redeploy-effect", "redeploy-effect-mixed"}}
"""The schedules in which a style does not behave like its letter."""

pytestmark = pytest.mark.evidence("styles")


def played(name: str) -> dict[str, tuple[object, ...]]:
    """Play all redeploys in the middle of a call; return the outcomes by schedule."""
    changed = [schedule for schedule in SCHEDULES.values() if schedule.scenario.changes]
    cells = grid.cells([subject_named(name)], schedules=changed, deployments=["two"])
    return {
        seen.schedule: (seen.fate, seen.outcome, seen.text, seen.questions, seen.effects)
        for seen in anyio.run(grid.run, cells)
    }


@cache
def shown(name: str, policy: str) -> dict[str, set[Faults]]:
    """Return the single faults that show an anomaly, by anomaly."""
    found = anyio.run(counterexamples, subject_named(name), calling(policy=policy), 1)
    return {anomaly: {*sets} for anomaly, sets in found.counterexamples.items()}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("style", ALIKE)
def test_a_style_fails_under_the_faults_of_its_letter(style: str, policy: str) -> None:
    assert shown(str(FOLDER / f"{style}.py"), policy) == shown(ALIKE[style], policy)


@pytest.mark.parametrize("style", ALIKE)
def test_a_style_comes_through_the_redeploys_of_its_letter(style: str) -> None:
    mine = played(str(FOLDER / f"{style}.py"))
    other = played(ALIKE[style])
    assert set(mine) == set(other)
    assert {name for name in mine if mine[name] != other[name]} == NOT_ALIKE.get(style, set())
