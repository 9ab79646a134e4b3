"""Tests of batches of calls: how much a process holds of calls that ended in one way."""

from typing import Any, cast

import anyio
import pytest

from mrtr_options.review.bench.deployments import Instances
from mrtr_options.review.bench.driver import MAX_REQUESTS
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.check import batches
from tests.bounds import SECONDS


class AsksForEver:
    """Instances of a server that asks the same question after each answer."""

    def __init__(self) -> None:
        self.requests = 0

    async def send(self, place: int, request: Request, *others: Any) -> Reply:
        """Return a question."""
        self.requests += 1
        assert self.requests <= MAX_REQUESTS + 1
        form = {"type": "object", "properties": {"units": {"enum": ["metric"]}}}
        return Reply(questions={"units": "Which units?"}, schemas={"units": form}, state="state")


@pytest.mark.anyio
async def test_a_batch_of_calls_ends_where_the_server_asks_for_ever() -> None:
    server = AsksForEver()
    make: Any = batches._make_modern  # pyright: ignore[reportPrivateUsage]
    with anyio.fail_after(SECONDS):
        await make(cast("Instances", server), Request("Tokyo"), "reported")
    assert server.requests > 1
