"""The upper bounds on the cost of some options and the default, beside the measured figures.

`python -m scoreboard.cost --bounds` measures these alone, in about two minutes.
"""

from __future__ import annotations

from mrtr_options.review.bench.subjects import subject_named
from scoreboard.cost import calls, http, named
from scoreboard.cost.calls import servers_of, shared_server, time_servers
from scoreboard.cost.report import DEFAULT, FLOOR, SHARED, Bound, Spread
from scoreboard.cost.timing import Progress, ratio

IN_MEMORY = {SHARED: 1.12, "E": 1.3, "J": 1.5}
"""Bounds on the processor time of one call with one question, as multiples of the floor's."""

OVER_HTTP = 1.5
"""The bound on the server's processor time for a call of the default, as a multiple of F's."""

READS = 1
"""The bound on the statements that a repeat of a named call takes."""

FULL = 1.2
"""The bound on a first request beside `named.KEPT` calls, as a multiple of one beside none."""

HTTP_TURNS = 20


def steps() -> int:
    """Return how often `measure_bounds` reports progress."""
    return calls.TURNS + HTTP_TURNS + named.TURNS


async def measure_bounds(progress: Progress) -> list[Bound]:
    """Measure each bounded figure beside its baseline, turn by turn."""
    options = [subject_named(name) for name in IN_MEMORY if name != SHARED]
    with servers_of(options) as servers:
        servers = {SHARED: shared_server(), **servers}
        timed = await time_servers(servers, calls.CALLS, calls.TURNS, progress)
    found = {each.subject: each.ratio for each in timed if each.subject != FLOOR}
    over_http = await _default_over_http(progress)
    statements = sum(await named.statements_of_a_repeat())
    first = await named.time_first_requests(progress)
    return [
        *(
            Bound(what=f"{name} in memory, × floor", found=found[name], at_most=at_most)
            for name, at_most in IN_MEMORY.items()
        ),
        Bound(what="default over HTTP, × F's processor time", found=over_http, at_most=OVER_HTTP),
        Bound(
            what="a repeat of a named call, reads",
            found=Spread(median=statements, low=statements, high=statements),
            at_most=READS,
        ),
        Bound(
            what=f"a first request beside {named.KEPT:,} named calls, × an empty store",
            found=ratio(first["full"], first["empty"]),
            at_most=FULL,
        ),
    ]


async def _default_over_http(progress: Progress) -> Spread:
    with http.served([subject_named("F")], with_default=True) as bench:
        readings = await http.turns_of(bench, 1, ("F", DEFAULT), HTTP_TURNS, progress)
    return ratio(readings[DEFAULT], readings["F"])
