"""Tests of ToolBuilder: the tools that it refuses to build, and the order of its steps."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp import MCPError
from pydantic import AfterValidator, BaseModel, Field

from mrtr_options import sdk
from mrtr_options.sdk.effects import CallEffects, Standing, keeping_effects
from mrtr_options.sdk.questions import BadAnswer, Declined
from mrtr_options.sdk.tool_builder import ToolBuilder, Values
from mrtr_options.tool.weather import Question
from tests.sdk.fakes import (
    Context,
    Name,
    Params,
    deliver,
    key_of,
    keys_of,
    named,
    no,
    play,
    result,
    unfit,
    who,
)
from tests.sending import text_of

pytestmark = pytest.mark.anyio

Asks = Question[Name]


def ann(ctx: Context, params: Params, values: Values) -> Name:
    return Name(name="Ann")


def end(ctx: Context, params: Params, values: Values) -> types.CallToolResult:
    return result("done")


def test_a_name_can_be_given_once_also_to_steps_that_are_added_together() -> None:
    builder = ToolBuilder[Any]().step("who", ann)
    with pytest.raises(ValueError, match="'who' already"):
        builder.together({"other": ann, "who": ann})
    with pytest.raises(ValueError, match="needs a name"):
        builder.together({"other": ann, "": ann})
    builder.step("other", ann)  # refused steps have not been added


def test_a_tool_without_steps_or_end_is_not_built() -> None:
    none = ToolBuilder[Any]
    for incomplete in (
        none(),
        none().step("who", ann),
        none().end(end),
        none().together({}).end(end),
    ):
        with pytest.raises(ValueError, match="at least one step and an end step"):
            incomplete.build()


async def test_a_tool_has_one_end_step_and_does_not_change_after_it_was_built() -> None:
    builder = ToolBuilder[Any]().step("who", ann).end(end)
    with pytest.raises(ValueError, match="an end step already"):
        builder.end(end)
    tool = builder.build()
    builder.step("late", lambda ctx, params, values: pytest.fail("was entered"))
    assert text_of(await deliver(tool)) == "done"


async def test_a_finished_step_is_not_entered_again_and_the_end_step_once() -> None:
    entered: list[str] = []

    def step(name: str) -> Callable[[Context, Params, Values], Asks]:
        def enter(ctx: Context, params: Params, values: Values) -> Asks:
            entered.append(name)
            with pytest.raises(KeyError):
                values.get("last", Name)
            return who(name)

        return enter

    async def between(ctx: Context, params: Params, values: Values) -> Name:
        entered.append("between")
        return Name(name=values.get("one", Name).name.upper())

    async def last(ctx: Context, params: Params, values: Values) -> types.CallToolResult:
        entered.append("end")
        return result(", ".join(values.get(step, Name).name for step in ("one", "between", "two")))

    builder = ToolBuilder[Any]().step("one", step("one")).step("between", between)
    tool = builder.step("two", step("two")).end(last).build()
    ended = await play(tool, named("Ann", "one"), named("Bob", "two"))
    assert text_of(ended) == "Ann, ANN, Bob"
    assert entered == ["one", "one", "between", "two", "two", "end"]


async def test_an_end_step_that_ran_in_a_process_that_died_is_in_doubt_and_does_not_run_again() -> (
    None
):
    died = CallEffects(now={"end": Standing("done", has_value=True)})
    tool = ToolBuilder[Any]().step("who", ann).end(end).build()
    with keeping_effects(died), pytest.raises(MCPError, match="end") as in_doubt:
        await deliver(tool)
    assert in_doubt.value.data["reason"] == "indeterminate"


def asks(key: str) -> Callable[[Context, Params, Values], Asks]:
    return lambda ctx, params, values: who(key)


def names(ctx: Context, params: Params, values: Values) -> types.CallToolResult:
    return result(f"{values.get('first', Name).name} and {values.get('second', Name).name}")


TOGETHER = (
    ToolBuilder[Any]().together({"first": asks("one"), "second": asks("two")}).end(names).build()
)


async def test_steps_that_are_added_together_may_be_answered_one_by_one() -> None:
    asked = await deliver(TOGETHER)
    assert keys_of(asked) == {"one", "two"}
    left = await deliver(TOGETHER, asked, named("Bob", "two"))
    assert key_of(left) == "one"
    assert isinstance(left, types.InputRequiredResult)
    assert left.request_state == '{"finished":{"second":{"name":"Bob"}}}'
    late = named("Ann", "one") | named("Eve", "two")  # the second step is finished already
    assert text_of(await deliver(TOGETHER, left, late)) == "Ann and Bob"


async def test_an_end_step_that_yields_has_done_nothing() -> None:
    def in_parts(ctx: Context, params: Params, values: Values) -> Any:
        yield result("half")

    tool = ToolBuilder[Any]().step("who", ann).end(in_parts).build()
    with keeping_effects() as effects, pytest.raises(TypeError, match="yields"):
        await deliver(tool)
    assert effects.now == {}


async def test_a_bad_answer_or_a_no_to_one_of_several_ends_the_round_and_keeps_nothing() -> None:
    asked = await deliver(TOGETHER)
    for others in ({}, named("Ann", "one")):
        with pytest.raises(BadAnswer, match="'two'"):
            await deliver(TOGETHER, asked, others | unfit("two"))
        with pytest.raises(Declined, match="two"):
            await deliver(TOGETHER, asked, others | no("two"))
    both = named("Bea", "one") | named("Bob", "two")
    assert text_of(await deliver(TOGETHER, asked, both)) == "Bea and Bob"


class Cents(BaseModel):
    cents: Annotated[int, AfterValidator(lambda euros: int(euros) * 100)] = Field(alias="euros")


async def test_a_later_round_reads_the_answer_that_the_first_one_had_or_there_is_none() -> None:
    def read(ctx: Context, params: Params, values: Values) -> types.CallToolResult:
        return result(str(values.get("price", Cents)))

    def price(ctx: Context, params: Params, values: Values) -> Any:
        return sdk.Question("price", "How much?", Cents)

    tool = ToolBuilder[Any]().step("price", price).step("who", asks("who")).end(read).build()
    euros: types.InputResponses = {
        "price": types.ElicitResult(action="accept", content={"euros": 3})
    }
    assert text_of(await play(tool, euros, named("Ann"))) == "cents=300"
    for keep in (partial(sdk.ask, who()), partial(Values().put, "price")):
        with pytest.raises(ValueError, match="would not read this Cents"):
            keep(Cents(euros=3))


async def test_two_steps_need_two_keys() -> None:
    at_once = ToolBuilder[Any]().together({"one": asks("who"), "two": asks("who")}).end(end).build()
    with pytest.raises(
        ValueError, match=r"'who' is used for two questions: in the step 'one' and in .* 'two'"
    ):
        await deliver(at_once)
    in_turn = ToolBuilder[Any]().step("one", asks("who")).step("two", asks("who")).end(end).build()
    asked = await deliver(in_turn)
    with pytest.raises(
        ValueError, match=r"'who' is used for two questions: in the step 'one' and in .* 'two'"
    ):
        await deliver(in_turn, asked, named("Ann"))
