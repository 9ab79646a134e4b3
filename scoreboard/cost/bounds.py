"""What the options and the default may cost at most, each beside what was measured.

`python -m scoreboard.cost --bounds` measures these alone, in about two minutes.
"""

from __future__ import annotations

from functools import partial

import anyio

from mrtr_options.review.bench.subjects import subject_named
from scoreboard.cost import calls, http, named
from scoreboard.cost.calls import servers_of, shared_server, time_servers
from scoreboard.cost.report import DEFAULT, FLOOR, SHARED, Bound, Spread
from scoreboard.cost.timing import Progress, in_turns, ratio

IN_MEMORY = {SHARED: 1.08, "E": 1.15, "J": 1.3}
"""Processor time of one call with one question, as multiples of the floor's."""
OVER_HTTP = 1.5
"""The server's processor time for a call of the default, as multiples of F's."""
READS = 1
"""Statements that a repeat of a named call takes."""
FULL = 1.2
"""A first request beside `named.KEPT` named calls, as multiples of one beside none."""
HTTP_TURNS = 20


def steps() -> int:
    """How often `measure_bounds` tells its progress."""
    return calls.TURNS + HTTP_TURNS + named.TURNS


async def measure_bounds(progress: Progress) -> list[Bound]:
    """Measure each of these beside its baseline, turn by turn."""
    options = [subject_named(name) for name in IN_MEMORY if name != SHARED]
    with servers_of(options) as servers:
        servers = {SHARED: shared_server(), **servers}
        timed = await time_servers(servers, calls.CALLS, calls.TURNS, progress)
    found = {each.subject: each.ratio for each in timed if each.subject != FLOOR}
    rows = [
        Bound(what=f"{name} in memory, × floor", found=found[name], at_most=at_most)
        for name, at_most in IN_MEMORY.items()
    ]
    rows.append(
        Bound(
            what="default over HTTP, × F's processor time",
            found=await _default_over_http(progress),
            at_most=OVER_HTTP,
        )
    )
    reads, writes = await named.statements_of_a_repeat()
    statements = Spread(median=reads + writes, low=reads + writes, high=reads + writes)
    rows.append(Bound(what="a repeat of a named call, reads", found=statements, at_most=READS))
    first = await named.time_first_requests(progress)
    rows.append(
        Bound(
            what=f"a first request beside {named.KEPT:,} named calls, × an empty store",
            found=ratio(first["full"], first["empty"]),
            at_most=FULL,
        )
    )
    return rows


async def _default_over_http(progress: Progress) -> Spread:
    with http.served([subject_named("F")], with_default=True) as (port, clock):
        async with http.callers_at(port, 1) as callers:
            with anyio.fail_after(http.START_SECONDS):
                await callers[0].call(FLOOR)
            work = {name: partial(http.calls_of, callers, name) for name in ("F", DEFAULT)}
            readings = await in_turns(work, HTTP_TURNS, progress, clock)
    return ratio(readings[DEFAULT], readings["F"])
