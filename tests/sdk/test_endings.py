"""Tests of what a call's name is after each ending, whichever stand-in runs the call's effects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from pydantic import BaseModel, SecretStr

from mrtr_options import sdk
from mrtr_options.sdk.call_key import REPEAT
from tests.bounds import SECONDS
from tests.sdk.fakes import ON_ASYNCIO, Params, deliver, named, no, result, who
from tests.sdk.stores import statements_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

ONE = named("Ann", "one")
TWO = named("Bob", "two")

Send = Callable[..., Awaitable[Any]]


class Wanted(BaseModel):
    """The arguments of the tools below."""

    reference: int
    amount: int = 100
    note: str = ""


@dataclass
class Till:
    """Where the effects go.

    Attributes:
        charged: The number of charges.
        trouble: Raised by a charge that has happened.
        refusal: Raised by a charge before it happens.
    """

    charged: int = 0
    trouble: BaseException | None = None
    refusal: Exception | None = None

    def charge(self, key: str = "") -> int:
        if self.refusal is not None:
            raise self.refusal
        self.charged += 1
        if self.trouble is not None:
            raise self.trouble
        return self.charged


def once(ctx: Any) -> Any:
    """Return how H, J or L does an effect."""
    return ctx.step if isinstance(ctx, sdk.DurableContext) else ctx.once


def paying(till: Till) -> Any:
    """Make a tool of H, J and L: it asks, charges, and asks for a receipt."""

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.elicit(who("one"))
        assert isinstance(ctx, sdk.LinearContext) or await ctx.memo("price", lambda: 5) == 5
        number = await once(ctx)("pay", till.charge)
        await ctx.elicit(who("two"))
        return result(f"charge {number}")

    return pay


class State(sdk.Markers):
    """F's state."""

    paid: bool = False


def with_markers(till: Till) -> Any:
    """Make F's tool, which does the same."""

    async def pay(ctx: sdk.Context, params: Params) -> sdk.Result:
        state = sdk.load_state(params, State)
        if not state.paid:
            if sdk.answer_to(who("one"), ctx, params) is None:
                return sdk.ask(who("one"), state)
            number = await state.once("pay", till.charge)
            state.paid = True
        if sdk.answer_to(who("two"), ctx, params) is None:
            return sdk.ask(who("two"), state)
        number = await state.once("pay", till.charge)
        return result(f"charge {number}")

    return pay


def guarded(handler: Any, store: Any, **more: Any) -> Any:
    """Return a tool in the guard, which names its calls by their reference."""
    options: dict[str, Any] = {"call": "reference", "call_is_secret": True, **more}
    guard = sdk.single_use(store, **options)
    return sdk.Tool("pay", "Pays.", Wanted, handler, [guard]).call


@asynccontextmanager
async def served(stand_in: str, tool: Any, folder: Path) -> AsyncGenerator[Send]:
    """Serve a tool whose calls are named by their reference; the function sends it a round."""
    if stand_in != "L":
        with closing(sdk.SqliteStore(folder / "rounds")) as store:
            async with sdk.ContinuationStore() as parked:
                wrap: dict[str, Any] = {"H": parked.linear, "J": sdk.keyed_replay}
                handler = tool if stand_in == "F" else wrap[stand_in](tool)
                yield partial(deliver, guarded(handler, store), reference=1)
        return
    store = sdk.DurableStore(version="1", wait_seconds=SECONDS)
    linear = store.linear(tool, call="reference", call_is_secret=True)
    call = sdk.Tool("pay", "Pays.", Wanted, linear).call
    async with store.serving(None, database=f"sqlite:///{folder / 'calls'}"):
        yield partial(deliver, call, reference=1)


def standing_in(*stand_ins: str) -> Any:
    """Play a test with each of these stand-ins."""
    return pytest.mark.parametrize("stand_in", stand_ins)


TOOLS: dict[str, Callable[[Till], Any]] = {"F": with_markers, "H": paying, "J": paying, "L": paying}


def text_of(response: Any) -> str:
    """Return the texts of a result."""
    return " ".join(each.text for each in response.content)


async def error_of(call: Awaitable[Any]) -> MCPError:
    """Return the error that a round ends in."""
    with pytest.raises(MCPError) as refusal:
        await call
    return refusal.value


# --- 1: a name is kept once an effect has happened ------------------------------------------------


@standing_in(*TOOLS)
async def test_a_refusal_after_an_effect_keeps_the_name_and_says_what_was_done(
    stand_in: str, tmp_path: Path
) -> None:
    till = Till()
    async with served(stand_in, TOOLS[stand_in](till), tmp_path) as send:
        refused = await send(await send(await send(), ONE), no("two"))
        assert "'two' was declined" in text_of(refused)
        assert "'pay'" in text_of(refused)
        assert await send() == refused
    assert till.charged == 1


@standing_in(*TOOLS)
async def test_a_refusal_before_any_effect_frees_the_name(stand_in: str, tmp_path: Path) -> None:
    async with served(stand_in, TOOLS[stand_in](Till()), tmp_path) as send:
        refused = await send(await send(), no("one", "cancel"))
        assert text_of(refused) == "The question 'one' was cancelled."
        done = await send(await send(await send(amount=5), ONE, amount=5), TWO, amount=5)
        assert text_of(done) == "charge 1"


async def test_a_question_after_an_effect_that_nobody_answered_in_time_is_asked_again(
    path: Path,
) -> None:
    now = 2_000_000_000.0
    with closing(sdk.SqliteStore(path, clock=lambda: now)) as store:
        send = partial(deliver, guarded(sdk.keyed_replay(paying(Till())), store), reference=1)
        receipt = await send(await send(), ONE)
        now += 700
        expired = await error_of(send(receipt, no("two")))
        assert expired.error.data["reason"] == "request_state_expired"
        assert text_of(await send(await send(), TWO)) == "charge 1"


@standing_in("H", "J", "L")
async def test_an_outcome_in_a_task_group_frees_the_name_as_it_does_alone(
    stand_in: str, tmp_path: Path
) -> None:
    async def in_group(key: str = "") -> None:
        async with anyio.create_task_group():
            raise sdk.NotDone("Nothing was paid.")

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        async with anyio.create_task_group():
            await ctx.elicit(who("two"))
        await (in_group() if stand_in == "H" else once(ctx)("pay", in_group))
        return result("paid")

    async with served(stand_in, pay, tmp_path) as send:
        assert text_of(await send(await send(), no("two"))) == "The question 'two' was declined."
        assert text_of(await send(await send(), TWO)) == "Nothing was paid."
        assert isinstance(await send(), types.InputRequiredResult)


# --- 2, 3: names and digests are of the arguments as they are read --------------------------------


@pytest.mark.parametrize(
    ("stand_in", "words"),
    [
        *(("J", {"reference": each}) for each in ("1", 1.0)),
        *(("J", {"amount": each}) for each in (100, "100", 100.0)),
        ("J", {"surprise": 1}),
        ("J", {"note": ""}),
        ("L", {"reference": "1", "amount": "100"}),
    ],
)
async def test_other_words_make_no_other_call(stand_in: str, words: Any, tmp_path: Path) -> None:
    async with served(stand_in, paying(Till()), tmp_path) as send:
        receipt = await send(await send(), ONE)
        assert (await send(**words)).input_requests == receipt.input_requests


async def test_the_author_says_which_arguments_must_be_the_same(store: Any) -> None:
    tool = guarded(sdk.keyed_replay(paying(Till())), store, same=("amount",))
    asked = await deliver(tool, reference=1, note="rent")
    assert await deliver(tool, reference=1, note="the rent") == asked
    error = await error_of(deliver(tool, reference=1, amount=5))
    assert "waits for an answer" in str(error)
    assert "only if the user wants it done once more" in str(error)


async def test_a_repeat_takes_one_read_however_many_rounds_its_call_had(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = partial(deliver, guarded(sdk.keyed_replay(paying(Till())), store), reference=1)
    done = await send(await send(await send(), ONE), TWO)
    statements = statements_of(store, monkeypatch)
    assert await send() == done
    assert [each.split()[0] for each in statements] == ["SELECT"]


class Secret(BaseModel):
    """Arguments in which a secret names the call, and its text may be written in two ways."""

    reference: SecretStr


async def test_a_secret_and_an_accent_name_calls_by_their_text(store: Any) -> None:
    guard = sdk.single_use(store, call="reference", call_is_secret=True)
    tool = sdk.Tool("pay", "Pays.", Secret, sdk.keyed_replay(paying(Till())), [guard]).call
    asked = [await deliver(tool, reference=each) for each in ("\u00e9", "e\u0301", "tea")]
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


@pytest.mark.parametrize(
    ("reference", "amount"), [(10**5000, 1), (1, 10**5000)], ids=["reference", "amount"]
)
async def test_a_number_of_thousands_of_digits_is_refused_as_an_argument(
    reference: int, amount: int, store: Any
) -> None:
    tool = guarded(sdk.keyed_replay(paying(Till())), store)
    error = await error_of(deliver(tool, reference=reference, amount=amount))
    assert error.error.code == types.INVALID_PARAMS


# --- 4: the first delivery is told what is recorded -----------------------------------------------


def committing(till: Till) -> Any:
    """Make a tool of J that charges when all else is done."""

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        await ctx.elicit(who("one"))
        ctx.on_commit(till.charge, key="pay")
        return result("paid")

    return pay


@pytest.mark.parametrize(("stand_in", "make"), [*TOOLS.items(), ("J", committing)])
async def test_an_effect_that_raised_is_told_as_in_doubt_at_once_and_again(
    stand_in: str, make: Callable[[Till], Any], tmp_path: Path
) -> None:
    till = Till(trouble=TimeoutError())
    async with served(stand_in, make(till), tmp_path) as send:
        asked = await send()
        for _ in range(2):
            error = await error_of(send(asked, ONE))
            assert error.error.data["reason"] == "indeterminate"
            assert error.error.data["may_have_happened"] is True
            assert "'pay" in str(error)
    assert till.charged == 1


# --- 5: a repeated error says so ------------------------------------------------------------------


async def test_a_repeated_error_says_so_to_programs_and_models(store: Any) -> None:
    async def closed(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        raise MCPError(-32000, "closed, try again at 9")

    tool = guarded(sdk.keyed_replay(closed), store, repeat_note="Said before, at {since}:")
    first = await error_of(deliver(tool, reference=1))
    again = await error_of(deliver(tool, reference=1))
    assert str(first) == "closed, try again at 9"
    since = again.error.data["repeat"]["since"]
    assert str(again) == f"Said before, at {since}: closed, try again at 9"


# --- 7: what has done nothing is given back -------------------------------------------------------


async def test_a_call_that_failed_above_its_effect_may_be_made_again(tmp_path: Path) -> None:
    is_down = [True]
    till = Till()

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        if is_down:
            raise OSError("the price list is down")
        return result(f"charge {await once(ctx)('pay', till.charge)}")

    async with served("J", pay, tmp_path) as send:
        error = await error_of(send())
        assert error.error.data["reason"] == "nothing_done"
        is_down.clear()
        assert text_of(await send()) == "charge 1"


async def test_not_done_frees_the_name_also_where_an_effect_was_refused(tmp_path: Path) -> None:
    till = Till(refusal=OSError("only 75.00 is left"))

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        try:
            number = await once(ctx)("pay", till.charge)
        except OSError as error:
            raise sdk.NotDone(f"Nothing was paid: {error}.") from None
        return result(f"charge {number}")

    async with served("J", pay, tmp_path) as send:
        assert text_of(await send()) == "Nothing was paid: only 75.00 is left."
        till.refusal = None
        assert text_of(await send()) == "charge 1"


@standing_in("J", "L")
async def test_not_done_after_an_effect_keeps_the_name(stand_in: str, tmp_path: Path) -> None:
    till = Till()

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await once(ctx)("pay", till.charge)
        raise sdk.NotDone("Nothing was done.")

    async with served(stand_in, pay, tmp_path) as send:
        refused = await send()
        assert "'pay'" in text_of(refused)
        assert await send() == refused
    assert till.charged == 1


# --- 10: unknown, and the destination is asked ----------------------------------------------------


def settling(till: Till, look: Callable[[], Any]) -> Any:
    """Make a tool of J and L that charges, and asks the destination where that is needed."""

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        try:
            number = await once(ctx)("pay", till.charge, settled=look)
        except (TimeoutError, ConnectionError):
            raise sdk.Unknown("Not known whether it was paid. Call again.") from None
        return result(f"charge {number}")

    return pay


@standing_in("J", "L")
@pytest.mark.parametrize(("found", "told"), [(7, "charge 7"), (False, "Not known"), (None, "")])
async def test_the_destination_is_asked_about_an_effect_that_raised(
    found: Any, told: str, stand_in: str, tmp_path: Path
) -> None:
    till = Till(trouble=TimeoutError())
    async with served(stand_in, settling(till, lambda: found), tmp_path) as send:
        if told:
            assert told in text_of(await send())
        else:
            assert (await error_of(send())).error.data["reason"] == "indeterminate"
    assert till.charged == 1


@pytest.mark.parametrize(("known", "charged"), [(False, 2), (1, 1)])
async def test_an_unknown_call_that_is_made_again_looks_first(
    known: Any, charged: int, tmp_path: Path
) -> None:
    till = Till(trouble=TimeoutError())
    is_reached: list[bool] = []

    def look() -> Any:
        if not is_reached:
            raise ConnectionError("the bank is away")
        return known

    async with served("J", settling(till, look), tmp_path) as send:
        for _ in range(2):
            assert "Not known" in text_of(await send())
        assert till.charged == 1
        is_reached.append(True)
        till.trouble = None
        assert text_of(await send()) == f"charge {charged}"
    assert till.charged == charged


async def test_a_process_that_died_after_the_charge_is_settled_by_the_next(store: Any) -> None:
    till = Till(trouble=KeyboardInterrupt())
    tool = guarded(sdk.keyed_replay(settling(till, lambda: till.charged or False)), store)
    with pytest.raises(KeyboardInterrupt):
        await deliver(tool, reference=1)
    till.trouble = None
    done = await deliver(tool, reference=1)
    assert text_of(done) == "charge 1"
    assert till.charged == 1
    assert REPEAT not in (done.meta or {})
