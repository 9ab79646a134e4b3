"""The lives of the servers' states by the clock: calls that wait for their user.

Not every library has a setting that shortens the life of a state, so this waits in real time, for
all servers at once. Knows the bench's client and the servers; nothing of any library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
import httpx2

from mrtr_options.review.bench.client import connections, fetch_at
from mrtr_options.review.bench.deployments import HANG_SECONDS, quiet_servers
from mrtr_options.review.bench.messages import Request
from mrtr_options.review.bench.steps import accept
from mrtr_options.review.check.calls import units
from scoreboard.servers.peers import Peer, Variant, running
from scoreboard.servers.play import Life, ServerReview

AGES = (50, 70, 290, 310, 590, 610)
"""Ages in seconds, around limits of libraries and the contract: one, five and ten minutes."""


async def measure(rows: Sequence[tuple[Peer, Variant, ServerReview]]) -> None:
    """Measure the life of each built server's states, and write it into the review."""

    async def one(peer: Peer, variant: Variant, found: ServerReview) -> None:
        async with running(peer, variant, 1) as there, connections() as http:
            found.life = await life(there.urls[0], http, AGES)

    with quiet_servers():
        async with anyio.create_task_group() as group:
            for row in rows:
                group.start_soon(one, *row)


async def life(url: str, http: httpx2.AsyncClient, ages: Sequence[int]) -> Life | None:
    """Measure the life of the states at a URL.

    For each age it makes a call, and gives the last answer at that age.
    """
    began = anyio.current_time()
    calls: list[Request] = []
    for _ in ages:
        request = Request("Springfield")
        for answer in (accept({"place": "Springfield, Illinois"}), units("metric")):
            asked = await fetch_at(url, http, request, seconds=HANG_SECONDS)
            answers = dict.fromkeys(asked.questions, answer)
            request = replace(request, answers=answers, state=asked.state)
        if request.state is None:
            return None
        calls.append(request)
    good = 0
    refused: int | None = None
    for age, request in zip(ages, calls, strict=True):
        await anyio.sleep_until(began + age)
        reply = await fetch_at(url, http, request, seconds=HANG_SECONDS)
        if reply.is_result and not reply.is_error:
            good = age
        elif refused is None:
            refused = age
    return Life(good=good, refused=refused)
