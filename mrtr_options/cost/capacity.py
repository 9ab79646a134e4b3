"""On paper: what a fleet needs for so many open conversations, reckoned from measured figures.

A conversation is open while a call waits for a person. By Little's law the rounds that arrive follow
from how many are open and how long people think; everything else is a measured figure times that.
Pure functions: knows a report's figures and nothing of how they were measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mrtr_options.cost.report import Report

OPEN_CONVERSATIONS = (10_000, 1_000_000, 100_000_000)


class NotMeasured(ValueError):
    """The report lacks a figure. The text is one line that says which."""


@dataclass(frozen=True)
class Assumptions:
    """What is not measured.

    Attributes:
        think_seconds: How long a person takes over one question.
        questions_per_call: How many questions a call asks.
        instance_bytes: Memory of one instance that parked calls may take.
        instance_cores: Workers of one instance, each of them one process.
        utilisation: The part of what an instance or a database can do that is planned for.
    """

    think_seconds: float = 60.0
    questions_per_call: float = 2.0
    instance_bytes: float = 4 * 2**30
    instance_cores: int = 4
    utilisation: float = 0.5


@dataclass(frozen=True)
class Figures:
    """What is measured, on the machine of the report.

    Attributes:
        parked_bytes: Memory of one parked call of H.
        rounds_per_second: Requests that one worker of H answers over HTTP, at its best.
        stateless_rounds_per_second: The same of E, which keeps its state in the client.
        state_bytes: Of the state that one round of E hands out, on average.
        rows: In the database, for one parked call of L.
        row_bytes: On disk, all rows of one parked call of L.
        database_rounds_per_second: Rounds of L on one PostgreSQL, at its best, from one process.
    """

    parked_bytes: float
    rounds_per_second: float
    stateless_rounds_per_second: float
    state_bytes: float
    rows: float
    row_bytes: float
    database_rounds_per_second: float


@dataclass(frozen=True)
class Sticky:
    """H with sticky routing.

    Attributes:
        rounds_per_second: That arrive.
        memory_bytes: Of all parked calls.
        instances: Enough for the memory and for the rounds.
        bound_by: "memory" or "rounds".
        lost_with_one: Conversations that are lost when one instance is.
    """

    rounds_per_second: float
    memory_bytes: float
    instances: int
    bound_by: str
    lost_with_one: float


@dataclass(frozen=True)
class InClient:
    """State in the client, as with E.

    Attributes:
        rounds_per_second: That arrive.
        wire_bytes_per_second: Of state alone, in and out.
        instances: Enough for the rounds; what is open takes none.
    """

    rounds_per_second: float
    wire_bytes_per_second: float
    instances: int


@dataclass(frozen=True)
class OnPostgres:
    """L on PostgreSQL.

    Attributes:
        rounds_per_second: That arrive.
        rows: Of all parked calls.
        disk_bytes: Of all parked calls, with indexes.
        databases: How many of the measured one would take the rounds. More than one is a sharded
            fleet, which this project does not build.
        shortest_think_seconds: What people would have to think at the least for one database to do.
    """

    rounds_per_second: float
    rows: float
    disk_bytes: float
    databases: int
    shortest_think_seconds: float


def figures(report: Report) -> Figures:
    """The figures of a report that capacity is reckoned from.

    Raises:
        NotMeasured: PostgreSQL or the extra `durable` was not there.
    """
    ramp = [step for step in report.ramp if (step.option, step.database) == ("L", "postgresql")]
    kept = [each for each in report.kept if (each.option, each.database) == ("L", "postgresql")]
    if not ramp or not kept:
        raise NotMeasured("option L was not measured on PostgreSQL: install the extra and a server")
    shortest = min(each.answer_characters for each in report.growth)
    grown = [
        each
        for each in report.growth
        if (each.option, each.answer_characters, each.questions) == ("E", shortest, 2)
    ]
    states = grown[0].states
    return Figures(
        parked_bytes=report.parked[-1].call_bytes,
        rounds_per_second=2 * _most_calls(report, "H"),
        stateless_rounds_per_second=2 * _most_calls(report, "E"),
        state_bytes=sum(states) / len(states),
        rows=kept[0].rows,
        row_bytes=kept[0].bytes,
        database_rounds_per_second=2 * max(step.calls_per_second for step in ramp),
    )


def _most_calls(report: Report, option: str) -> float:
    """Calls per second, with two rounds each, whatever the number of callers."""
    return max(load.calls_per_second for load in report.http if load.option == option)


def rounds_per_second(conversations: float, assumed: Assumptions) -> float:
    """Rounds that arrive while so many conversations are open.

    A call of q questions is open for q times the think time and has q + 1 rounds.
    """
    questions = assumed.questions_per_call
    return conversations * (questions + 1) / (questions * assumed.think_seconds)


def sticky(conversations: float, measured: Figures, assumed: Assumptions) -> Sticky:
    """What H needs."""
    rounds = rounds_per_second(conversations, assumed)
    memory = conversations * measured.parked_bytes
    for_memory = memory / (assumed.instance_bytes * assumed.utilisation)
    for_rounds = _instances(rounds, measured.rounds_per_second, assumed)
    instances = _up(max(for_memory, for_rounds))
    bound_by = "memory" if for_memory > for_rounds else "rounds"
    return Sticky(rounds, memory, instances, bound_by, conversations / instances)


def in_client(conversations: float, measured: Figures, assumed: Assumptions) -> InClient:
    """What E needs, and every option whose state is all there is."""
    rounds = rounds_per_second(conversations, assumed)
    questions = assumed.questions_per_call
    # Each state goes out once and comes back once; the first round brings none, the last hands out none.
    wire = rounds * questions / (questions + 1) * 2 * measured.state_bytes
    return InClient(rounds, wire, _up(_instances(rounds, measured.stateless_rounds_per_second, assumed)))


def on_postgres(conversations: float, measured: Figures, assumed: Assumptions) -> OnPostgres:
    """What L needs of its database."""
    rounds = rounds_per_second(conversations, assumed)
    takes = measured.database_rounds_per_second * assumed.utilisation
    return OnPostgres(
        rounds,
        conversations * measured.rows,
        conversations * measured.row_bytes,
        _up(rounds / takes),
        rounds * assumed.think_seconds / takes,
    )


def _instances(rounds: float, worker: float, assumed: Assumptions) -> float:
    return rounds / (worker * assumed.instance_cores * assumed.utilisation)


def _up(number: float) -> int:
    return max(1, math.ceil(number))


def capacity(
    measured: Figures, assumed: Assumptions, conversations: Sequence[int] = OPEN_CONVERSATIONS
) -> list[tuple[int, Sticky, InClient, OnPostgres]]:
    """All three, for each number of open conversations."""
    return [
        (
            number,
            sticky(number, measured, assumed),
            in_client(number, measured, assumed),
            on_postgres(number, measured, assumed),
        )
        for number in conversations
    ]
