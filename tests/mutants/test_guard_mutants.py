"""Tests that drawn tools, or a machine of rounds or stores, find every mutant of the guard."""

from pathlib import Path

import pytest

from mrtr_options.sdk import current_request
from tests.evidence import every
from tests.mutants.guard_mutants import (
    MUTANTS,
    OF_ROUNDS,
    OF_STORES,
    Slip,
    found,
    found_in_rounds,
    found_in_stores,
)

QUICK = ("waits for ever for a dead process", "takes the oldest round for the latest")
"""The mutants of `make test`; `make evidence` tries all of them."""


@pytest.fixture(autouse=True)
def _protected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat requests that come from no server as protected."""
    monkeypatch.setattr(current_request, "_unprotected_request", current_request.Request)


@pytest.mark.parametrize("slip", every("mutants of the guard", MUTANTS, QUICK))
def test_drawn_tools_find_a_mutant_of_the_guard(slip: Slip) -> None:
    assert found(slip) is not None


@pytest.mark.parametrize("slip", every("mutants of the guard", OF_ROUNDS))
def test_the_machine_of_rounds_finds_a_mutant_of_the_guard(slip: Slip) -> None:
    assert found_in_rounds(slip)


@pytest.mark.parametrize("slip", every("mutants of the guard", OF_STORES))
def test_the_machine_of_stores_finds_a_mutant_of_the_guard(slip: Slip, tmp_path: Path) -> None:
    assert found_in_stores(slip, tmp_path)
