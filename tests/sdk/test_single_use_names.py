"""Tests of the names of calls: their sources, their scope, and the callers who get none."""

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, cast
from unittest.mock import Mock

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.auth.settings import AuthSettings
from pydantic import (
    AliasChoices,
    AliasPath,
    AnyHttpUrl,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Secret,
    SecretStr,
    WithJsonSchema,
    computed_field,
    create_model,
)
from pydantic.alias_generators import to_camel

from mrtr_options import sdk
from mrtr_options.sdk.call_key import (
    CALL_KEY,
    CallName,
    CallNaming,
    naming_calls,
    new_call_key,
)
from mrtr_options.sdk.current_request import keep_arguments, protected
from mrtr_options.sdk.handler import JsonObject
from tests.restaurant import book, high_tier, lowlevel, tool
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    modern,
    of_session,
)

REFERENCE = CallNaming("reference")
SECRET = CallNaming("reference", call_is_secret=True)
KEY = new_call_key()


@dataclass
class Sender:
    """The sender of a request, and where it is sent.

    Attributes:
        caller: The caller; None for an unknown caller.
        tool, server: The tool, and its server.
        key: The call key.
        ctx: The client's request.
        model: Reads the arguments; None to take them as they are sent.
    """

    caller: str | None = "ada"
    tool: str = "transfer"
    server: str = "bank"
    key: str | None = None
    ctx: Context = field(default_factory=modern)
    model: type[BaseModel] | None = None


def name_of(naming: CallNaming, arguments: JsonObject | None, **sender: Any) -> CallName | None:
    """Return the name of a request's call; see `Sender` for the other arguments."""
    sent = Sender(**sender)
    meta: Any = None if sent.key is None else {CALL_KEY: sent.key}
    given = Params(name=sent.tool, arguments=arguments, _meta=meta)
    with protected(sent.server):
        if sent.model is not None:
            keep_arguments(sent.model, given)
        return naming.name_of(sent.ctx, given, sent.caller)


def test_an_argument_comes_before_a_call_key_and_a_call_key_before_none() -> None:
    key = new_call_key()
    by_argument = name_of(REFERENCE, {"reference": "R1"}, key=key)
    by_key = name_of(REFERENCE, {}, key=key)
    assert by_argument is not None
    assert by_argument == name_of(REFERENCE, {"reference": "R1"})
    assert by_argument.is_key is False
    assert by_argument.source == "argument 'reference'"
    assert by_key is not None
    assert by_key == name_of(CallNaming(), {}, key=key)
    assert by_key.is_key
    assert name_of(CallNaming(), {"reference": "R1"}) is None


def test_a_resource_is_no_call_that_a_key_could_name() -> None:
    asked = types.ReadResourceRequestParams(uri="menu://today", _meta={CALL_KEY: new_call_key()})
    assert CallNaming().name_of(modern(), asked, "ada") is None


def test_a_name_is_the_same_for_each_request_and_no_other_callers_tools_or_servers() -> None:
    given = {"reference": "R1"}
    here = name_of(REFERENCE, given)
    assert here == name_of(REFERENCE, given | {"amount": 5})
    others = [
        name_of(REFERENCE, {"reference": "R2"}),
        *(name_of(REFERENCE, given, caller=each) for each in ("bob", "jos\u00e9", "jose\u0301")),
        name_of(REFERENCE, given, tool="pay"),
        name_of(REFERENCE, given, server="another"),
        name_of(CallNaming("other"), {"other": "R1"}),
        name_of(SECRET, given, caller=None),
        *(name_of(REFERENCE, {}, key=KEY, server=each) for each in ("bank", "another")),
    ]
    assert len({each.handle for each in [here, *others] if each is not None}) == 11


def test_a_function_names_calls_by_caller_and_arguments() -> None:
    naming = CallNaming(lambda caller, arguments: [caller, arguments.get("to")])
    one = name_of(naming, {"to": "Bob", "note": "x"})
    assert one is not None
    assert one == name_of(naming, {"note": "y", "to": "Bob"})
    assert one != name_of(naming, {"to": "Eve"})
    assert name_of(CallNaming(lambda caller, arguments: None), {}) is None
    sent = {"to": "Bob"}
    changing = CallNaming(lambda caller, arguments: cast("Any", arguments).pop("to"))
    assert name_of(changing, sent) == name_of(changing, sent)


def test_a_function_that_raises_is_the_authors_mistake_unless_the_arguments_are_unfit() -> None:
    naming = CallNaming(lambda caller, arguments: arguments["missing"])
    with pytest.raises(KeyError, match="missing"):
        name_of(naming, {"day": DAY})
    with pytest.raises(MCPError, match="do not fit"):
        name_of(naming, {"day": "?"}, model=create_model("Model", day=(date, ...)))


@pytest.mark.parametrize("absent", [{}, None, {"reference": None}, {"reference": ""}])
def test_an_absent_argument_names_no_call(absent: JsonObject | None) -> None:
    assert name_of(REFERENCE, absent) is None


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str


class Iban(BaseModel):
    kind: Literal["iban"] = "iban"
    number: str


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Account(BaseModel):
    number: str = Field(exclude=True)

    @computed_field
    def seen(self) -> str:
        return new_call_key()


class Cup:
    """A type that has no JSON.

    Attributes:
        kind: What is in it.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind


Served = Annotated[
    Cup, PlainValidator(Cup), PlainSerializer(lambda cup: cup.kind), WithJsonSchema({})
]
Masked = Annotated[str, PlainSerializer(lambda _: "***")]
HIDDEN = {"number": "7"}

IBAN = {"kind": "iban", "number": "7"}
DAY = "2026-12-01"
WORDS: dict[str, tuple[Any, Any, Any, bool]] = {
    "an amount": (Decimal, "40.00", 40, True),
    "a long one": (Decimal, f"1.{'0' * 40}1", f"1.{'0' * 40}10", True),
    "one of another last digit": (Decimal, f"1.{'0' * 40}1", f"1.{'0' * 40}2", False),
    "a large one": (Decimal, "1e999", "10e998", True),
    "a whole number": (int | float, 150, 150.0, True),
    "two fractions": (float, 1.5, 2.5, False),
    "a set that Python keeps in two orders": (set[int], [0, 8], [8, 0], True),
    "two sets": (set[int], [0, 8], [0, 16], False),
    "a time": (datetime, "2026-12-01T13:00:00+01:00", "2026-12-01T12:00:00Z", True),
    "a number or a text": (int | str, 7, "7", True),
    "an accent": (str, "\u00e9", "e\u0301", True),
    "a mark at the start of a line": (str, "\n\u0303\u00e9", "\n\u0303e\u0301", True),
    "one of a secret": (SecretStr, "\u00e9", "e\u0301", True),
    "one of a key": (dict, {"\u00e9": 1}, {"e\u0301": 1}, True),
    "two keys": (dict, {"\u00e9": 1, "e\u0301": 2}, {"e\u0301": 2}, False),
    "two keys the other way round": (
        dict,
        {"\u00e9": 1, "e\u0301": 2},
        {"\u00e9": 2, "e\u0301": 1},
        False,
    ),
    "two secrets": (SecretStr, "tea", "cup", False),
    "two of a type that hides them": (Secret[str], "tea", "cup", False),
    "two that a serializer masks": (Masked, "tea", "cup", False),
    "two that no model writes": (Annotated[str, Field(exclude=True)], "tea", "cup", False),
    "two parts that no model writes": (list[Account], [HIDDEN], [{"number": "8"}], False),
    "a part that is computed anew": (Account, HIDDEN, HIDDEN, True),
    "two without JSON": (Served, "tea", "cup", False),
    "one without JSON": (Served, "tea", "tea", True),
    "two in base64": (Base64Bytes, "/w==", "L3c9PQ==", False),
    "one of two kinds": (Card | Iban, {"kind": "card", "number": "7"}, IBAN, False),
    "a list of two kinds": (list[Card | Iban], [{"number": "7"}], [IBAN], False),
    "amounts by day": (dict[date, set[Decimal]], {DAY: [1, "2.0"]}, {DAY: [2, 1]}, True),
}
"""The type of an argument, two ways to send it, and whether they are one value."""


@pytest.mark.parametrize("what", WORDS)
def test_values_name_one_call_if_they_are_equal_as_their_type_reads_them(what: str) -> None:
    kind, sent, other, is_equal = WORDS[what]
    model = create_model("Model", reference=(kind, ...))
    named = name_of(REFERENCE, {"reference": sent}, model=model)
    again = name_of(REFERENCE, {"reference": other}, model=model)
    assert named is not None
    assert again is not None
    assert [named == again, named.same == again.same] == [is_equal] * 2


FIELDS: list[Any] = [
    Field(alias="ref"),
    Field(validation_alias="ref"),
    Field(validation_alias=AliasChoices(AliasPath("all", 0), "ref", "old")),
    Field(alias="ref", serialization_alias="written"),
]


@pytest.mark.parametrize("said", FIELDS)
def test_an_argument_names_calls_as_its_input_schema_has_it(said: Any) -> None:
    model = create_model("Model", reference=(str, said), fee=(int, Field(1, validation_alias="f")))
    assert "ref" in model.model_json_schema()["properties"]
    named = name_of(CallNaming("ref", same=["f"]), {"ref": "R1"}, model=model)
    written_out = name_of(CallNaming("ref", same=["f"]), {"ref": "R1", "f": 1}, model=model)
    other = name_of(CallNaming("ref", same=["f"]), {"ref": "R1", "f": 2}, model=model)
    assert named is not None
    assert written_out is not None
    assert other is not None
    assert named == name_of(CallNaming("ref"), {"ref": "R1"}) == other
    assert named == name_of(CallNaming("ref"), {"ref": "R1", "f": "unfit"}, model=model)
    assert named.same == written_out.same != other.same


def test_a_value_that_equals_the_default_in_python_and_not_in_json_is_another_one() -> None:
    model = create_model("Model", reference=(str, ...), keep=(Any, 0))
    sent: list[JsonObject] = [{}, {"keep": 0.0}, {"keep": False}]
    names = [name_of(REFERENCE, {"reference": "R1"} | each, model=model) for each in sent]
    absent, zero, no = [each.same for each in names if each is not None]
    assert absent == zero != no


class Line(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    line_cost: Decimal
    until: datetime | None = None


class Order(BaseModel):
    reference: str = Field(alias="orderReference")
    kind: Literal["card", "iban"] = "card"
    colour: Colour = Colour.RED
    lines: list[Line] = Field(default_factory=list[Line])
    days: dict[date, Decimal] | None = None
    note: str | None = None


ORDER: JsonObject = {
    "orderReference": "R1",
    "colour": "blue",
    "lines": [{"lineCost": "40.00", "until": "2026-12-01T13:00:00+01:00"}],
    "days": {DAY: 1.5},
    "note": "e\u0301",
}


STORED: list[tuple[JsonObject, str]] = [
    (ORDER, "2f45eb257d9d0ff54e1406812d58dfa3"),
    (ORDER | {"lines": []}, "60fa724db95c1aca95487959be32b5e7"),
    ({"orderReference": "R1"}, "0ca17e9be4bd78d37d2a199cdd6b12de"),
]


@pytest.mark.parametrize(("arguments", "same"), STORED)
def test_the_names_of_stored_calls_stay_as_they_are(arguments: JsonObject, same: str) -> None:
    found = name_of(CallNaming("orderReference"), arguments, model=Order)
    assert found is not None
    assert (found.handle, found.same[:32]) == ("25c9d06cbd0b2f52d15d6d3e3ea030dd", same)


def test_an_argument_of_another_kind_beside_the_name_is_another_one() -> None:
    model = create_model("Model", reference=(str, ...), pay=(Card | Iban, ...), fee=(int, 1))
    card: Any = {"kind": "card", "number": "7"}
    sent: list[JsonObject] = [{"pay": card}, {"pay": card, "fee": 1}, {"pay": IBAN}]
    names = [name_of(REFERENCE, {"reference": "R1"} | each, model=model) for each in sent]
    first, written_out, other = [each for each in names if each is not None]
    assert first == written_out == other
    assert first.same == written_out.same
    assert first.same != other.same


def test_a_version_that_reads_another_type_knows_a_call_by_its_name() -> None:
    names = [
        name_of(REFERENCE, {"reference": "7"}, model=create_model("Model", reference=(kind, ...)))
        for kind in (str, int, Decimal)
    ]
    assert None not in names
    assert names == [names[0]] * 3


VALUES: list[Any] = ["x" * 200_000, 0, 7, [1, {"a": None}], {"deep": [[1]]}]


async def _named_later(caller: str | None, arguments: Any) -> str:
    return "R1"


NO_NAMES: list[Any] = ["", 5, lambda: None, lambda caller: None, _named_later]  # pyright: ignore


@pytest.mark.parametrize("value", VALUES)
def test_a_name_has_one_length_whatever_the_client_sends(value: Any) -> None:
    found = name_of(REFERENCE, {"reference": value})
    assert found is not None
    assert len(found.handle) == 32


def test_an_old_client_has_names_by_argument_and_none_by_key() -> None:
    old = of_session(FakeSession(None), modern=False)
    assert name_of(CallNaming(), {}, key=new_call_key(), ctx=old) is None
    assert name_of(REFERENCE, {"reference": "R1"}, ctx=old) is not None


@pytest.mark.parametrize("stranger", [None, ""])
def test_an_unknown_caller_is_refused_a_name_that_two_could_share(stranger: str | None) -> None:
    with pytest.raises(MCPError, match="does not know who calls") as refusal:
        name_of(REFERENCE, {"reference": "R1"}, caller=stranger)
    assert refusal.value.code == types.INVALID_REQUEST
    assert refusal.value.data["reason"] == "caller_unknown"
    assert name_of(REFERENCE, {}, caller=None, key=new_call_key()) is not None
    assert name_of(SECRET, {"reference": "R1"}, caller=None) is not None


@pytest.mark.parametrize("call", NO_NAMES)
def test_what_names_no_calls_is_refused(call: Any) -> None:
    with pytest.raises(TypeError, match="name of an argument"):
        CallNaming(call)


def tool_named_by(naming: CallNaming) -> sdk.Tool:
    """Return a tool in a guard with this naming, inside another wrapper."""

    def wrap(handler: sdk.Handler) -> sdk.Handler:
        return naming_calls(partial(handler), naming)

    return tool(book, wrap, sdk.ask_again)


def test_a_server_that_does_not_know_its_callers_is_refused_when_it_is_built() -> None:
    named, secret = (
        tool_named_by(CallNaming("guest", call_is_secret=each)) for each in (False, True)
    )
    for serve in lowlevel, high_tier:
        with pytest.raises(ValueError, match=r"two strangers would share a call.* before add_to"):
            serve(named)
        serve(secret)
    authenticated = sdk.Settings(authenticated=True)
    sdk.build_server("bank", named, settings=authenticated)
    for own in Server("bank"), MCPServer("bank"):
        sdk.protect(own, authenticated)
        named.add_to(own)
    issuer = AnyHttpUrl("https://example.com")
    auth = AuthSettings(issuer_url=issuer, resource_server_url=None)
    named.add_to(MCPServer("bank", auth=auth, token_verifier=Mock()))
    with pytest.raises(ValueError, match="its arguments are: guest, party"):
        lowlevel(tool_named_by(CallNaming("ref", call_is_secret=True)))
