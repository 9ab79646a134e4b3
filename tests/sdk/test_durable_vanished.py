"""Option L where a machine vanishes: a process in a network namespace whose link goes down.

The process is this module, run as a program. It goes on, and cannot know whether others do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import mcp_types as types
import pytest

pytest.importorskip("dbos", reason="needs DBOS: pip install dbos")

from mrtr_options.bench import postgres as real_postgres
from mrtr_options.sdk.durable import Call, DurableContext, Engine
from tests.bounds import SECONDS
from tests.chaos.disasters import Proxy
from tests.rounds import Response
from tests.sdk.durable_calls import said, served
from tests.sdk.fakes import result

LEASE_SECONDS = 3.0
"""Shorter than usual, so that the test need not wait for longer."""


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


async def work(ctx: DurableContext[Callable[[str], Awaitable[str]]], call: Call) -> types.CallToolResult:
    """One effect."""
    return result(await ctx.step("work", ctx.lifespan_context))


def state(what: str) -> Response:
    """The state of a round of the one call: to `begin` it, or to see `later` what it says."""
    return types.InputRequiredResult(request_state=f"vanished.0.{what}")


# --- the process that vanishes ------------------------------------------------------------------


async def for_ever(key: str) -> str:
    """An effect that tells when it begins and when it is stopped."""
    print(time.monotonic(), flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print(time.monotonic(), flush=True)
    return ""


async def begin(url: str) -> None:
    """Begin the call and work at it."""
    async with Engine.opened(url, lease_seconds=LEASE_SECONDS), served(url, for_ever, work) as send:
        await send(None, state("begin"))


# --- its machine --------------------------------------------------------------------------------


class Link(NamedTuple):
    """A network namespace and the link to it, whose ends have an address each."""

    namespace: str
    here: str
    there: str


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def link() -> Generator[Link]:
    """A network namespace with a link to it."""
    pid = os.getpid()
    here = ip_address("198.18.0.1") + 4 * (pid % 2**14)  # of a network for tests, four to each process
    made = Link(f"mrtr{pid}", str(here), str(here + 1))
    if shutil.which("ip") is None:
        pytest.skip("needs network namespaces: apt-get install iproute2")
    try:
        ip("netns", "add", made.namespace)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs network namespaces, which root may make: {error.stderr.strip()}")
    try:
        end = f"{made.namespace}b"
        ip("link", "add", made.namespace, "type", "veth", "peer", "name", end)
        ip("link", "set", end, "netns", made.namespace)
        ip("addr", "add", f"{made.here}/30", "dev", made.namespace)
        ip("-n", made.namespace, "addr", "add", f"{made.there}/30", "dev", end)
        ip("link", "set", made.namespace, "up")
        ip("-n", made.namespace, "link", "set", end, "up")
        yield made
    finally:
        # Both: a namespace with connections that are not closed yet stays for a while, and its link too.
        for each in "link", "netns":
            subprocess.run(["ip", each, "del", made.namespace], check=False, capture_output=True)


@contextmanager
def process(link: Link, url: str) -> Generator[subprocess.Popen[str]]:
    """This module in the namespace, killed with the block."""
    command = ["ip", "netns", "exec", link.namespace, sys.executable, "-m", __name__, url]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


async def told(by: subprocess.Popen[str]) -> float:
    """The next time that a process tells, on the clock of this machine."""
    assert by.stdout is not None
    with anyio.fail_after(SECONDS / 2):
        return float(await anyio.to_thread.run_sync(by.stdout.readline, abandon_on_cancel=True))


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_process_whose_machine_vanishes_stops_before_another_takes_its_call_over(
    postgres: str, link: Link
) -> None:
    taken_over = 0.0

    async def at_once(key: str) -> str:
        nonlocal taken_over
        taken_over = time.monotonic()
        return "done"

    own = real_postgres.database(postgres)
    name = own.partition("?")[0].rpartition("/")[2]
    with (
        Proxy(real_postgres.socket_of(own), link.here).running() as proxy,
        process(link, f"postgresql://postgres@{link.here}:{proxy.port}/{name}") as vanishing,
    ):
        await told(vanishing)
        async with (
            Engine.opened(own, lease_seconds=LEASE_SECONDS),
            served(own, at_once, work) as send,
        ):
            ip("link", "set", link.namespace, "down")
            vanished = time.monotonic()
            assert said(await send(None, state("later"))) == "done"
        stopped = await told(vanishing)
    assert vanished < stopped < taken_over
    assert stopped - vanished < LEASE_SECONDS


if __name__ == "__main__":
    anyio.run(begin, sys.argv[1])
