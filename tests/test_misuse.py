"""Tests that every wrong way to put a server together is refused at once, in one line."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast
from unittest.mock import Mock

import mcp_types as types
import pytest
from mcp.server.mcpserver import Context as HighTierContext
from pydantic import RootModel

from mrtr_options import sdk
from tests.restaurant import WHEN, Booking, Hour, book_in_line, high_tier, tool


async def _text(guest: str, ctx: HighTierContext[Any]) -> str:
    return guest


async def _three_arguments(ctx: Any, guest: str, party: int) -> str:
    return guest


async def _in_line(ctx: sdk.LinearContext[None], params: sdk.CallParams) -> types.CallToolResult:
    return sdk.text("")


def _plain(ctx: Any, params: Any) -> Any:
    return sdk.text("")


GUARD = cast("Any", partial(sdk.single_use, sdk.SqliteStore(":memory:")))

WRAPPERS: dict[str, Callable[[Any], object]] = {
    "single_use": GUARD(),
    "legacy_shim": sdk.legacy_shim,
    "ask_again": sdk.ask_again,
    "Tool": tool,
}
LINEAR: dict[str, Callable[[Any], object]] = {
    "keyed_replay": sdk.keyed_replay,
    "H's store.linear": sdk.ContinuationStore().linear,
    "L's store.linear": lambda handler: sdk.DurableStore().linear(handler),
    "store.task": lambda handler: sdk.TaskStore().task(handler),
}


@pytest.mark.parametrize("user", [*WRAPPERS, *LINEAR])
def test_what_is_no_handler_is_refused_where_it_is_used(user: str) -> None:
    pytest.importorskip("dbos")
    others = [_three_arguments, _in_line] if user in WRAPPERS else []
    said = (
        rf"{user}.* takes a handler, .* Tool\("
        if user in WRAPPERS
        else r"takes .*async def .*\(ctx"
    )
    for handler in (_text, _plain, "book", *others):
        with pytest.raises(sdk.NotAHandler, match=said) as refusal:
            (WRAPPERS | LINEAR)[user](handler)
        assert "\n" not in str(refusal.value)


def test_a_handler_may_have_annotations_that_only_a_type_checker_can_see() -> None:
    async def handler(ctx: Any, params: Any) -> types.CallToolResult:
        return sdk.text("")

    handler.__annotations__["ctx"] = "OnlyForTypeCheckers"
    for user in WRAPPERS.values():
        user(handler)


def test_a_step_that_takes_something_else_is_refused_where_it_is_added() -> None:
    steps = cast("Any", sdk.ToolBuilder[Any]())
    for add in (partial(steps.step, "when"), steps.end):
        with pytest.raises(sdk.NotAHandler, match=r"\(ctx, params, values\)"):
            add(_plain)


CONTINUED = cast("Any", sdk.ContinuationStore().linear(cast("Any", book_in_line)))


NOT_OPEN = r"build_server\(\.\.\., resources=\[store\]\)"
ASYNC = cast("Any", book_in_line)
FOREIGN = Mock(middleware=[])  # like fastmcp's FastMCP, which has `middleware` and `add_tool`
STORE = cast("Any", sdk.ContinuationStore())
KEYS = [b"0123456789abcdef0123456789abcdef"]
WITH_CONTEXT = types.CreateMessageRequestParams(
    messages=[], max_tokens=9, include_context="allServers"
)
build = cast("Any", partial(sdk.build_server, "restaurant"))


def task(handler: Any) -> Any:
    return sdk.TaskStore(version="1").task(handler)


MISTAKES: list[tuple[str, Callable[[Any], object]]] = [
    ("takes a list of wrappers", lambda of: of(wrappers=sdk.legacy_shim)),
    ("single_use takes a store first", lambda of: of(wrappers=[sdk.single_use])),
    ("goes around a handler then", lambda of: sdk.single_use(cast("Any", "rounds.sqlite"))),
    ("takes the names of arguments", lambda of: GUARD(same="amount")),
    (r"names \['amount'\], and its", lambda of: build(of(wrappers=[GUARD(same=["amount"])]))),
    ("takes a repeat_note of 1 to", lambda of: GUARD(repeat_note="")),
    (r"takes a whole number for attempts, not 1\.5", lambda of: GUARD(attempts=1.5)),
    ("for principal that is not async", lambda of: sdk.Settings(principal=ASYNC)),
    ("takes a function for connect", lambda of: sdk.ResumingClient(cast("Any", "http://"))),
    (r"'when' assumes .* no Hour\(\.\.\.\)", lambda of: replace(WHEN, assumed=cast("Any", Hour))),
    (r"annotations=mcp_types\.ToolAn", lambda of: of(annotations={"readOnlyHint": True})),
    ("takes a pydantic model", lambda of: of(arguments=Booking(guest="Ada"))),
    ("with a field for each argument", lambda of: of(arguments=RootModel[list[str]])),
    (r"settings=\.\.\. takes sdk\.Settings", lambda of: build(of(), settings={"keys": KEYS})),
    ("is a list of bytes, one entry", lambda of: sdk.Settings(keys=cast("Any", KEYS[0]))),
    ("takes no tools, tool_choice or", lambda of: sdk.sampling("summary", WITH_CONTEXT)),
    ("are kept for a principal", lambda of: sdk.ResumingClient(Mock(), calls=Mock())),
    ('is "form" or "state", not', lambda of: sdk.DurableStore(while_working=cast("Any", "task"))),
    ("a version of 1 to 100 characters", lambda of: sdk.TaskStore(version="1" * 101)),
    ("a name and tools", lambda of: sdk.build_server(of())),
    ("build_server takes lists", lambda of: sdk.build_server("x", of(), resources=STORE)),
    ("two tools have one name", lambda of: sdk.build_server("restaurant", of(), of())),
    (NOT_OPEN, lambda of: sdk.build_server("restaurant", of(handler=sdk.legacy_shim(CONTINUED)))),
    (r"MCPServer\(\.\.\., lifespan=\.\.\.\)", lambda of: high_tier(of(handler=CONTINUED))),
    ("makes a text of the task of", lambda of: high_tier(of(handler=task(book_in_line)))),
    ("not an MCPServer or Server of the package mcp", lambda of: of().add_to(FOREIGN)),
    ("not an MCPServer or Server of the package mcp", lambda of: sdk.protect(FOREIGN)),
]


@pytest.mark.parametrize(("said", "make"), MISTAKES)
def test_what_cannot_work_is_refused_at_start(said: str, make: Callable[[Any], object]) -> None:
    def of(**changes: Any) -> Any:
        return replace(tool(), **changes)

    with pytest.raises((TypeError, ValueError), match=said):
        make(of)


@pytest.mark.parametrize("number", [0, -1, 1e12, math.inf, math.nan, "5"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (sdk.Settings, "ttl_seconds"),
        (partial(sdk.SqliteStore, ":memory:"), "max_rounds"),
        (sdk.ContinuationStore, "idle_seconds"),
    ],
)
def test_a_time_or_a_size_that_can_be_none_is_refused_where_it_is_given(
    make: Callable[..., object], name: str, number: object
) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"takes a number over 0, not {number!r}; at most")
    ):
        make(**{name: number})


def test_no_pause_and_no_wait_for_another_delivery_can_be_asked_for() -> None:
    sdk.ResumingClient(Mock(), pause_seconds=0)
    GUARD(wait_seconds=0)
