"""Tests of the advice: CHOOSING, the page and `new` agree, and the table supports it."""

from itertools import product
from typing import Any

import pytest

from documents import candidates, choosing
from mrtr_options.review.bench.setup import POLICIES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.tool.choosing import CHOICES, QUESTIONS, Answers, choose
from mrtr_options.tool.notation import DEFAULT
from mrtr_options.tool.weather import DESTINATIONS


def test_every_set_of_answers_has_one_choice_and_every_choice_some_answers() -> None:
    chosen = [choose(Answers(*said)) for said in product((True, False), repeat=len(QUESTIONS))]
    assert {choice.when for choice in chosen} == {choice.when for choice in CHOICES}


def test_the_page_chooses_as_the_advice_does() -> None:
    for shown in choosing.choices():
        said = Answers(**{name: answer == "yes" for name, answer in shown["answers"].items()})
        assert shown["subject"] == subject_named(choose(said).subject).name


@pytest.mark.parametrize("destination", DESTINATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_fault_alone_charges_twice_skips_a_question_or_takes_two_answers_in_the_default(
    destination: Any, policy: Any
) -> None:
    found = candidates.row_of(DEFAULT, destination, policy)["witnesses"]
    assert not {"charged twice", "question skipped", "both answers charged"} & set(found)
    assert "again3" in found["second wanted call swallowed"]  # the cost of naming calls
