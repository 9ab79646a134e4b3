"""Tests that a state which a later round would read differently is refused when it is made."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from mrtr_options import sdk
from mrtr_options.sdk.tool_builder import Values
from tests.sdk.fakes import Name, params, who


class Kept(BaseModel):
    x: Any = None


class Marked(sdk.Markers):
    x: Any = None


class Point(NamedTuple):
    x: int
    y: str


class Colour(StrEnum):
    RED = "red"


class Older(Name):
    age: int = 7


class Typed(BaseModel):
    price: Decimal = Decimal(0)
    day: date | None = None
    pair: tuple[int, str] = (0, "")
    names: dict[int, str] = Field(default_factory=dict[int, str])
    colour: Colour = Colour.RED
    who: Name | None = None
    aside: Any = Field(default=None, exclude=True)


def asked(value: Any) -> object:
    return sdk.ask(who(), Kept(x=value))


def marked(value: Any) -> object:
    return sdk.ask(who(), Marked(x=value))


def put(value: Any) -> object:
    return Values().put("step", Kept(x=value))


MAKERS: dict[str, Callable[[Any], object]] = {"E": asked, "F": marked, "G": put}

CHANGED: dict[str, Any] = {
    "a decimal": Decimal("19.90"),
    "a date": date(2026, 7, 28),
    "a tuple": (1, 2),
    "bytes": b"abc",
    "infinity": float("inf"),
    "not a number": float("nan"),
    "a set": {1},
    "a key that is no text": {1: "a"},
    "deep within": {"a": [{"b": Decimal(1)}]},
    "a model": Name(name="Ann"),
    "a counter": Counter("aab"),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("value", CHANGED)
def test_a_value_of_which_json_makes_another_is_refused(maker: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"would not read this (Kept|Marked)"):
        MAKERS[maker](CHANGED[value])


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("value", [None, True, 1.5, "a", ["a", {"b": [None]}], Colour.RED])
def test_a_value_that_json_holds_is_kept(maker: str, value: Any) -> None:
    MAKERS[maker](value)


@pytest.mark.parametrize(
    "state",
    [
        Typed(price=Decimal("19.90")),
        Typed(day=date(2026, 7, 28)),
        Typed(pair=(1, "a")),
        Typed(names={1: "a"}),
        Typed(who=Name(name="Ann")),
        Typed(aside=b"does not travel"),
    ],
)
def test_a_value_that_its_model_reads_back_is_kept(state: Typed) -> None:
    response = sdk.ask(who(), state)
    read = sdk.load_state(params(asked=response), Typed)
    assert read == state.model_copy(update={"aside": None})


@pytest.mark.parametrize(
    "change",
    [
        {"pair": Point(1, "a")},
        {"names": OrderedDict({1: "a"})},
        {"who": Older(name="Ann", age=40)},
        {"price": Decimal("NaN")},
    ],
)
def test_a_value_that_is_not_of_its_fields_type_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="would not read this Typed"):
        sdk.ask(who(), Typed().model_copy(update=change))
