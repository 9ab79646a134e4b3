"""Tests of `ctx.until` of H and L: a tool waits for work done elsewhere, seconds for minutes."""

import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from examples.pay_by_link import Shop, buy
from mrtr_options.review.bench.world.starting import program
from mrtr_options.sdk.durable import CallParams, DurableStore
from mrtr_options.sdk.suspended import ContinuationStore, LinearContext
from mrtr_options.sdk.waiting import NotInTime
from tests.sdk.fakes import ON_ASYNCIO, capabilities, deliver, key_of, modern, result
from tests.sending import Response, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

CLIENT = capabilities(form=True, url=True)
OPENED: types.InputResponses = {"pay": types.ElicitResult(action="accept")}


class Folder:
    """A provider and a carrier that processes share: a file is a receipt, a line is a parcel."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def receipt_of(self, order: str) -> str | None:
        """Return the receipt, if its file is there."""
        with (self.path / "looks").open("a") as looks:
            looks.write("look\n")
        file = self.path / order
        return file.read_text() if file.exists() else None

    async def ship(self, order: str, key: str) -> str:
        """Write a line for a parcel."""
        with (self.path / "parcels").open("a") as parcels:
            parcels.write(f"{order} {key}\n")
        return "parcel"

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file."""
        file = self.path / name
        return file.read_text().splitlines() if file.exists() else []

    async def until_looked(self) -> None:
        """Wait until the tool has asked once more."""
        before = len(self.lines("looks"))
        while len(self.lines("looks")) <= before:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.01)


def shop_of(path: Path, seconds: float) -> Shop:
    """Make the shop of a test."""
    folder = Folder(path)
    return Shop(folder.receipt_of, folder.ship, seconds, poll_seconds=0.05)


def store() -> tuple[DurableStore, Any]:
    """Make a store that serves the example."""
    made = DurableStore(version="1", wait_seconds=0.3, rounds=1000)
    return made, made.linear(buy)


async def send(call: Any, answers: Any = None, asked: Response | None = None) -> Response:
    """Send a round of an order."""
    return await deliver(call, asked, answers, ctx=modern(CLIENT), order="A1")


async def waited(call: Any, asked: Response) -> Response:
    """Go on waiting whenever the user is asked."""
    while isinstance(asked, types.InputRequiredResult):
        go_on = {key_of(asked): types.ElicitResult(action="accept")}
        asked = await send(call, go_on, asked)
    return asked


PROCESS = """
import os, sys, anyio
from pathlib import Path
from tests.sdk.test_until import OPENED, Folder, send, shop_of, store

async def main(folder, url):
    made, call = store()
    async with made.serving(shop_of(folder, 60.0), database=url):
        first = await send(call)
        held = await send(call, OPENED, first)
        await Folder(folder).until_looked()  # the answer is on record, and not in the state alone
        (folder / "state").write_text(held.request_state)
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]), sys.argv[2])
"""


async def test_a_payment_by_link_that_arrives_after_a_kill_is_found_and_shipped_once(
    sqlite: str, tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    command = [sys.executable, "-c", PROCESS, str(tmp_path), sqlite]
    with program(command):
        with anyio.fail_after(60):
            while not folder.lines("state"):  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
    asked = types.InputRequiredResult(request_state=folder.lines("state")[0])
    made, call = store()
    with anyio.fail_after(60):
        async with made.serving(shop_of(tmp_path, 60.0), database=sqlite):
            await folder.until_looked()
            assert folder.lines("parcels") == []
            (tmp_path / "A1").write_text("receipt 7")
            said = text_of(await waited(call, await send(call, None, asked)))
    assert said == "Order A1 is paid (receipt 7) and shipped (parcel)."
    assert len(folder.lines("parcels")) == 1


async def test_a_payment_that_does_not_arrive_ends_in_an_outcome_of_its_own(
    engine: str, tmp_path: Path
) -> None:
    made, call = store()
    with anyio.fail_after(60):
        async with made.serving(shop_of(tmp_path, 0.5), database=engine):
            first = await send(call)
            while key_of(first) != "pay":
                first = await send(call, {key_of(first): OPENED["pay"]}, first)
            said = text_of(await waited(call, await send(call, OPENED, first)))
    assert "was not paid in time" in said
    assert not (tmp_path / "parcels").exists()


@pytest.mark.parametrize("is_paid", [True, False])
async def test_a_frame_in_memory_waits_as_long_as_its_process_lives(is_paid: bool) -> None:
    looks = list[int]()

    def check() -> str | None:
        looks.append(1)
        return "receipt 7" if is_paid and len(looks) > 3 else None

    async def handler(ctx: LinearContext[Any], call: CallParams) -> types.CallToolResult:
        try:
            found = await ctx.until("payment", check, seconds=0.3, poll_seconds=0.02)
        except NotInTime as error:
            return result(str(error))
        return result(found)

    async with ContinuationStore() as frames:
        says = text_of(await deliver(frames.linear(handler), ctx=modern(CLIENT)))
    assert says == ("receipt 7" if is_paid else "'payment' was not there after 0.3 s")
