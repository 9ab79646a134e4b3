"""Option L on a real process on a SQLite file, which is killed, redeployed and started twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from mrtr_options.bench.deployments.processes import CALLS, ProcessInstances
from mrtr_options.bench.history import LOST, Reply, Request
from mrtr_options.bench.subjects import Subject
from mrtr_options.sdk.durable.embedded import process
from mrtr_options.sdk.durable.rounds import WrongDatabase
from mrtr_options.tool.catalogue import Option, option_at, option_named
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


ILLINOIS = "Springfield, Illinois: 22 °C, partly cloudy."
ANSWERS: dict[str, dict[str, Any]] = {
    "place": {"place": "Springfield, Illinois"},
    "units": {"units": "metric"},
}


@asynccontextmanager
async def served(
    folder: Path, option: Option | None = None, *, honours_keys: bool = False
) -> AsyncGenerator[ProcessInstances]:
    """A server process."""
    subject = Subject(option or option_named("L"))
    with anyio.fail_after(SECONDS):
        instances = ProcessInstances(subject, folder, honours_keys=honours_keys, processes=1)
        async with instances.running() as here:
            yield here


def answering(asked: Reply) -> Request:
    """The round with the answer to what was asked."""
    assert asked.state is not None, f"this did not ask: {asked}"
    answers: types.InputResponses = {
        key: types.ElicitResult(action="accept", content=ANSWERS[key]) for key in asked.questions
    }
    return Request("Springfield", answers or None, asked.state)


async def settled(here: ProcessInstances, request: Request) -> Reply:
    """A round, and on from there for as long as the server says that it is not done yet."""
    reply = await here.send(0, request)
    while reply.state is not None and not reply.questions:
        reply = await here.send(0, Request("Springfield", None, reply.state))
    return reply


async def test_killed_between_rounds_and_the_next_process_goes_on(shared_folder: Path) -> None:
    async with served(shared_folder) as here:
        first = await settled(here, Request("Springfield"))
        await here.crash(0)
        second = await settled(here, answering(first))
        assert list(second.questions) == ["units"]
        await here.crash(0)
        assert (await settled(here, answering(second))).text == ILLINOIS
        await here.crash(0)
        assert (await settled(here, answering(second))).text == ILLINOIS
        assert await here.effects() == {"audit": 1, "bill": 1}


@pytest.mark.parametrize("honours_keys", [False, True], ids=["naive", "honours-keys"])
async def test_killed_between_effect_and_record_runs_the_effect_again(
    shared_folder: Path, honours_keys: bool
) -> None:
    async with served(shared_folder, honours_keys=honours_keys) as here:
        second = await settled(here, answering(await settled(here, Request("Springfield"))))
        await here.arm("crash@bill")
        assert (await settled(here, answering(second))).nothing == LOST
        assert (await settled(here, answering(second))).text == ILLINOIS
        assert await here.effects() == {"audit": 1, "bill": 1 if honours_keys else 2}


async def test_a_redeploy_with_changed_code_refuses_the_calls_of_the_old(shared_folder: Path) -> None:
    code = option_named("L").path.read_text(encoding="utf-8")
    file = shared_folder / "option_l_durable.py"
    file.write_text(code, encoding="utf-8")
    async with served(shared_folder, option_at(file)) as here:
        first = await settled(here, Request("Springfield"))
        file.write_text(code.replace('"bill", lambda', '"meter", lambda'), encoding="utf-8")
        await here.restart("same")
        reply = await here.send(0, answering(first))
        assert reply.code == types.INVALID_PARAMS
        assert "another version" in (reply.message or "")
        assert await here.effects() == {"audit": 1, "bill": 0}


async def test_a_file_that_another_process_has_is_refused(shared_folder: Path) -> None:
    async with served(shared_folder) as here:
        await settled(here, Request("Springfield"))
        with pytest.raises(WrongDatabase, match="another process has"):
            async with process(f"sqlite:///{shared_folder / CALLS}"):
                pass
