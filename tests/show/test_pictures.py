"""What the pictures say in words is what happened, and verdicts can be told apart in them."""

from __future__ import annotations

import pytest

from mrtr_options.bench.history import (
    Crashed,
    Effect,
    Event,
    History,
    Received,
    Reply,
    Request,
    Sent,
)
from mrtr_options.bench.observations import observe
from mrtr_options.bench.runs import Cell, Place, clean_call, history_of
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.subjects import Column, all_columns
from mrtr_options.judge import matrix
from mrtr_options.show.pictures import heatmap, sequence, tables
from mrtr_options.show.pictures.chart import chart
from mrtr_options.show.pictures.style import FATES, VERDICTS
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import all_options, option_named

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def column(name: str) -> Column:
    return next(column for column in all_columns() if column.name == name)


async def played(name: str, slug: str, place: Place = "one") -> History:
    return await history_of(Cell(column(name), SCHEDULES[slug], "modern", place))


async def words(name: str, slug: str, place: Place = "one") -> list[str]:
    history = await played(name, slug, place)
    return sequence.draw([sequence.chart(history, name)]).says.splitlines()


def test_no_two_verdicts_look_the_same() -> None:
    assert len(set(VERDICTS.values())) == len(VERDICTS)
    assert len(set(FATES.values())) == len(FATES)


async def test_a_clean_call_is_drawn_as_it_was_observed() -> None:
    history = await clean_call(option_named("F"), "modern", "Tokyo")
    drawn = sequence.draw([sequence.chart(history, "F", user=True)])
    assert drawn.png.startswith(b"\x89PNG")
    assert drawn.says.splitlines() == [
        "F:",
        "client to server: tools/call",
        "audit 1",
        "server to client: input_required: units",
        "client to user: Which units for Tokyo, Japan?",
        "user to client: metric",
        "client to server: tools/call + units",
        "bill 1",
        "server to client: Tokyo, Japan: 19 °C, clear.",
    ]


async def test_a_lost_response_and_the_second_bill_are_in_the_picture() -> None:
    found = await words("F", "lost-final")
    lost = next(number for number, line in enumerate(found) if line.endswith("(lost)"))
    assert found.index("bill 1") < lost < found.index("bill 2")
    assert "bill 2" not in await words("F+single-use", "lost-final")


async def test_an_instance_dies_right_after_the_effect() -> None:
    events = (await played("E", "crash-after-effect")).events
    died = next(number for number, event in enumerate(events) if isinstance(event, Crashed))
    effect = events[died - 1]
    assert isinstance(effect, Effect)
    assert effect.effect.kind == "bill"


async def test_what_a_destination_absorbs_is_not_counted() -> None:
    assert "bill 2" in await words("J", "crash-after-effect")
    keyed = await words("J", "crash-after-effect-keyed")
    assert "bill absorbed" in keyed
    assert "bill 2" not in keyed


async def test_a_hop_goes_to_the_other_instance() -> None:
    found = await words("H", "failover", "two")
    assert "client to server 2: Springfield, Illinois" in found
    assert found[-1] == "server 2 to client: error -32602"


async def test_a_history_that_is_drawn_comes_to_what_the_matrix_says() -> None:
    schedules = [SCHEDULES[slug] for slug in ("lost-final", "crash-after-effect", "fork", "restart")]
    for cell in matrix.cells([column("F")], schedules=schedules, eras=("modern",), places=("one",)):
        (seen,) = await matrix.run([cell])
        again = observe(await played("F", cell.schedule.slug))
        assert (again.cell, again.verdict, again.text) == (seen.cell, seen.verdict, seen.text)
        assert (again.questions, again.rounds) == (seen.questions, seen.rounds)


async def test_a_heat_map_says_how_often_each_verdict_stands_in_it() -> None:
    cells = matrix.cells(
        [column("E"), column("F")],
        schedules=[SCHEDULES[slug] for slug in ("clean-tokyo", "tampered")],
        eras=("modern",),
        places=("one",),
    )
    drawn = heatmap.verdicts(await matrix.run(cells), "two rows")
    assert drawn.says == (
        "two rows: 2 rows, columns E, F; once 1, missing 0, duplicated 1, refused 2, lost 0."
    )


async def test_schedules_that_come_to_the_same_are_one_way_to_be_hurt() -> None:
    slugs = ("clean-springfield", "lost-final", "duplicate-final", "lost-interim")
    cells = matrix.cells(
        [column("F"), column("J")],
        schedules=[SCHEDULES[slug] for slug in slugs],
        eras=("modern",),
        places=("one",),
    )
    found = tables.ways_to_be_hurt(await matrix.run(cells))
    assert found == [
        (2, ["lost-final", "duplicate-final"]),
        (2, ["lost-interim"]),
        (0, ["clean-springfield"]),
    ]


def test_every_option_is_held_against_e() -> None:
    shown = tables.diffs(option_named("E"), all_options().values())
    for letter in all_options():
        assert (f"**E to {letter}**" in shown) == (letter != "E")
    assert "+class State(Markers):" in shown


def test_a_picture_of_a_task_is_the_same_however_its_work_and_its_messages_interleave() -> None:
    create, look = Request("Springfield", takes_tasks=True), Request(method="tasks/get", task="t")
    update = Request(method="tasks/update", task="t")
    working, asking = Reply(status="working"), Reply(status="input_required")
    audit, bill = (Effect(0, None, weather.Effect(kind, "Springfield")) for kind in ("audit", "bill"))

    def at(exchange: int, what: Request | Reply) -> Event:
        where = (exchange, 1, 0, 1, 0)
        return Sent(*where, what) if isinstance(what, Request) else Received(*where, what)

    begins, created = at(1, create), at(1, working)
    seen = [at(2, look), at(2, working)]
    asks = [at(3, look), at(3, asking)]
    answers, taken = at(4, update), at(4, Reply())
    drawn = [
        chart(History("K", "modern", "one", 1, SCHEDULES["task-clean"], events), "K").lines
        for events in (
            (begins, audit, created, *asks, answers, bill, taken),
            (begins, created, audit, *asks, answers, taken, bill),
            (begins, created, *seen, audit, *asks, answers, bill, taken),
        )
    ]
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(drawn[0]) == 7
