"""Tests of `sdk.Calls`: a decorated function is sealed, guarded, named, and asks old clients."""

from __future__ import annotations

import logging
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from pydantic import Field

from mrtr_options import sdk
from mrtr_options.review.bench.client import MODES
from mrtr_options.sdk import waiting as waits
from mrtr_options.sdk.protection import ANSWER_BY
from tests.restaurant import call as book_table
from tests.restaurant import lowlevel, tool
from tests.sdk.shop import (
    KEY,
    TIERS,
    WANTED,
    Bank,
    Make,
    Paid,
    User,
    calls_in,
    instance,
    one_round,
    told,
)
from tests.sending import text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


DONE = "Refunded 40: p-1, receipt True, by clerk"


@TIERS
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_both_tiers_ask_both_eras_the_whole_conversation_once(
    make: Make, era: str, path: Path
) -> None:
    bank, user = Bank(), User()
    server = instance(make, path, bank)
    assert await told(server, user, era) == DONE
    assert (await told(server, user, era)).endswith(DONE)
    assert len(bank.paid) == 1
    assert user.asked == ["Refund 40 on o-1?", "Send a receipt?"]


@TIERS
async def test_a_state_is_sealed_and_a_made_up_one_is_refused(make: Make, path: Path) -> None:
    server = instance(make, path, Bank())
    consent = await one_round(server)
    _, token = str(consent.request_state).split(".")
    assert b'"asked"' not in urlsafe_b64decode(f"{token}==")
    made_up = consent.model_copy(update={"request_state": f"{consent.request_state[:-4]}AAAA"})
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        await one_round(server, made_up)


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_no_yes_is_not_done_and_frees_the_name(action: str, path: Path) -> None:
    bank = Bank()
    server = instance(MCPServer, path, bank)
    assert await told(server, User("no", action)) == "Nothing was refunded."
    assert bank.paid == []
    assert await told(server, User()) == DONE


async def test_two_versions_ask_once_each_in_their_words(path: Path) -> None:
    bank = Bank()
    old, new = (instance(Server, path, bank, fee) for fee in ("", ", fee 2"))
    again = await one_round(new, await one_round(old))
    assert [each.params.message for each in again.input_requests.values()] == [
        "Refund 40 on o-1, fee 2?"
    ]
    # Either version finds the consent to its own words.
    assert "Send a receipt?" in str((await one_round(old, again)).input_requests)


async def test_a_client_that_cannot_be_asked_is_told_so(path: Path) -> None:
    server = instance(MCPServer, path, Bank())
    async with Client(server, mode=MODES["modern"]) as client:
        result = await client.call_tool("refund", WANTED)
    assert result.is_error
    assert text_of(result) == "This client cannot ask its user: Refund 40 on o-1?"


@TIERS
async def test_a_tool_is_listed_beside_others_as_its_function_says(make: Make, path: Path) -> None:
    server = make("shop")
    calls = calls_in(path)

    @calls.tool(server, name_by="reference")
    async def find(
        call: sdk.Call, reference: Annotated[str, Field(description="Yours")], near: int = 3
    ) -> Paid:
        """Find a payment."""
        return Paid(id=reference, amount=near)

    reads = types.ToolAnnotations(read_only_hint=True)

    @calls.tool(server, name_by="reference", annotations=reads)
    async def other(call: sdk.Call, reference: str) -> types.CallToolResult:
        """Do another thing."""
        return sdk.text("other")

    async with Client(server, mode=MODES["modern"], elicitation_callback=User()) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        result = await client.call_tool("find", {"reference": "r-9"})
        assert text_of(await client.call_tool("other", {"reference": "r-9"})) == "other"
    assert set(listed) == {"find", "other"}
    assert listed["find"].annotations == types.ToolAnnotations(idempotent_hint=True)
    assert listed["other"].annotations == reads
    assert listed["find"].description == "Find a payment."
    assert listed["find"].input_schema["required"] == ["reference"]
    assert "Yours" in listed["find"].input_schema["properties"]["reference"]["description"]
    assert set((listed["find"].output_schema or {})["properties"]) == {"id", "amount"}
    assert result.structured_content == {"id": "r-9", "amount": 3}


async def test_progress_is_told_to_the_client_that_waits(path: Path) -> None:
    server, heard = MCPServer("shop"), list[tuple[float, float | None, str | None]]()

    @calls_in(path).tool(server, name_by="reference")
    async def refund(call: sdk.Call, reference: str) -> str:
        await call.report_progress(1, 2, "half")
        return "done"

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with Client(server, mode=MODES["modern"]) as client:
        await client.call_tool("refund", {"reference": "r-1"}, progress_callback=hear)
    assert heard == [(1, 2, "half")]


def on_clock(make: Make, clock: Callable[[], float], path: Path) -> Any:
    """Build an instance with this clock."""
    settings = sdk.Settings(keys=[KEY], clock=clock, principal=lambda ctx: "clerk")
    calls = sdk.Calls(sdk.SqliteStore(path, clock=clock), settings=settings)
    return instance(make, path, Bank(), calls=calls)


@TIERS
async def test_a_question_says_each_time_until_when_its_answer_is_taken_and_it_is_so(
    make: Make, path: Path
) -> None:
    now = begun = 2_000_000_000.0
    server = on_clock(make, lambda: now, path)
    asked = await one_round(server)
    told = asked.meta[ANSWER_BY]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told)
    deadline = datetime.fromisoformat(told).timestamp()
    assert deadline == begun + 600
    now += 50
    assert (await one_round(server)).meta[ANSWER_BY] == told
    now = deadline + 1
    with pytest.raises(MCPError) as refused:
        await one_round(server, asked)
    assert refused.value.error.data["reason"] == "request_state_expired"
    now = deadline - 1
    assert "receipt" in str(await one_round(server, asked))


async def test_a_state_from_the_future_is_told_to_who_runs_the_server(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ahead, behind = (
        on_clock(Server, partial(float, now), path) for now in (2_000_000_100, 2_000_000_000)
    )
    asked = await one_round(ahead)
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        await one_round(behind, asked)
    assert "the clocks of two instances differ" in caplog.text


@TIERS
async def test_the_argument_that_names_a_call_says_when_to_send_another(
    make: Make, path: Path
) -> None:
    server = instance(make, path, Bank())
    async with Client(server, mode=MODES["modern"]) as client:
        (listed,) = (await client.list_tools()).tools
    said = {
        name: each.get("description") for name, each in listed.input_schema["properties"].items()
    }
    assert said["order"] is None
    assert "send the same one again after an error" in said["reference"]


@TIERS
async def test_a_call_of_arguments_that_a_next_version_refuses_is_repeated(
    make: Make, path: Path
) -> None:
    bank, next_version = Bank(), make("shop")

    @calls_in(path).tool(next_version, name_by="reference")
    async def refund(call: sdk.Call, order: str, reference: str, amount: Less = 40) -> str:
        raise AssertionError("a second refund begins")

    done = await told(instance(make, path, bank), User())
    assert (await told(next_version, User())).endswith(done)
    assert "do not fit: amount" in await told(next_version, User(), reference="r-2")
    async with Client(next_version, mode=MODES["modern"]) as client:
        (listed,) = (await client.list_tools()).tools
    assert listed.input_schema["properties"]["amount"]["maximum"] == 30


def waiting(path: Path, look: Callable[[], str | None], **settings: Any) -> Any:
    """Build an instance whose tool waits for a payment, and asks something after it."""
    server = MCPServer("shop")
    made = sdk.Settings(keys=[KEY], principal=lambda ctx: "clerk", **settings)
    calls = sdk.Calls(sdk.SqliteStore(path), settings=made)

    @calls.tool(server, name_by="reference")
    async def refund(call: sdk.Call, order: str, reference: str, amount: int) -> str:
        try:
            paid = await call.until("payment", look, seconds=600)
        except sdk.NotInTime:
            raise sdk.NotDone("It was not paid in time.") from None
        return f"{paid}, receipt {await call.confirm('A receipt?')}"

    return server


async def test_a_call_waits_for_what_is_done_elsewhere_as_long_as_its_user_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "ROUND_WAIT_SECONDS", 0.0)  # each round looks once
    user = User()
    server = waiting(path, iter([None, None, "paid"]).__next__)
    assert await told(server, user) == "paid, receipt True"
    assert [each for each in user.asked if "Go on waiting?" in each] == user.asked[:2]
    impatient = User("no")
    said = await told(waiting(path, lambda: None), impatient, reference="r-2")
    assert said == "It was not paid in time."


async def test_a_call_waits_by_the_clock_of_its_server(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "ROUND_WAIT_SECONDS", 0.0)
    now, user = 2_000_000_000.0, User()

    def look() -> None:
        nonlocal now
        now += 400  # two looks take longer than the ten minutes

    server = waiting(path, look, clock=lambda: now)
    assert await told(server, user) == "It was not paid in time."
    assert len(user.asked) == 1


# --- a client that registers anew -----------------------------------------------------------------


@contextmanager
def signed_in(client_id: str, subject: str | None = "ada") -> Generator[None]:
    """Let requests come with the token of a client."""
    token = AccessToken(
        token="t", client_id=client_id, scopes=[], subject=subject, claims={"iss": "https://id"}
    )
    reset = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(reset)


def by_subject(path: Path, bank: Bank) -> Any:
    """Build an instance whose names are of subjects, and whose states are of their clients."""
    calls = sdk.Calls(sdk.SqliteStore(path), keys=[KEY])
    return instance(MCPServer, path, bank, calls=calls, caller=sdk.subject_of)


async def test_who_registers_anew_between_two_calls_is_charged_once(path: Path) -> None:
    bank = Bank()
    server = by_subject(path, bank)
    with signed_in("client 1"):
        first = await told(server, User())
        assert "p-1" in first
    with signed_in("client 2"):
        assert (await told(server, User())).endswith(f"its result was:\n{first}")
    with signed_in("client 1", "bob"):
        assert "p-2" in await told(server, User())
    with signed_in("client 1", None):
        assert "does not know who calls" in await told(server, User())


async def test_who_registers_anew_in_a_call_is_asked_the_open_question(path: Path) -> None:
    bank = Bank()
    server = by_subject(path, bank)
    with signed_in("client 1"):
        asked = await one_round(server)
    with signed_in("client 2"):
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await one_round(server, asked)
        again = await one_round(server)
        assert again.input_requests == asked.input_requests
        assert "p-1" in text_of(await one_round(server, await one_round(server, again)))
    assert len(bank.paid) == 1


# --- what cannot work is refused when it is written -----------------------------------------------


async def _untyped(call: sdk.Call, reference: Any = None) -> str:
    return ""


async def _silent(call: sdk.Call, reference: str) -> None:
    pass


def _plain(call: sdk.Call, reference: str) -> str:
    return ""


async def _many(call: sdk.Call, *references: str) -> str:
    return ""


async def _private(call: sdk.Call, reference: str, _note: str = "") -> str:
    return _note


del _untyped.__annotations__["reference"]
NO_TOOLS: list[Any] = [_untyped, _silent, _plain, _many, _private]


@pytest.mark.parametrize("function", NO_TOOLS)
def test_a_function_that_is_no_tool_is_refused(function: Any, path: Path) -> None:
    add: Any = calls_in(path).tool(MCPServer("shop"), name_by="reference")
    with pytest.raises(TypeError, match=r"calls.tool takes `async def"):
        add(function)


Less = Annotated[int, Field(le=30)]


OURS = {"keys": [KEY]}
REFUSES = pytest.raises(ValueError, match="protected with other settings")


SETTINGS: list[tuple[Any, Any, Any]] = [
    ({}, {}, nullcontext()),  # they share a key of their process
    (OURS, {"keys": (KEY,)}, nullcontext()),
    (OURS, {"keys": [KEY[::-1], KEY]}, REFUSES),
    (OURS, {**OURS, "settings": sdk.Settings(ttl_seconds=60)}, REFUSES),
    (OURS, {**OURS, "caller": sdk.subject_of}, REFUSES),
]


@pytest.mark.parametrize(("one", "other", "fits"), SETTINGS)
def test_two_objects_of_one_server_need_the_same_settings(
    one: Any, other: Any, fits: Any, path: Path
) -> None:
    server, store = MCPServer("shop"), sdk.SqliteStore(path)
    sdk.Calls(store, **one).tool(server, name_by="reference", call_is_secret=True)
    with fits:
        sdk.Calls(store, **other).tool(server, name_by="reference", call_is_secret=True)


def _of_three(reference: str, amount: int, currency: str) -> bool:
    return False


@pytest.mark.parametrize(("more", "settled"), [((), _of_three), (("a note",), None)])
async def test_what_an_effect_or_settled_cannot_be_given_is_refused_before_the_effect(
    more: Any, settled: Any, path: Path
) -> None:
    bank, server = Bank(), MCPServer("shop")

    @calls_in(path).tool(server, name_by="reference")
    async def refund(call: sdk.Call, reference: str, order: str, amount: int) -> str:
        given: Any = (reference, amount, *more)
        return str(await call.once("refund", bank.pay, *given, settled=settled))

    assert "was done. It may be sent again" in await told(server, User())
    assert bank.paid == []


async def test_an_effect_that_yields_is_told_as_nothing_done(path: Path) -> None:
    server = MCPServer("shop")

    @calls_in(path).tool(server, name_by="reference")
    async def refund(call: sdk.Call, reference: str, order: str, amount: int) -> str:
        def pay_in_parts() -> Generator[int]:
            yield amount

        return str(await call.once("refund", pay_in_parts))

    assert "was done. It may be sent again" in await told(server, User())


async def test_an_effect_may_be_a_function_in_c(path: Path) -> None:
    server, paid = MCPServer("shop"), dict[str, int]()

    @calls_in(path).tool(server, name_by="reference")
    async def refund(call: sdk.Call, order: str, reference: str, amount: int) -> str:
        await call.once("pay", paid.update, {reference: amount})
        return "Refunded."

    assert await told(server, User()) == "Refunded."
    assert paid == {"r-1": 40}


async def test_settled_is_given_what_it_needs_and_keeps_its_own_defaults(path: Path) -> None:
    bank, server = Bank(troubles=[TimeoutError()]), MCPServer("shop")

    async def find(reference: str, seconds: float = 0.5) -> Paid | bool | None:
        return seconds == 0.5 and await bank.find(reference)

    @calls_in(path).tool(server, name_by="reference")
    async def refund(call: sdk.Call, reference: str, order: str, amount: int) -> str:
        return (await call.once("refund", bank.pay, reference, amount, settled=find)).id

    assert await told(server, User()) == "p-1"


def warnings_of(log: pytest.LogCaptureFixture, make: Callable[[], object]) -> list[str]:
    with log.at_level(logging.WARNING, "mrtr_options.sdk.calls"):
        make()
    return [each.getMessage() for each in log.records]


def test_it_says_at_the_start_where_two_instances_would_differ(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MRTR_STATE_KEYS", raising=False)
    no_key, in_memory = warnings_of(caplog, lambda: sdk.Calls(sdk.SqliteStore(":memory:")))
    assert "MRTR_STATE_KEYS is not set" in no_key
    assert "calls are kept in this process" in in_memory
    caplog.clear()
    (in_file,) = warnings_of(caplog, lambda: calls_in(path))
    assert str(path) in in_file
    assert "PostgresStore" in in_file


async def test_one_account_that_fills_the_store_is_told_to_who_runs_the_server(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("shop")
    store = sdk.SqliteStore(path, max_rounds_per_caller=2)
    calls = sdk.Calls(store, keys=[KEY], caller=lambda ctx: "host")

    @calls.tool(server, name_by="reference")
    async def refund(call: sdk.Call, reference: str) -> str:
        return "done"

    said = [await told(server, User(), reference=f"r-{number}") for number in range(3)]
    assert said[:2] == ["done", "done"]
    assert "tell who runs the server" in said[2]
    assert "max_rounds_per_caller" in caplog.text


async def test_a_guard_that_does_nothing_for_a_tool_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hours(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        return sdk.text("at eight")

    guard = sdk.single_use(sdk.SqliteStore(":memory:"))
    server = lowlevel(tool(hours, guard))
    for _ in range(2):
        await book_table(server)
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "has no name" in said
    assert "single_use(store, call=...)" in said


@pytest.mark.filterwarnings("ignore:Field name")
async def test_an_argument_may_have_a_name_of_pydantics(path: Path) -> None:
    server = Server("shop")

    @calls_in(path).tool(server, name_by="model_extra")
    async def refund(call: sdk.Call, model_extra: str) -> str:
        return f"Refunded {model_extra}."

    assert await told(server, User(), model_extra="r-1") == "Refunded r-1."
