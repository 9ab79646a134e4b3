"""Tests of commands' output: progress, no colours, and help."""

import pytest

from mrtr_options.review.bench.history import UNREADABLE, readable_state
from mrtr_options.review.bench.subjects import subject_named


def test_a_subject_is_typed_as_well_as_a_keyboard_can() -> None:
    for typed in ("F1k", "f^1k", "F¹ᵏ", "F+guard+key", "F+single-use+call-key"):
        assert subject_named(typed).name == "F+guard+call-key"


@pytest.mark.parametrize("body", ["A", "bnVsbA", "W10", "e30", "_w", "W1tb" * 9000])
def test_a_state_that_a_client_made_up_cannot_be_read(body: str) -> None:
    assert readable_state(f"s1.{body}.mac") == UNREADABLE
