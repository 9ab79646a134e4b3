"""What a redeploy does to a call in flight, option by option."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import anyio
import pytest

from mrtr_options.review.bench import redeploys
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import (
    FIRST,
    UNITS,
    Accept,
    Change,
    Redeploy,
    Send,
    Step,
    calling,
)
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge import matrix
from mrtr_options.review.judge.reading import Observation, observe
from mrtr_options.tool.catalogue import Option, all_options, option_named

CHANGES: tuple[Change, ...] = get_args(Change)
REDEPLOYS = [slug for slug, schedule in SCHEDULES.items() if schedule.scenario.changes]
LETTERS = [letter for letter, option in all_options().items() if option.guarantees]


def played(option: Option, script: tuple[Step, ...]) -> Observation:
    """What one run on one instance shows."""
    return observe(anyio.run(run, Subject(option), replace(calling(fleet="one"), script=script)))


@pytest.mark.parametrize("slug", REDEPLOYS)
@pytest.mark.parametrize("subject", ["E+single-use", "F+legacy-shim", "H+legacy-shim"])
def test_wrappers_change_nothing_of_it(
    subject: str, slug: str, observations: list[Observation]
) -> None:
    seen = [each for each in observations if (each.schedule, each.deployment) == (slug, "two")]
    fates = {each.subject: each.fate for each in seen}
    assert fates[subject] == fates[subject[0]]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("letter", LETTERS)
def test_a_clean_call_of_the_next_version_asks_what_it_asks(letter: str, change: Change) -> None:
    answers = (
        Send("place", Accept({"place": "Springfield, Missouri"}), if_asked=True),
        Send("consent", Accept({"consent": "yes"}), if_asked=True),
        Send("units", if_asked=True),
    )
    seen = played(option_named(letter), (Redeploy(change), FIRST, *answers, *answers))
    place = "Springfield, Illinois" if change == "removed" else "Springfield, Missouri"
    due = [message for message, _ in redeploys.questions(change, "Springfield", place).values()]
    assert (seen.fate, seen.effects["bill"]) == ("ok", 1)
    assert sorted(seen.questions) == sorted(due)
    assert (seen.questions[0] == "Which units for Springfield?") == (change == "reordered")
    assert (seen.text or "").startswith(place)


def test_a_file_that_no_change_fits_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "stranger.py"
    file.write_text("server = None\n", encoding="utf-8")
    stranger = Option("?", "stranger", file)
    assert not matrix.cells([Subject(stranger)], schedules=[SCHEDULES["redeploy-reworded"]])
    with pytest.raises(ValueError, match=r"there is no version of stranger\.py"):
        redeploys.write(stranger, "reworded", tmp_path)


def test_a_redeploy_without_a_change_is_a_restart() -> None:
    seen = played(option_named("E"), (FIRST, Send("place"), Redeploy(None), UNITS))
    assert (seen.outcome, seen.fate) == ("completed", None)
