"""Models and values written as JSON, for a later round or in one form; and digests.

A later round reads the same values. Values that are equal have one form.

Knows `handler` for its texts of errors.
"""

from __future__ import annotations

import decimal
import hashlib
import json
from collections import deque
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from pydantic import (
    AliasChoices,
    BaseModel,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mrtr_options.sdk.handler import JsonObject, first_error

_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
"""Rounds no number of a request."""

MAX_SHOWN_CHARS = 100
"""How much of a name and of a caller a log line shows."""


def digest(text: str) -> str:
    """Return a digest of a text, by which it is told from any other."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_model(model: BaseModel, *, exclude_defaults: bool = True) -> str:
    """Write a model as JSON, for a later round.

    Raises:
        ValueError: That round would read another value.
    """
    text = model.model_dump_json(by_alias=True, round_trip=True, exclude_defaults=exclude_defaults)
    name = type(model).__name__
    try:
        read = type(model).model_validate_json(text)
    except ValidationError as error:
        why = first_error(error)
        raise ValueError(f"a later round would not read this {name}: {why}") from None
    made = _travelling(model)
    there = _travelling(read)
    for each in made:
        if not is_same(made[each], there.get(each)):
            why = f"its validators, or JSON, make {there.get(each)!r} of {made[each]!r} in {each!r}"
            raise ValueError(f"a later round would not read this {name}: {why}")
    return text


def is_same(made: Any, read: Any) -> bool:
    """Return whether JSON and a model make the same value of what this round has made.

    An enumeration's member is the same as its value. A field that its model excludes does not
    count, nor does what is in an object of a class without an equality of its own.
    """
    if isinstance(made, BaseModel):
        return isinstance(read, BaseModel) and is_same(_travelling(made), _travelling(read))
    if isinstance(made, str | int | float):
        return made == read
    if type(made) is not type(read):
        return False
    if isinstance(made, dict):
        one = cast("dict[Any, Any]", made)
        other = cast("dict[Any, Any]", read)
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(made, list | tuple):
        return len(made) == len(read) and all(map(is_same, made, read))  # pyright: ignore[reportUnknownArgumentType]
    return type(made).__eq__ is object.__eq__ or made == read


def _travelling(model: BaseModel) -> dict[str, Any]:
    """Return the values of a model that go into its JSON, by field."""
    excluded = _excluded(type(model))
    return {name: value for name, value in model if name not in excluded}


@lru_cache(maxsize=128)
def _excluded(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(name for name, field in model.model_fields.items() if field.exclude)


def read_back(key: str, value: Any) -> Any:
    """Return a memo's value after a round trip through JSON.

    Raises:
        TypeError, ValueError: It is another value.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()  # half of a surrogate pair has no place in a state
    held = json.loads(text)
    if not is_same(value, held):
        raise ValueError(f"the memo {key!r} would be {held!r} in a later round, and is {value!r}")
    return held


def plain(value: Any) -> Any:
    """Return what JSON has in the place of a value, the same for all values that are equal.

    A model has the values of its fields, by the names of its input schema: what its serializers
    leave out, mask or add makes no difference.
    """
    match value:
        case BaseModel():
            return _plain_model(value)
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return {_plain_key(name): plain(each) for name, each in items}
        case list() | tuple() | deque():
            return [plain(each) for each in cast("list[Any]", value)]
        case set() | frozenset():
            each_plain = [plain(each) for each in cast("set[Any]", value)]
            return sorted(each_plain, key=lambda each: json.dumps(each, sort_keys=True))
        case _:
            return _plain_scalar(value)


def _plain_model(model: BaseModel) -> Any:
    if isinstance(model, RootModel):
        return plain(cast("RootModel[Any]", model).root)
    said = {
        argument_name(name, field): _plain_field(model, name)
        for name, field in type(model).model_fields.items()
        if name in vars(model)
    }
    return said | plain(model.model_extra or {})


def _plain_field(model: BaseModel, name: str) -> Any:
    """Return a field's value. One that has no JSON by itself is as the model writes it."""
    try:
        return plain(vars(model)[name])
    except PydanticSerializationError:
        return plain(model.model_dump(include={name}, warnings=False)[name])


def _plain_dataclass(value: Any) -> Any:
    known: dict[str, FieldInfo] = getattr(value, "__pydantic_fields__", {})
    names = [each.name for each in fields(value)]
    return {argument_name(name, known.get(name)): plain(getattr(value, name)) for name in names}


def _plain_scalar(value: Any) -> Any:
    match value:
        case _ if is_dataclass(value):
            return _plain_dataclass(value)
        case Secret() | SecretStr() | SecretBytes():
            return plain(cast("Secret[Any]", value).get_secret_value())
        case bytes():
            return value.decode(errors="surrogateescape")
        case Decimal() if value.is_finite():
            value = _EXACT.normalize(value) if value else Decimal(0)
            return f"{value:f}" if abs(value.adjusted()) < MAX_SHOWN_CHARS else str(value)
        case datetime() if value.tzinfo is not None:
            with suppress(OverflowError):  # in the first or the last hours of all years
                value = value.astimezone(UTC)
            return value.isoformat()
        case _:
            return to_jsonable_python(value)


def _plain_key(name: object) -> object:
    return name if isinstance(name, str | int) else str(plain(name))


def argument_name(name: str, field: FieldInfo | None) -> str:
    """Return the name that a field has in its model's input schema."""
    alias = field and field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((each for each in choices if isinstance(each, str)), name)


def without_names(schema: JsonObject, names_calls: str | None = None) -> JsonObject:
    """Leave out of an input schema what the names and docstrings of Python code put into it.

    Args:
        schema: The schema.
        names_calls: The argument that names calls. Its description says so.
    """
    properties = {
        name: {word: said for word, said in each.items() if word != "title"}
        for name, each in schema["properties"].items()
    }
    if names_calls in properties:
        named = properties[names_calls]
        properties[names_calls] = {**named, "description": say_name(named.get("description"))}
    kept = {word: said for word, said in schema.items() if word not in ("title", "description")}
    return {**kept, "properties": properties}


def say_name(description: str | None) -> str:
    """Add to the description of an argument how it names calls."""
    name = (
        "It names the call: send the same one again after an error or no answer, and another one"
        " only for another wish."
    )
    return f"{description.rstrip('. ')}. {name}" if description else name
