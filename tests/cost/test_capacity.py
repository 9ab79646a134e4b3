"""Capacity on paper: the sums are right, and each of them says what it is bound by."""

from __future__ import annotations

import pytest

from mrtr_options.cost.capacity import (
    Assumptions,
    Figures,
    NotMeasured,
    capacity,
    figures,
    in_client,
    on_postgres,
    rounds_per_second,
    sticky,
)
from tests.cost.test_cost import report

pytestmark = pytest.mark.slow

MEASURED = Figures(
    parked_bytes=2_000,
    rounds_per_second=1_000,
    stateless_rounds_per_second=1_250,
    state_bytes=300,
    rows=7,
    row_bytes=4_000,
    database_rounds_per_second=100,
)
ASSUMED = Assumptions(
    think_seconds=60, questions_per_call=2, instance_bytes=4e9, instance_cores=4, utilisation=0.5
)


def test_rounds_follow_from_what_is_open_and_how_long_people_think() -> None:
    assert rounds_per_second(10_000, ASSUMED) == pytest.approx(250)  # 3 rounds in 2 minutes each
    assert rounds_per_second(10_000, Assumptions(think_seconds=30)) == pytest.approx(500)
    assert rounds_per_second(10_000, Assumptions(questions_per_call=1)) == pytest.approx(10_000 / 30)


def test_h_is_bound_by_rounds_where_people_are_quick_and_by_memory_where_they_are_slow() -> None:
    quick = sticky(1_000_000, MEASURED, ASSUMED)
    assert (quick.rounds_per_second, quick.memory_bytes) == (pytest.approx(25_000), 2e9)
    assert (quick.instances, quick.bound_by) == (13, "rounds")  # 25,000 over 4 x 1,000 x 0.5
    slow = sticky(1_000_000, MEASURED, Assumptions(think_seconds=86_400, instance_bytes=1e8))
    assert (slow.instances, slow.bound_by) == (40, "memory")  # 2 GB over 50 MB
    assert slow.lost_with_one == 25_000


def test_state_in_the_client_costs_the_wire_and_no_memory() -> None:
    found = in_client(1_000_000, MEASURED, ASSUMED)
    assert found.wire_bytes_per_second == pytest.approx(25_000 * 2 / 3 * 2 * 300)
    assert found.instances == 10  # 25,000 over 4 x 1,250 x 0.5


def test_a_database_is_outgrown_where_people_think_for_too_short_a_time() -> None:
    found = on_postgres(10_000, MEASURED, ASSUMED)
    assert (found.rows, found.disk_bytes) == (70_000, 40_000_000)
    assert found.databases == 5  # 250 over 100 x 0.5
    enough = Assumptions(think_seconds=found.shortest_think_seconds)
    assert on_postgres(10_000, MEASURED, enough).databases == 1


def test_nothing_takes_less_than_one_of_anything() -> None:
    assert [
        (held.instances, carried.instances, kept.databases)
        for _, held, carried, kept in capacity(MEASURED, ASSUMED, [1])
    ] == [(1, 1, 1)]


def test_the_figures_are_those_of_the_report() -> None:
    found = figures(report())
    assert found == Figures(3000, 200, 200, 100, 7, 4000, 40)


def test_a_report_without_a_database_says_what_is_missing() -> None:
    with pytest.raises(NotMeasured, match="PostgreSQL"):
        figures(report(ramp=[]))
