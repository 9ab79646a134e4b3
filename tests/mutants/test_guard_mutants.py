"""Tests that drawn tools, or a machine of rounds or stores, find every mutant of the guard."""

import pytest

from mrtr_options.sdk import current_request
from tests.evidence import every
from tests.mutants.guard_mutants import SEARCHED

QUICK = ("waits for ever for a dead process", "takes the oldest round for the latest")
"""The mutants of `make test`; `make evidence` tries all of them."""


@pytest.mark.parametrize(
    "name", every("mutants of the guard", {each: each for each in SEARCHED}, QUICK)
)
def test_a_search_finds_a_mutant_of_the_guard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Requests that come from no server are protected.
    monkeypatch.setattr(current_request, "_unprotected_request", current_request.Request)
    search, slip = SEARCHED[name]
    assert search(slip)


def test_the_code_that_a_mutant_of_the_guard_changes_is_there() -> None:
    for _, slip in SEARCHED.values():
        with slip.made():
            pass
