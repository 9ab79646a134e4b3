"""Tests of what a call's name is after each ending, whichever stand-in runs the call's effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from pydantic import BaseModel, SecretStr

from mrtr_options import sdk
from mrtr_options.sdk.call_key import REPEAT
from tests.sdk.fakes import Params, deliver, named, result, who

pytestmark = pytest.mark.anyio

NO: types.InputResponses = {"two": types.ElicitResult(action="decline")}
ONE = named("Ann", "one")


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
    trouble: Exception | None = None
    refusal: Exception | None = None
    keys: list[str] = field(default_factory=list[str])

    def charge(self, key: str = "") -> int:
        if self.refusal is not None:
            raise self.refusal
        self.charged += 1
        self.keys.append(key)
        if self.trouble is not None:
            raise self.trouble
        return self.charged


def replaying(till: Till) -> Any:
    """Make J's tool: it asks, charges, and asks for a receipt."""

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        await ctx.elicit(who("one"))
        number = await ctx.once("pay", till.charge)
        await ctx.elicit(who("two"))
        return result(f"charge {number}")

    return sdk.keyed_replay(pay)


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


TOOLS = [replaying, with_markers]


def guarded(handler: Any, store: Any, **more: Any) -> Any:
    """Return a tool in the guard, which names its calls by their reference."""
    guard = sdk.single_use(store, call="reference", call_is_secret=True, **more)
    return sdk.Tool("pay", "Pays.", Wanted, handler, [guard]).call


def text_of(response: Any) -> str:
    """Return the texts of a result."""
    return " ".join(each.text for each in response.content)


async def error_of(call: Callable[[], Awaitable[Any]]) -> MCPError:
    """Return the error that a round ends in."""
    with pytest.raises(MCPError) as refusal:
        await call()
    return refusal.value


# --- 1: a name is kept once an effect has happened ------------------------------------------------


@pytest.mark.parametrize("make", TOOLS)
async def test_a_refusal_after_an_effect_keeps_the_name_and_says_what_was_done(
    make: Callable[[Till], Any], store: Any
) -> None:
    till = Till()
    tool = guarded(make(till), store)
    receipt = await deliver(tool, await deliver(tool, reference=1), ONE, reference=1)
    refused = await deliver(tool, receipt, NO, reference=1)
    assert "'two' was declined" in text_of(refused)
    assert "'pay'" in text_of(refused)
    assert await deliver(tool, reference=1) == refused
    assert till.charged == 1


@pytest.mark.parametrize("make", TOOLS)
async def test_a_refusal_before_any_effect_frees_the_name(
    make: Callable[[Till], Any], store: Any
) -> None:
    till = Till()
    tool = guarded(make(till), store)
    no: types.InputResponses = {"one": types.ElicitResult(action="cancel")}
    refused = await deliver(tool, await deliver(tool, reference=1), no, reference=1)
    assert text_of(refused) == "The question 'one' was cancelled."
    receipt = await deliver(tool, await deliver(tool, reference=1), ONE, reference=1)
    done = await deliver(tool, receipt, named("Bob", "two"), reference=1)
    assert text_of(done) == "charge 1"


async def test_a_question_after_an_effect_that_nobody_answered_in_time_is_asked_again(
    path: Any,
) -> None:
    now = 2_000_000_000.0
    store = sdk.SqliteStore(path, clock=lambda: now)
    till = Till()
    tool = guarded(replaying(till), store)
    receipt = await deliver(tool, await deliver(tool, reference=1), ONE, reference=1)
    now += 700
    expired = await error_of(lambda: deliver(tool, receipt, NO, reference=1))
    assert expired.error.data["reason"] == "request_state_expired"
    again = await deliver(tool, reference=1)
    done = await deliver(tool, again, named("Bob", "two"), reference=1)
    assert text_of(done) == "charge 1"
    store.close()


# --- 2, 3: names and digests are of the arguments as they are read --------------------------------


@pytest.mark.parametrize("reference", [7, "7", 7.0])
async def test_a_name_is_the_argument_as_the_model_reads_it(reference: Any, store: Any) -> None:
    till = Till()
    tool = guarded(replaying(till), store)
    receipt = await deliver(tool, await deliver(tool, reference=7), ONE, reference=7)
    again = await deliver(tool, reference=reference)
    assert again.input_requests == receipt.input_requests  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "more", [{"amount": 100}, {"amount": "100"}, {"surprise": 1}, {"note": ""}]
)
async def test_defaults_and_unknown_arguments_make_no_other_call(more: Any, store: Any) -> None:
    till = Till()
    tool = guarded(replaying(till), store)
    asked = await deliver(tool, reference=1)
    assert await deliver(tool, reference=1, **more) == asked


async def test_the_author_says_which_arguments_must_be_the_same(store: Any) -> None:
    tool = guarded(replaying(Till()), store, same=("amount",))
    asked = await deliver(tool, reference=1, note="rent")
    assert await deliver(tool, reference=1, note="the rent") == asked
    error = await error_of(lambda: deliver(tool, reference=1, amount=5))
    assert "waits for an answer" in str(error)
    assert "only if the user wants it done once more" in str(error)


class Secret(BaseModel):
    """Arguments in which a secret names the call, and its text may be written in two ways."""

    reference: SecretStr


async def test_a_secret_and_an_accent_name_calls_by_their_text(store: Any) -> None:
    guard = sdk.single_use(store, call="reference", call_is_secret=True)
    tool = sdk.Tool("pay", "Pays.", Secret, replaying(Till()), [guard]).call
    asked = [await deliver(tool, reference=each) for each in ("\u00e9", "e\u0301", "tea")]
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


async def test_a_number_of_thousands_of_digits_is_refused_as_an_argument(store: Any) -> None:
    tool = guarded(replaying(Till()), store)
    error = await error_of(lambda: deliver(tool, reference=10**5000))
    assert error.error.code == types.INVALID_PARAMS
    error = await error_of(lambda: deliver(tool, reference=1, amount=10**5000))
    assert error.error.code == types.INVALID_PARAMS


# --- 4: the first delivery is told what is recorded -----------------------------------------------


@pytest.mark.parametrize("make", TOOLS)
async def test_an_effect_that_raised_is_told_as_in_doubt_at_once_and_again(
    make: Callable[[Till], Any], store: Any
) -> None:
    till = Till(trouble=TimeoutError())
    tool = guarded(make(till), store)
    asked = await deliver(tool, reference=1)
    for _ in range(2):
        error = await error_of(lambda: deliver(tool, asked, ONE, reference=1))
        assert error.error.data["reason"] == "indeterminate"
        assert error.error.data["may_have_happened"] is True
        assert "'pay'" in str(error)
    assert till.charged == 1


async def test_an_effect_on_commit_that_raised_is_told_as_in_doubt_at_once(store: Any) -> None:
    till = Till(trouble=TimeoutError())

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        ctx.on_commit(till.charge, key="pay")
        return result("paid")

    tool = guarded(sdk.keyed_replay(pay), store)
    for _ in range(2):
        error = await error_of(lambda: deliver(tool, reference=1))
        assert error.error.data["reason"] == "indeterminate"
    assert till.charged == 1


# --- 5: a repeated error says so ------------------------------------------------------------------


async def test_a_repeated_error_says_so_to_programs_and_models(store: Any) -> None:
    async def closed(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        raise MCPError(-32000, "closed, try again at 9")

    tool = guarded(sdk.keyed_replay(closed), store, repeat_note="Said before, at {since}:")
    first = await error_of(lambda: deliver(tool, reference=1))
    again = await error_of(lambda: deliver(tool, reference=1))
    assert str(first) == "closed, try again at 9"
    since = again.error.data["repeat"]["since"]
    assert str(again) == f"Said before, at {since}: closed, try again at 9"


# --- 7: what has done nothing is given back -------------------------------------------------------


async def test_a_call_that_failed_above_its_effect_may_be_made_again(store: Any) -> None:
    is_down = [True]
    till = Till()

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        if is_down:
            raise OSError("the price list is down")
        return result(f"charge {await ctx.once('pay', till.charge)}")

    tool = guarded(sdk.keyed_replay(pay), store)
    error = await error_of(lambda: deliver(tool, reference=1))
    assert error.error.data["reason"] == "nothing_done"
    is_down.clear()
    assert text_of(await deliver(tool, reference=1)) == "charge 1"


async def test_not_done_frees_the_name_also_where_an_effect_was_refused(store: Any) -> None:
    till = Till(refusal=OSError("only 75.00 is left"))

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        try:
            number = await ctx.once("pay", till.charge)
        except OSError as error:
            raise sdk.NotDone(f"Nothing was paid: {error}.") from None
        return result(f"charge {number}")

    tool = guarded(sdk.keyed_replay(pay), store)
    assert text_of(await deliver(tool, reference=1)) == "Nothing was paid: only 75.00 is left."
    till.refusal = None
    assert text_of(await deliver(tool, reference=1)) == "charge 1"


async def test_not_done_after_an_effect_keeps_the_name(store: Any) -> None:
    till = Till()

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        await ctx.once("pay", till.charge)
        raise sdk.NotDone("Nothing was done.")

    tool = guarded(sdk.keyed_replay(pay), store)
    refused = await deliver(tool, reference=1)
    assert "'pay'" in text_of(refused)
    again = await deliver(tool, reference=1)
    assert again == refused
    assert till.charged == 1


# --- 10: unknown, and the destination is asked ----------------------------------------------------


@pytest.mark.parametrize(
    ("settled", "told", "charged"),
    [(lambda: 1, "charge 1", 1), (lambda: False, "nothing known", 1), (lambda: None, "", 1)],
)
async def test_the_destination_is_asked_about_an_effect_that_raised(
    settled: Any, told: str, charged: int, store: Any
) -> None:
    till = Till(trouble=TimeoutError())

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        try:
            number = await ctx.once("pay", till.charge, settled=settled)
        except TimeoutError:
            raise sdk.Unknown("nothing known") from None
        return result(f"charge {number}")

    tool = guarded(sdk.keyed_replay(pay), store)
    if told:
        assert text_of(await deliver(tool, reference=1)) == told
    else:
        error = await error_of(lambda: deliver(tool, reference=1))
        assert error.error.data["reason"] == "indeterminate"
    assert till.charged == charged


@pytest.mark.parametrize(("known", "charged"), [(False, 2), (1, 1)])
async def test_an_unknown_call_that_is_made_again_looks_first(
    known: Any, charged: int, store: Any
) -> None:
    till = Till(trouble=TimeoutError())
    is_reached: list[bool] = []

    def look() -> Any:
        if not is_reached:
            raise ConnectionError("the bank is away")
        return known

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        try:
            return result(f"charge {await ctx.once('pay', till.charge, settled=look)}")
        except ConnectionError:
            raise sdk.Unknown("Not known whether it was paid. Call again.") from None

    tool = guarded(sdk.keyed_replay(pay), store)
    for _ in range(2):
        assert "Not known" in text_of(await deliver(tool, reference=1))
    assert till.charged == 1
    is_reached.append(True)
    till.trouble = None
    assert text_of(await deliver(tool, reference=1)) == f"charge {charged}"
    assert till.charged == charged


async def test_a_process_that_died_after_the_charge_is_settled_by_the_next(store: Any) -> None:
    till = Till(trouble=KeyboardInterrupt())  # type: ignore[arg-type]

    async def pay(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        number = await ctx.once("pay", till.charge, settled=lambda: till.charged or False)
        return result(f"charge {number}")

    tool = guarded(sdk.keyed_replay(pay), store)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        await deliver(tool, reference=1)
    till.trouble = None
    done = await deliver(tool, reference=1)
    assert text_of(done) == "charge 1"
    assert till.charged == 1
    assert REPEAT not in (done.meta or {})
