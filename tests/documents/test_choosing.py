"""Tests of the advice: it covers every answer, and the table of candidates supports it."""

from itertools import product
from typing import Any

import pytest

from documents import candidates
from mrtr_options.errors import UsageError
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.tool.choosing import CHOICES, QUESTIONS, Answers, choose
from mrtr_options.tool.notation import DEFAULT
from mrtr_options.tool.weather import DESTINATIONS


def test_every_set_of_answers_has_one_choice_and_every_choice_some_answers() -> None:
    chosen = [choose(Answers(*said)) for said in product((True, False), repeat=len(QUESTIONS))]
    assert {choice.when for choice in chosen} == {choice.when for choice in CHOICES}


@pytest.mark.parametrize("destination", DESTINATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_fault_alone_charges_twice_skips_a_question_or_takes_two_answers_in_the_default(
    destination: Any, policy: Any
) -> None:
    found = candidates.row_of(DEFAULT, destination, policy)["witnesses"]
    assert not {"charged twice", "question skipped", "both answers charged"} & set(found)
    assert "again3" in found["second wanted call swallowed"]  # the cost of naming calls


def test_a_candidate_that_is_not_explored_says_what_explores_it() -> None:
    with pytest.raises(UsageError, match="run python -m documents --candidates"):
        candidates.row_of(DEFAULT, "ignores keys", "waits")
