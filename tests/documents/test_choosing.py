"""Tests of the advice: CHOOSING, the page and `new` agree, and the table supports it."""

import json
from itertools import product
from typing import Any

import anyio
import pytest

from documents import ROOT, candidates, choosing
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.setup import POLICIES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore.counterexamples import counterexamples
from mrtr_options.tool.choosing import CHOICES, QUESTIONS, Answers, choose
from mrtr_options.tool.notation import DEFAULT
from mrtr_options.tool.weather import DESTINATIONS
from tests.evidence import every

CHOOSING = (ROOT / "docs" / "CHOOSING.md").read_text(encoding="utf-8")
ROWS: dict[str, dict[str, Any]] = {
    f"{row['subject']}, {row['destination']}, {row['policy']}": row for row in candidates.read()
}


def test_every_set_of_answers_has_one_choice_and_every_choice_some_answers() -> None:
    chosen = [choose(Answers(*said)) for said in product((True, False), repeat=len(QUESTIONS))]
    assert {choice.when for choice in chosen} == {choice.when for choice in CHOICES}


def test_choosing_and_the_page_choose_alike() -> None:
    for choice in CHOICES:
        assert f"| {choice.when} | {choosing.title(choice)} |" in CHOOSING
    for shown in choosing.choices():
        said = Answers(**{name: answer == "yes" for name, answer in shown["answers"].items()})
        assert shown["subject"] == subject_named(choose(said).subject).name
    for question in QUESTIONS.values():
        assert question in CHOOSING


@pytest.mark.parametrize("destination", DESTINATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_fault_alone_charges_twice_skips_a_question_or_takes_two_answers_in_the_default(
    destination: Any, policy: Any
) -> None:
    found = candidates.row_of(DEFAULT, destination, policy)["witnesses"]
    assert not {"charged twice", "question skipped", "both answers charged"} & set(found)
    assert "again3" in found["second wanted call swallowed"]  # the cost of naming calls


def found(row: dict[str, Any]) -> dict[str, Any]:
    """Explore a candidate now."""
    call = calling(policy=row["policy"], destination=row["destination"])
    seen = anyio.run(counterexamples, subject_named(row["subject"]), call, row["bound"])
    assert seen.unclassified == {}
    return seen.as_json()


ONE_OF_EACH = (
    "F, ignores keys, calls again",
    "F, business key, calls again",
    "J+guard+named, ignores keys, calls again",
    "J+guard+named, business key, resends",
)


@pytest.mark.slow
@pytest.mark.parametrize("row", every("docs/data/candidates.json", ROWS, ONE_OF_EACH))
def test_what_is_kept_of_a_candidate_is_what_is_found_now(row: dict[str, Any]) -> None:
    now = json.loads(json.dumps(found(row)))
    assert now["witnesses"] == row["witnesses"]
    assert now["histories"] == row["histories"]
