"""The lives of the servers' states by the clock: calls that wait for their user.

Not every library has a setting that shortens the life of a state, so this waits in real time, for
all servers at once. Knows the bench's client and the servers; nothing of any library.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

import anyio
import httpx2

from mrtr_options.review.bench.client import connections, exchange_at
from mrtr_options.review.bench.deployments import HANG_SECONDS, quiet_servers, scratch
from mrtr_options.review.bench.messages import Request
from mrtr_options.review.bench.steps import accept
from mrtr_options.review.check.calls import units
from scoreboard.servers.peers import Peer, Variant, running
from scoreboard.servers.play import Life

AGES = (50, 70, 290, 310, 590, 610)
"""Ages in seconds, around limits of libraries and the contract: one, five and ten minutes."""


async def measured(
    rows: Sequence[tuple[Peer, Variant]], ages: Sequence[int] = AGES
) -> list[Life | None]:
    """Measure the life of each server's states; None for a server without a state.

    Args:
        rows: The built servers, with the variants to start.
        ages: The ages at which a state is tried, in seconds, in order.
    """
    found: list[Life | None] = [None] * len(rows)

    async def measure(number: int, peer: Peer, variant: Variant) -> None:
        with scratch() as folder:
            ledger = folder / "effects.sqlite"
            secret = secrets.token_hex(32)
            async with running(peer, variant, ledger, 1, secret) as urls, connections() as http:
                found[number] = await life(urls[0], http, ages)

    with quiet_servers():
        async with anyio.create_task_group() as group:
            for number, row in enumerate(rows):
                group.start_soon(measure, number, *row)
    return found


async def life(url: str, http: httpx2.AsyncClient, ages: Sequence[int]) -> Life | None:
    """Measure the life of the states at a URL.

    For each age it makes a call, and gives the last answer at that age.
    """
    began = anyio.current_time()
    calls: list[Request] = []
    for _ in ages:
        request = Request("Springfield")
        for answer in (accept({"place": "Springfield, Illinois"}), units("metric")):
            asked = await exchange_at(url, http, request, seconds=HANG_SECONDS)
            answers = dict.fromkeys(asked.questions, answer)
            request = replace(request, answers=answers, state=asked.state)
        if request.state is None:
            return None
        calls.append(request)
    good = 0
    refused: int | None = None
    for age, request in zip(ages, calls, strict=True):
        await anyio.sleep_until(began + age)
        reply = await exchange_at(url, http, request, seconds=HANG_SECONDS)
        if reply.is_result and not reply.is_error:
            good = age
        elif refused is None:
            refused = age
    return Life(good=good, refused=refused)
