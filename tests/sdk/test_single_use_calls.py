"""Tests of calls that have a name: made again by mistake, on purpose, by others, or too late."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options import sdk
from mrtr_options.sdk.call_key import CALL, REPEAT
from mrtr_options.sdk.single_use.reservations import Claim
from mrtr_options.sdk.testing import Losing, client, served
from tests.bounds import SECONDS
from tests.sdk.bank import (
    DECLINED,
    SURE,
    Bank,
    Transfer,
    Yes,
    at,
    calling,
    reason_of,
    said,
    since,
)
from tests.sdk.fakes import ON_ASYNCIO, Context, Params, first_of, modern, until
from tests.sending import Response

pytestmark = pytest.mark.anyio

REUSED = (types.INVALID_PARAMS, "call_reused")


async def test_an_open_call_that_is_made_again_gets_its_open_question(store: Any) -> None:
    bank = Bank()
    async with at(bank, store) as caller:
        first = await caller.send()
        again = await caller.send()
        assert again.input_requests == first.input_requests
        assert (again.meta or {})[CALL] == (first.meta or {})[CALL]
        assert REPEAT not in (first.meta or {})
        done = await caller.send(asked=again)
        assert said(done) == said(await caller.send(asked=first)) == "100 transferred"
    assert bank.asked == 1
    assert bank.transfers == [100]


async def test_an_ended_call_that_is_made_again_gets_its_result_which_says_so(store: Any) -> None:
    bank = Bank()
    before = datetime.now(UTC)
    async with at(bank, store) as caller:
        done = await caller.send(asked=await caller.send())
        assert REPEAT not in (done.meta or {})
        for _ in range(2):
            again = await caller.send()
            assert first_of(again) == done
            age = since(again) - before
            assert -0.001 <= age.total_seconds() <= SECONDS
    assert bank.transfers == [100]


async def test_a_round_that_is_sent_again_gets_a_result_that_says_so_without_any_name(
    store: Any,
) -> None:
    bank = Bank()
    async with calling(bank.server(sdk.single_use(store))) as (caller,):
        asked = await caller.send()
        done = await caller.send(asked=asked)
        again = await caller.send(asked=asked)
    assert first_of(again) == done
    assert REPEAT not in (done.meta or {})
    assert REPEAT in again.meta


async def test_a_model_is_told_of_a_repeated_call_and_not_of_a_repeated_round(store: Any) -> None:
    bank = Bank()
    note = "This was done at {since}; nothing was done now."
    async with at(bank, store, repeat_note=note) as caller:
        asked = await caller.send()
        for _ in range(2):
            assert said(await caller.send(asked=asked)) == "100 transferred"
        again = await caller.send()
        time_of_first = again.meta[REPEAT]["since"]
        expected = f"This was done at {time_of_first}; nothing was done now. 100 transferred"
        assert said(again) == expected


async def test_a_name_with_other_arguments_is_refused_while_open_and_after(store: Any) -> None:
    bank = Bank()
    async with at(bank, store) as caller:
        asked = await caller.send()
        assert await reason_of(caller.send(amount=200)) == REUSED
        await caller.send(asked=asked)
        with pytest.raises(MCPError, match="This argument 'reference' was used with other"):
            await caller.send(amount=200)
    assert bank.transfers == [100]


async def test_another_reference_is_another_call_and_none_names_none(store: Any) -> None:
    bank = Bank()
    async with at(bank, store) as caller:
        for reference in ("R1", "R2", "", ""):
            await caller.send(reference, asked=await caller.send(reference))
    assert bank.transfers == [100] * 4


async def test_a_call_key_names_a_call_without_a_reference(store: Any) -> None:
    bank = Bank()
    key = sdk.new_call_key()
    async with at(bank, store) as caller:
        await caller.send("", asked=await caller.send("", key=key), key=key)
        assert REPEAT in (await caller.send("", key=key)).meta
        another = await caller.send("", key=sdk.new_call_key())
        assert isinstance(another, types.InputRequiredResult), "another intention"
    assert bank.transfers == [100]


async def test_a_callers_name_may_hold_what_a_database_cannot(store: Any) -> None:
    bank = Bank(caller="ada\0")
    async with at(bank, store) as caller:
        await caller.send(asked=await caller.send())
    assert bank.transfers == [100]


async def test_a_number_with_and_without_a_point_is_the_same_argument(store: Any) -> None:
    bank = Bank()
    async with at(bank, store) as caller:
        await caller.send(asked=await caller.send(amount=150), amount=150)
        same: Any = 150.0
        assert REPEAT in (await caller.send(amount=same)).meta
        assert await reason_of(caller.send(amount=151)) == REUSED


async def test_a_round_whose_outcome_is_not_known_refuses_another_answer(store: Any) -> None:
    """The transfer of the first answer may have happened."""
    bank = Bank(half_way=anyio.sleep_forever)
    async with at(bank, store, attempts=2, round_seconds=0.2) as caller:
        asked = await caller.send()
        assert (await reason_of(caller.send(asked=asked)))[1] == "indeterminate"
        bank.half_way = None
        refused = (types.INVALID_PARAMS, "answered_differently")
        unsure = types.ElicitResult(action="accept", content={"sure": False})
        assert await reason_of(caller.send(asked=asked, answer=unsure)) == refused
        assert said(await caller.send(asked=asked)) == "100 transferred"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refused_call_that_is_wanted_after_all_is_asked_again_and_done_once(
    action: Literal["decline", "cancel"], store: Any
) -> None:
    no = types.ElicitResult(action=action)
    bank = Bank()
    async with at(bank, store) as caller:
        for _ in range(2):
            asked = await caller.send()
            refused = await caller.send(asked=asked, answer=no)
            assert "'confirm' was" in said(refused)
            resent = await caller.send(asked=asked, answer=no)
            assert first_of(resent) == refused, "a round that is sent again is a repeat"
        asked = await caller.send(amount=300)
        assert said(await caller.send(amount=300, asked=asked)) == "300 transferred"
        assert said(await caller.send(amount=300)) == "300 transferred"
        assert await reason_of(caller.send()) == REUSED
    assert bank.asked == 3
    assert bank.transfers == [300]


async def test_two_at_once_after_a_refusal_are_one_call(store: Any) -> None:
    bank = Bank()
    responses: list[Any] = []
    async with at(bank, store) as caller:
        await caller.send(asked=await caller.send(), answer=DECLINED)

        async def again() -> None:
            responses.append(await caller.send())

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(again)
        calls = {response.meta[CALL] for response in responses}
        for response in responses:
            await caller.send(asked=response)
    assert len(calls) == 1
    assert bank.transfers == [100]


async def test_a_refused_call_stays_with_its_call_key(store: Any) -> None:
    bank = Bank()
    key = sdk.new_call_key()
    async with at(bank, store) as caller:
        asked = await caller.send("", key=key)
        refused = await caller.send("", asked=asked, answer=DECLINED, key=key)
        assert first_of(await caller.send("", key=key)) == refused
    assert bank.asked == 1
    assert bank.transfers == []


async def test_a_call_whose_client_cannot_be_asked_leaves_its_name_to_one_that_can(
    store: Any,
) -> None:
    bank = Bank()
    guard = sdk.single_use(store, call="reference")
    server = bank.server(guard)
    async with Client(server, mode="2026-07-28") as unable, calling(server) as (able,):
        arguments = {"reference": "R1", "amount": 100}
        for _ in range(2):
            assert (await unable.call_tool("transfer", arguments)).is_error
        await able.send(asked=await able.send())
        assert said(await unable.call_tool("transfer", arguments)) == "100 transferred"
    assert bank.transfers == [100]


async def test_a_call_made_again_at_once_waits_for_the_one_at_work(store: Any) -> None:
    over = anyio.Event()
    bank = Bank(half_way=over.wait)
    results: list[str] = []
    async with at(bank, store) as caller:
        asked = await caller.send()

        async def send(asked: Response | None) -> None:
            results.append(said(await caller.send(asked=asked)))

        async with anyio.create_task_group() as group:
            group.start_soon(send, asked)
            await until(lambda: bank.transfers == [100])
            group.start_soon(send, None)
            over.set()
    assert results == ["100 transferred"] * 2
    assert bank.transfers == [100]


async def fail() -> None:
    """Fail right after a transfer."""
    raise OSError("the network is down")


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_call_that_failed_half_way_is_not_begun_again_unless_its_effects_have_keys(
    attempts: int, store: Any
) -> None:
    bank = Bank(half_way=fail)
    async with at(bank, store, attempts=attempts) as caller:
        asked = await caller.send()
        with pytest.raises(MCPError):
            await caller.send(asked=asked)
        bank.half_way = None
        if attempts == 1:
            expected = (types.INTERNAL_ERROR, "indeterminate")
            assert await reason_of(caller.send()) == expected
            assert bank.transfers == [100]
        else:
            assert said(await caller.send(asked=await caller.send())) == "100 transferred"
            assert bank.transfers == [100] * 3, "the first round was tried twice"


async def test_a_name_is_forgotten_in_its_time_and_no_earlier(path: Path) -> None:
    now = 1_000_000_000.0
    bank = Bank()
    with closing(sdk.SqliteStore(path, keep_seconds=600, clock=lambda: now)) as store:
        async with at(bank, store, call_seconds=5000) as caller:
            await caller.send(asked=await caller.send())
            for reference in range(60):  # meanwhile epochs end, and the store forgets rounds
                now += 80
                await caller.send(f"R-{reference}")
                assert said(await caller.send()) == "100 transferred"
            now += 300
            asked = await caller.send()
            assert isinstance(asked, types.InputRequiredResult)
            await caller.send(asked=asked)
            assert said(await caller.send()) == "100 transferred"
    assert bank.transfers == [100, 100]


async def test_an_open_call_is_known_by_its_latest_round(path: Path) -> None:
    now = 1_000_000_000.0
    bank = Bank()
    with closing(sdk.SqliteStore(path, clock=lambda: now)) as store:
        async with at(bank, store, call_seconds=600) as caller:
            asked = await caller.send()
            now += 550
            await caller.send(asked=asked)
            now += 550
            assert said(await caller.send()) == "100 transferred"
    assert bank.transfers == [100]


async def test_two_servers_on_one_store_share_no_call(store: Any) -> None:
    bank = Bank()
    key = sdk.new_call_key()
    guard = sdk.single_use(store, call="reference")
    async with calling(bank.server(guard), bank.server(guard, "other")) as (here, there):
        for name in (None, key):
            await here.send(asked=await here.send(key=name), key=name)
            assert isinstance(await there.send(key=name), types.InputRequiredResult)


async def test_an_old_client_that_calls_again_gets_the_result(store: Any) -> None:
    bank = Bank()
    guard = sdk.single_use(store, call="reference")
    tool = sdk.Tool("transfer", "T.", Transfer, bank.transfer, [guard, sdk.legacy_shim])
    settings = sdk.Settings(principal=lambda ctx: "ada")
    server = sdk.build_server("bank", tool, settings=settings)

    async def user(context: Any, params: Any) -> types.ElicitResult:
        return SURE

    async with Client(server, mode="legacy", elicitation_callback=user) as old:
        for _ in range(3):
            result = await old.call_tool("transfer", {"reference": "R1", "amount": 100})
            assert said(result) == "100 transferred"
    assert bank.asked == 1
    assert bank.transfers == [100]


@pytest.mark.parametrize("rounds", [1, 5])
async def test_a_repeat_takes_one_read_however_many_rounds_its_call_had(
    rounds: int, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []

    async def tool(ctx: Context, params: Params) -> Response:
        number = int(params.request_state or 0)
        if number == rounds:
            return sdk.text("done")
        return sdk.ask(sdk.Question(f"q{number}", "Sure?", Yes)).model_copy(
            update={"request_state": str(number + 1)}
        )

    handler = sdk.single_use(store, call="reference", call_is_secret=True)(tool)
    request = Params(name="tool", arguments={"reference": "R1"})
    response: Any = await handler(modern(), request)
    while isinstance(response, types.InputRequiredResult):
        yes = SURE
        answers: Any = dict.fromkeys(response.input_requests or {}, yes)
        update = {"input_responses": answers, "request_state": response.request_state}
        response = await handler(modern(), request.model_copy(update=update))
    execute = store._execute

    def count(statement: str, values: Any) -> Any:
        statements.append(statement.split()[0])
        return execute(statement, values)

    monkeypatch.setattr(store, "_execute", count)
    assert first_of(await handler(modern(), request)) == response
    assert statements == ["SELECT"]


@pytest.mark.parametrize("caller", [None, "ada"])
async def test_a_call_takes_as_many_steps_where_thousands_are_kept(
    caller: str | None, path: Path
) -> None:
    """Count the steps of SQLite's machine, since times would vary."""
    with closing(sdk.SqliteStore(path, max_rounds_per_caller=5_000)) as store:
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        async def reserve(name: str) -> int:
            nonlocal steps
            steps = 0
            given = Claim(name, "", 0.0, 60, caller, call=name, call_seconds=1e5)
            assert await store.reserve(given) is None
            return steps

        db: sqlite3.Connection = store._db  # pyright: ignore[reportPrivateUsage]
        db.set_progress_handler(step, 1)
        few = [await reserve(f"{number}") for number in range(10)]
        many = [await reserve(f"of many {number}") for number in range(3_000)]
    assert many[-1] < 1.2 * few[-1]


@ON_ASYNCIO
@pytest.mark.parametrize("declines", [0, 1])
async def test_over_http_on_two_instances_a_lost_result_and_a_call_made_again_transfer_once(
    declines: int, path: Path
) -> None:
    """Make a new connection for every call, as a host does that calls again."""
    bank = Bank(caller=None)
    answered = 0

    async def user(context: Any, params: Any) -> types.ElicitResult:
        nonlocal answered
        answered += 1
        if answered <= declines:
            return DECLINED
        return SURE

    async def call(url: str, reference: str = "R1", losing: Losing | None = None) -> Any:
        async with client(url, user, losing) as connected:
            arguments = {"reference": reference, "amount": 100}
            return await connected.call_tool("transfer", arguments)

    with closing(sdk.SqliteStore(path)) as one, closing(sdk.SqliteStore(path)) as other:
        guards = [
            sdk.single_use(each, call="reference", call_is_secret=True) for each in (one, other)
        ]
        servers = [bank.server(guard) for guard in guards]
        async with served(servers[0]) as here, served(servers[1]) as there:
            for _ in range(declines):
                assert "declined" in said(await call(there))
            with pytest.raises(BaseExceptionGroup) as lost:
                await call(here, losing=Losing([2]))
            assert lost.value.subgroup(httpx2.ReadError) is not None
            again = await call(there)
            assert said(again) == "100 transferred"
            assert since(again) <= datetime.now(UTC)
            assert said(await call(here)) == "100 transferred"
            assert bank.transfers == [100], "the call was made three times"
            assert said(await call(there, "R2")) == "100 transferred"
            assert bank.transfers == [100, 100], "the user meant two"
    assert answered == declines + 2


async def test_a_question_that_nobody_answered_in_time_frees_its_name(path: Path) -> None:
    """Begin the call with this name again, since its state is too old to be answered."""
    now = 1_000_000_000.0
    bank = Bank()
    with closing(sdk.SqliteStore(path, keep_seconds=600, clock=lambda: now)) as store:
        async with at(bank, store) as caller:
            await caller.send()
            now += 599
            asked = await caller.send()
            assert bank.asked == 1  # the question may still be answered
            now += 2
            asked_anew = await caller.send()
            assert bank.asked == 2
            expired = (types.INVALID_PARAMS, "request_state_expired")
            assert await reason_of(caller.send(asked=asked)) == expired
            await caller.send(asked=asked_anew)
            now += 601
            assert said(await caller.send()) == "100 transferred"  # a result is stored for longer
    assert bank.transfers == [100]


async def test_a_question_that_nobody_answered_in_time_stays_with_its_call_key(path: Path) -> None:
    now = time.time()
    bank = Bank()
    key = sdk.new_call_key()
    with closing(sdk.SqliteStore(path, keep_seconds=600, clock=lambda: now)) as store:
        async with at(bank, store) as caller:
            now += 1
            await caller.send("", key=key)
            now += 590
            await caller.send("", key=key)
    assert bank.asked == 1
