"""Tests of what a call's name is after each ending, whichever stand-in runs the call's effects.

`test_any_tool` has the stories of most endings.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from pydantic import BaseModel, Field

from mrtr_options import sdk
from tests.bounds import SECONDS
from tests.sdk.drawn_requests import text_of
from tests.sdk.fakes import ON_ASYNCIO, Params, deliver, named, no, result, unfit, who
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
    """

    charged: int = 0
    trouble: BaseException | None = None

    def charge(self, key: str = "") -> int:
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


def guarded(handler: Any, store: Any, arguments: type[BaseModel] = Wanted, **more: Any) -> Any:
    """Return a tool in the guard, which names its calls by their reference."""
    options: dict[str, Any] = {"call": "reference", "call_is_secret": True, **more}
    guard = sdk.single_use(store, **options)
    return sdk.Tool("pay", "Pays.", arguments, handler, [guard]).call


@asynccontextmanager
async def served(
    stand_in: str, tool: Any, folder: Path, arguments: type[BaseModel] = Wanted
) -> AsyncGenerator[Send]:
    """Serve a tool whose calls are named by their reference; the function sends it a round."""
    if stand_in != "L":
        with closing(sdk.SqliteStore(folder / "rounds")) as store:
            async with sdk.ContinuationStore() as parked:
                wrap: dict[str, Any] = {"H": parked.linear, "J": sdk.keyed_replay}
                call = guarded(wrap[stand_in](tool), store, arguments)
                yield partial(deliver, call, reference=1)
        return
    store = sdk.DurableStore(version="1", wait_seconds=SECONDS)
    linear = store.linear(tool, call="reference", call_is_secret=True)
    call = sdk.Tool("pay", "Pays.", arguments, linear).call
    async with store.serving(None, database=f"sqlite:///{folder / 'calls'}"):
        yield partial(deliver, call, reference=1)


def standing_in(*stand_ins: str) -> Any:
    """Play a test with each of these stand-ins."""
    return pytest.mark.parametrize("stand_in", stand_ins)


async def error_of(call: Awaitable[Any]) -> MCPError:
    """Return the error that a round ends in."""
    with pytest.raises(MCPError) as refusal:
        await call
    return refusal.value


@standing_in("H", "J", "L")
async def test_the_author_has_what_an_effect_returned(stand_in: str, tmp_path: Path) -> None:
    async with served(stand_in, paying(Till()), tmp_path) as send:
        assert text_of(await send(await send(await send(), ONE), TWO)) == "charge 1"


# --- 1: a name is kept once an effect has happened ------------------------------------------------


@standing_in("H", "J", "L")
async def test_an_effect_that_yields_is_not_told_as_done(stand_in: str, tmp_path: Path) -> None:
    async def paid_in_parts(key: str = "") -> AsyncGenerator[int]:
        yield 1

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await once(ctx)("pay", paid_in_parts)
        return result("paid")

    async with served(stand_in, pay, tmp_path) as send:
        with pytest.raises((MCPError, TypeError), match=r"none of the effects|yields"):
            await send()


@standing_in("H", "J", "L")
async def test_an_effect_that_returns_a_generator_has_been_run(
    stand_in: str, tmp_path: Path
) -> None:
    till = Till()

    def charge(key: str = "") -> Generator[int]:
        return (part for part in range(till.charge()))

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await once(ctx)("pay", charge)
        return result("paid")

    async with served(stand_in, pay, tmp_path) as send:
        for _ in range(2):
            error = await error_of(send())
            assert error.data["reason"] == "indeterminate"
    assert till.charged == 1


@standing_in("H", "J", "L")
async def test_an_effect_that_says_not_done_in_a_task_group_frees_the_name(
    stand_in: str, tmp_path: Path
) -> None:
    async def refuse(key: str = "") -> None:
        async with anyio.create_task_group():
            raise sdk.NotDone("Nothing was paid.")

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.elicit(who("two"))
        await (refuse() if stand_in == "H" else once(ctx)("pay", refuse))
        return result("paid")

    async with served(stand_in, pay, tmp_path) as send:
        assert text_of(await send(await send(), TWO)) == "Nothing was paid."
        assert isinstance(await send(), types.InputRequiredResult)


@standing_in("H", "J", "L")
async def test_a_question_that_cannot_be_asked_says_nothing_of_the_effect_that_asks(
    stand_in: str, tmp_path: Path
) -> None:
    till = Till(trouble=sdk.CannotAsk("Nobody can be asked for the receipt."))
    async with served(stand_in, paying(till), tmp_path) as send:
        said = text_of(await send(await send(), ONE))
        assert "this call did something, or may have: 'pay'" in said
        await _once_more(send)
    assert till.charged == 1


async def _once_more(send: Send) -> None:
    """Make the call again, and answer what it asks, whatever comes of it."""
    with suppress(MCPError):
        asked = await send()
        if isinstance(asked, types.InputRequiredResult):
            await send(asked, ONE)


async def test_an_error_tells_of_the_effect_of_an_earlier_round_of_a_call_without_a_name(
    tmp_path: Path,
) -> None:
    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.once("pay", Till().charge)
        await ctx.elicit(who("one"))
        raise sdk.BadAnswer("one", "it is nobody's name")

    with closing(sdk.SqliteStore(tmp_path / "rounds")) as store:
        tool = guarded(sdk.keyed_replay(pay), store, call=None, call_is_secret=False)
        send = partial(deliver, tool, reference=1)
        refused = await error_of(send(await send(), ONE))
    assert refused.data["may_have_happened"] is True


@standing_in("J", "L")
async def test_not_done_after_an_effect_that_was_given_up_asks_its_destination(
    stand_in: str, tmp_path: Path
) -> None:
    till = Till()
    attempts = count(1)

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        if next(attempts) == 2:
            raise sdk.NotDone("The shop is closed.")
        with anyio.CancelScope() as patience:

            async def charge(key: str) -> None:
                till.charge()
                patience.cancel()
                await anyio.sleep_forever()

            number = await once(ctx)("pay", charge, settled=lambda: till.charged or False)
            return result(f"charge {number}")
        raise sdk.NotDone("It took too long.")

    async with served(stand_in, pay, tmp_path) as send:
        for word in "too long", "closed":
            said = text_of(await send())
            assert word in said
            assert "this call did something, or may have: 'pay'" in said
            assert "Who calls again and goes on learns what became of it" in said
        assert text_of(await send()) == "charge 1"
    assert till.charged == 1


async def test_an_effect_that_was_given_up_is_tried_again_if_its_destination_has_not_done_it(
    tmp_path: Path,
) -> None:
    till = Till()

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        for _ in range(3):
            with anyio.CancelScope() as patience:

                async def charge(key: str, patience: anyio.CancelScope = patience) -> None:
                    till.charge()
                    patience.cancel()
                    await anyio.sleep_forever()

                number = await ctx.once("pay", charge, settled=lambda: till.charged == 2 and 2)
                return result(f"charge {number}")
        raise AssertionError

    async with served("J", pay, tmp_path) as send:
        assert text_of(await send()) == "charge 2"
    assert till.charged == 2


async def test_a_bad_answer_that_an_author_raises_after_an_effect_tells_of_it_and_may_be_corrected(
    tmp_path: Path,
) -> None:
    till = Till()

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        name = (await ctx.elicit(who("one"))).name
        await ctx.once("pay", till.charge)
        if name == "Ann":
            raise sdk.BadAnswer("one", "it is nobody's name")
        return result(f"{name} paid {till.charged}")

    async with served("J", pay, tmp_path) as send:
        asked = await send()
        refused = await error_of(send(asked, ONE))
        assert refused.data["may_have_happened"] is True
        assert text_of(await send(asked, named("Bob", "one"))) == "Bob paid 1"


async def test_a_round_that_fails_before_an_effect_runs_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    troubles = [RuntimeError("out of paper")]

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.elicit(who("one"))
        if troubles:
            raise troubles.pop()
        return result("paid")

    async with served("J", pay, tmp_path) as send:
        asked = await send()
        assert (await error_of(send(asked, ONE))).data["reason"] == "nothing_done"
        assert text_of(await send(asked, ONE)) == "paid"


class Keyed(BaseModel):
    """Arguments by which no call is named, so that a call key names it."""

    reference: int | None = None


@standing_in("H", "J", "L")
async def test_a_call_that_its_user_declined_keeps_its_call_key(
    stand_in: str, tmp_path: Path
) -> None:
    async with served(stand_in, paying(Till()), tmp_path, Keyed) as send:
        of: dict[str, Any] = {"reference": None, "key": sdk.new_call_key()}
        declined = await send(await send(**of), no("one"), **of)
        assert text_of(declined) == "The question 'one' was declined."
        assert await send(**of) == declined


# --- 2, 3: names and digests are of the arguments as they are read --------------------------------


async def test_the_author_says_which_arguments_must_be_the_same(store: Any) -> None:
    tool = guarded(sdk.keyed_replay(paying(Till())), store, same=("amount",))
    asked = await deliver(tool, reference=1, note="rent")
    assert await deliver(tool, reference=1, note="the rent") == asked
    error = await error_of(deliver(tool, reference=1, amount=5))
    assert "waits for an answer" in str(error)
    assert "only if the user wants it done once more" in str(error)


class Tightened(Wanted):
    """The arguments of the next version, which takes less and needs more."""

    amount: int = Field(default=100, le=50)
    purpose: str


@standing_in("H", "J", "L")
async def test_a_next_version_that_takes_less_tells_what_became_of_an_earlier_call(
    stand_in: str, tmp_path: Path
) -> None:
    till = Till()
    async with served(stand_in, paying(till), tmp_path) as send:
        done = text_of(await send(await send(await send(), ONE), TWO))
    async with served(stand_in, paying(till), tmp_path, Tightened) as send:
        assert text_of(await send(reference="1")) == done
        reused = await error_of(send(amount=60))
        assert "To get the result of that call" in str(reused)
        for wrong in ({"amount": 60}, {"note": "no purpose"}):
            assert "do not fit" in str(await error_of(send(reference=8, **wrong)))
        fitting = {"reference": 8, "amount": 5, "purpose": "rent"}
        assert isinstance(await send(**fitting), types.InputRequiredResult)
    assert till.charged == 1


async def test_a_repeat_takes_one_read_however_many_rounds_its_call_had(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = partial(deliver, guarded(sdk.keyed_replay(paying(Till())), store), reference=1)
    done = await send(await send(await send(), ONE), TWO)
    statements = statements_of(store, monkeypatch)
    assert await send() == done
    assert [each.split()[0] for each in statements] == ["SELECT"]


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


async def test_a_commit_that_raised_is_told_as_in_doubt_at_once_and_again(store: Any) -> None:
    till = Till(trouble=TimeoutError())
    send = partial(deliver, guarded(sdk.keyed_replay(committing(till)), store), reference=1)
    asked = await send()
    for _ in range(2):
        error = await error_of(send(asked, ONE))
        assert error.error.data["reason"] == "indeterminate"
        assert "'pay" in str(error)
    assert till.charged == 1


@standing_in("H", "J")
async def test_no_refusal_of_a_call_that_has_charged_says_that_nothing_can_have_happened(
    stand_in: str, tmp_path: Path
) -> None:
    async with served(stand_in, paying(Till()), tmp_path) as send:
        asked = await send(await send(), ONE)
        unfitting = await error_of(send(asked, unfit("two")))
        (tmp_path / "rounds").unlink()
        for error in (unfitting, await error_of(send(asked, TWO)), await error_of(send())):
            assert error.error.data["reason"] in ("invalid_answer", "store_unusable")
            assert error.error.data["may_have_happened"] is True


# --- 5: a repeated error says so ------------------------------------------------------------------


async def closed(ctx: Any, params: Any) -> types.CallToolResult:
    raise MCPError(-32000, "closed, try again at 9")


@standing_in("J", "L")
async def test_a_repeated_error_says_so_to_programs(stand_in: str, tmp_path: Path) -> None:
    async with served(stand_in, closed, tmp_path) as send:
        first, again = [await error_of(send()) for _ in range(2)]
    assert first.error.data is None
    assert set(again.error.data["repeat"]) == {"since"}


async def test_a_repeated_error_says_so_to_models(store: Any) -> None:
    tool = guarded(sdk.keyed_replay(closed), store, repeat_note="Said at {since}:")
    first, again = [await error_of(deliver(tool, reference=1)) for _ in range(2)]
    assert str(again) == f"Said at {again.error.data['repeat']['since']}: {first}"


@pytest.mark.parametrize("data", [["opens at 9"], ["reason"], "no reason"])
async def test_a_repeated_error_keeps_what_its_author_says_to_programs(
    store: Any, data: object
) -> None:
    async def shut(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.once("knock", Till().charge)
        raise MCPError(-32000, "closed", data)

    tool = guarded(sdk.keyed_replay(shut), store, repeat_note="Said at {since}:")
    first, again = [await error_of(deliver(tool, reference=1)) for _ in range(2)]
    assert first.error == again.error
    assert first.error.data == data


# --- 10: unknown, and the destination is asked ----------------------------------------------------


@standing_in("H", "J", "L")
async def test_an_error_of_another_server_that_an_effect_calls_is_no_answer_of_its_tool(
    stand_in: str, tmp_path: Path
) -> None:
    till = Till(trouble=MCPError(types.REQUEST_TIMEOUT, "timed out"))
    async with served(stand_in, paying(till), tmp_path) as send:
        asked = await send()
        for _ in range(2):
            assert (await error_of(send(asked, ONE))).data["reason"] == "indeterminate"
    assert till.charged == 1


@pytest.mark.parametrize(
    "trouble", [ConnectionError(), MCPError(types.REQUEST_TIMEOUT, "timed out")], ids=type
)
async def test_a_charge_that_was_cut_off_is_settled_after_a_question_of_a_new_version(
    store: Any, trouble: Exception
) -> None:
    till = Till(trouble=TimeoutError())
    question = ["one"]
    troubles = [trouble]

    def look() -> Any:
        if troubles:
            raise troubles.pop()
        return till.charged or False

    async def pay(ctx: Any, params: Any) -> types.CallToolResult:
        await ctx.elicit(who(question[-1]))
        try:
            number = await ctx.once("pay", till.charge, settled=look)
        except (TimeoutError, ConnectionError, RuntimeError):
            raise sdk.Unknown("Not known whether it was paid. Call again.") from None
        return result(f"charge {number}")

    tool = partial(deliver, guarded(sdk.keyed_replay(pay), store), reference=1)
    asked = await tool()
    assert "Not known" in text_of(await tool(asked, ONE))
    question.append("two")
    assert text_of(await tool(await tool(asked, ONE), TWO)) == "charge 1"
    assert till.charged == 1
