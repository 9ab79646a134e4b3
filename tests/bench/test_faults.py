"""Tests of the table of faults: a wrong column and a second fault of one name are refused."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from mrtr_options.review.bench.faults import KINDS, by_name


@pytest.mark.parametrize("wrong", [{"phase": "later"}, {"tried": "never"}, {"at": "refund"}])
def test_a_column_without_such_a_value_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    (column,) = wrong
    with pytest.raises(ValidationError, match=column):
        replace(KINDS["lost"], **wrong)


def test_two_faults_of_one_name_are_refused() -> None:
    lost = KINDS["lost"]
    assert by_name([lost, lost]) == {"lost": lost}
    with pytest.raises(ValueError, match="two faults 'lost'"):
        by_name([lost, replace(KINDS["twice"], name="lost")])
