"""Tests of extras: what else may happen shows the anomalies that RESULTS and CALL_KEY name."""

import pytest

from model.check import Cell, check
from model.extras import (
    ANY_TIME,
    BACK,
    BELOW_MARK,
    DIES,
    EARLY,
    EXTRAS,
    FORGETTING,
    OLD,
    OTHER_USER,
    REDEPLOY,
    SAME_USER,
    WHEN_OLD,
    WHEN_TOLD,
)

IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"
BY_KEY = "guard, named by key (J)"
BY_ARGUMENT = "guard, named by argument (J)"


def found(mechanism: str, destination: str, extra: str) -> dict[str, list[str]]:
    """Return the shortest counterexamples for a client that resends; the state space closes."""
    shown = check(Cell(mechanism, "resends", destination), extras=frozenset({extra}))
    assert shown.closed
    return shown.in_words


@pytest.mark.parametrize("extra", EXTRAS)
def test_guard_with_a_key_never_charges_twice_whatever_else_happens(extra: str) -> None:
    assert "charged twice" not in found(BY_KEY, IGNORES, extra)


@pytest.mark.parametrize("rule", [ANY_TIME, WHEN_TOLD])
def test_server_that_forgets_without_a_mark_charges_twice(rule: str) -> None:
    assert "charged twice" in found(BY_KEY, IGNORES, rule)


@pytest.mark.parametrize("rule", [BELOW_MARK, WHEN_OLD])
def test_server_that_refuses_what_it_forgot_never_charges_twice(rule: str) -> None:
    assert "charged twice" not in found(BY_KEY, IGNORES, rule)


@pytest.mark.parametrize("rule", FORGETTING)
def test_server_may_forget_at_any_time_where_the_destination_honours_keys(rule: str) -> None:
    assert "charged twice" not in found(BY_KEY, HONOURS, rule)


def test_call_is_orphaned_by_the_age_of_its_key_and_not_by_its_client_s_word() -> None:
    assert "charged, told of an error" in found(BY_KEY, HONOURS, WHEN_OLD)
    assert "charged, told of an error" not in found(BY_KEY, HONOURS, BELOW_MARK)


def test_forgotten_call_is_charged_again_by_a_late_repeat_of_its_last_request() -> None:
    how = found(BY_KEY, IGNORES, WHEN_TOLD)["charged twice"]
    assert "server forgets call 1" in how
    assert how[-1].endswith("bill (attempt 1 round 3)")


def test_both_answers_are_charged_where_nothing_is_kept_and_not_in_the_guard() -> None:
    assert "both answers charged" in found("nothing kept (J)", IGNORES, BACK)
    assert "both answers charged" not in found(BY_KEY, IGNORES, BACK)


def test_question_is_skipped_where_early_answers_are_taken() -> None:
    assert "question skipped" in found("nothing kept (F)", IGNORES, EARLY)
    assert "question skipped" not in found("nothing kept (J)", IGNORES, EARLY)


def test_state_that_is_too_old_leaves_a_charged_user_with_an_error() -> None:
    assert "charged, told of an error" in found("nothing kept (J)", HONOURS, OLD)


def test_durable_call_is_lost_by_a_redeploy() -> None:
    assert "call lost" in found("durable record, named by key", IGNORES, REDEPLOY)


def test_argument_swallows_a_second_call_of_its_user_and_none_of_another() -> None:
    assert "second wanted call swallowed" in found(BY_ARGUMENT, IGNORES, SAME_USER)
    assert "second wanted call swallowed" not in found(BY_ARGUMENT, IGNORES, OTHER_USER)


def test_client_that_dies_before_it_keeps_an_answer_asks_again() -> None:
    how = found("guard (F)", IGNORES, DIES)["asked twice"]
    assert "client dies and resumes" in how
