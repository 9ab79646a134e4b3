"""A server of one's own: any tool on it, and each way to put it together wrongly refused in one
line.
"""

import logging
import math
import pydoc
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal, cast
from unittest.mock import Mock

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context as HighTierContext
from pydantic import BaseModel, Field, RootModel, create_model

from documents import api
from mrtr_options import sdk
from mrtr_options.review.bench.client import MODES
from mrtr_options.sdk.testing import client as client_of
from mrtr_options.sdk.testing import served
from tests.commands import python
from tests.rounds import text_of
from tests.sdk.fakes import until

pytestmark = pytest.mark.anyio


class Booking(BaseModel):
    """What the tool is called with."""

    guest: str
    party: int = Field(default=2, ge=1, le=8)


class Hour(BaseModel):
    """The answer to `WHEN`."""

    hour: Literal[18, 20]


class State(sdk.Markers):
    """What a later round needs."""

    hour: int | None = None


WHEN = sdk.Question("when", "At what time?", Hour)
SURE = sdk.Question("sure", "Is that all?", Hour)


async def book(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    booking = sdk.arguments_of(params, Booking)
    state = sdk.load_state(params, State)
    if state.hour is None:
        if (answer := sdk.answer_to(WHEN, ctx, params)) is None:
            return sdk.ask(WHEN, state)
        state.hour = answer.hour
    if sdk.answer_to(SURE, ctx, params) is None:
        return sdk.ask(SURE, state)
    return sdk.text(f"{booking.guest}, {booking.party} at {state.hour}")


async def book_in_line(ctx: Any, params: Any) -> types.CallToolResult:
    answer = await ctx.elicit(WHEN)
    return sdk.text(f"at {answer.hour}")


def tool(handler: Any = book, *wrappers: Any) -> sdk.Tool:
    return sdk.Tool("book_table", "Books a table.", Booking, handler, wrappers)


def answering(action: Literal["accept", "decline", "cancel"] = "accept", hour: object = 20) -> Any:
    async def answer(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        content: Any = {"hour": hour} if action == "accept" else None
        return types.ElicitResult(action=action, content=content)

    return answer


def modern(server: Any, user: Any = None) -> Client:
    return Client(server, mode=MODES["modern"], elicitation_callback=user)


async def one_round(client: Client, **more: Any) -> Any:
    call = client.session.call_tool
    return await call("book_table", {"guest": "Eve"}, allow_input_required=True, **more)


async def call(server: Any, user: Any = None, arguments: Any = None) -> types.CallToolResult:
    """One call through the SDK's own client, which raises errors in groups."""
    async with modern(server, user or answering()) as client:
        try:
            return await client.call_tool("book_table", arguments or {"guest": "Ada"})
        except MCPError as error:
            refusal = error
    raise refusal


def own_server(handler: Any) -> Server[Any]:
    """A lowlevel server put together by hand, with nothing around its handler."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool().listed])

    return Server("by-hand", on_list_tools=list_tools, on_call_tool=handler)


def high_tier(made: sdk.Tool) -> MCPServer[Any]:
    server = MCPServer("restaurant")

    @server.tool()
    def menu(day: str) -> str:
        return f"soup on {day}"

    made.add_to(server)
    return server


def lowlevel(made: sdk.Tool) -> Server[Any]:
    return sdk.build_server("restaurant", made)


TIERS = pytest.mark.parametrize("serve", [lowlevel, high_tier], ids=["lowlevel", "high"])
Serve = Callable[[sdk.Tool], Any]


@TIERS
@pytest.mark.parametrize("option", ["by hand", "replay"])
async def test_a_tool_of_any_name_is_listed_and_answered(serve: Serve, option: str) -> None:
    server = serve(tool(STATEFUL[option], sdk.single_use(sdk.SqliteStore(":memory:"))))
    async with modern(server) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}["book_table"]
    schema = listed.input_schema
    assert listed.description == "Books a table."
    assert set(schema["properties"]) == {"guest", "party"}
    assert schema["required"] == ["guest"]
    assert schema["properties"]["party"]["maximum"] == 8
    assert "20" in text_of(await call(server))


class Odd(BaseModel):
    """Arguments whose names and defaults are those of Python, of the SDK or of a stand-in."""

    ctx: str
    ctx_: int = 2
    from_: str = Field(alias="from")
    tags: list[str] = Field(default_factory=lambda: ["none"])


async def test_an_argument_may_have_any_name_and_any_default_on_an_mcpserver() -> None:
    async def odd(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        return sdk.text(str(sdk.arguments_of(params, Odd)))

    server = high_tier(replace(tool(odd), arguments=Odd))
    result = await call(server, arguments={"ctx": "c", "from": "f"})
    assert text_of(result) == "ctx='c' ctx_=2 from_='f' tags=['none']"


@TIERS
@pytest.mark.parametrize(
    ("user", "says", "is_error"),
    [
        (answering("decline"), "'when' was declined", False),
        (answering("cancel"), "'when' was cancelled", False),
        (None, "cannot be asked for 'when'", True),
    ],
)
async def test_a_question_that_is_not_answered_ends_in_a_text(
    serve: Serve, user: Any, says: str, is_error: bool
) -> None:
    async with modern(serve(tool()), user) as client:
        result = await client.call_tool("book_table", {"guest": "Ada"})
    assert says in text_of(result)
    assert result.is_error == is_error


@TIERS
async def test_a_forged_state_books_nothing(serve: Serve) -> None:
    answers = {"sure": types.ElicitResult(action="accept", content={"hour": 18})}
    async with modern(serve(tool())) as client:
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await one_round(client, request_state='{"hour": 3}', input_responses=answers)


@TIERS
async def test_half_a_character_in_arguments_or_answers_is_refused_before_anything_runs(
    serve: Serve,
) -> None:
    half = "cut within a smile: \ud83d"
    server = serve(tool(book, sdk.single_use(sdk.SqliteStore(":memory:"))))
    sdk.protect(server)
    with pytest.raises(MCPError, match="half of a surrogate pair"):
        await call(server, arguments={"guest": half})
    with pytest.raises(MCPError, match="half of a surrogate pair"):
        await call(server, answering(hour=half))


def raises() -> Any:
    raise OSError("the printer is on fire")


@TIERS
@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (raises, "the printer is on fire"),
        (lambda: Booking.model_validate({"guest": 5}), "ValidationError"),
        (lambda: None, "the handler returned NoneType, and no result"),
        (lambda: "booked", "the handler returned str, and no result"),
    ],
)
async def test_a_mistake_of_the_authors_is_an_error_that_the_log_explains_and_no_result(
    serve: Serve, ends: Callable[[], Any], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(ctx: sdk.Context, params: sdk.Params) -> Any:
        return ends()

    server = serve(tool(handler))
    sdk.protect(server)  # once more, on the lowlevel tier
    caplog.set_level(logging.INFO, logger="mrtr_options.rounds")
    with pytest.raises(MCPError, match=r"^Internal server error$") as raised:
        await call(server)
    assert raised.value.code == types.INTERNAL_ERROR
    assert says in caplog.text
    assert [vars(each)["outcome"] for each in caplog.records if "outcome" in vars(each)] == [
        "crashed"
    ]


async def mistaken(ctx: Any, params: Any, values: Any = None) -> Any:
    """A prompt or a resource whose author's own data does not fit."""
    Booking.model_validate({})


FRAMES = sdk.ContinuationStore()
OF_ANYTHING: dict[str, Any] = {
    "J": sdk.keyed_replay(mistaken),
    "H": FRAMES.linear(mistaken),
    "G": sdk.ToolBuilder[Any, Any, Any]()
    .step("when", lambda ctx, params, values: Hour(hour=18))
    .end(mistaken)
    .build(),
}


@pytest.mark.parametrize("option", OF_ANYTHING)
async def test_a_mistake_in_a_prompt_or_a_resource_is_an_error_of_the_authors_too(
    option: str,
) -> None:
    handler = OF_ANYTHING[option]
    server = Server("restaurant", on_get_prompt=handler, on_read_resource=handler)
    sdk.protect(server)
    async with FRAMES, Client(server, mode=MODES["modern"]) as client:
        for get in (client.get_prompt, client.read_resource)[: 1 if option == "H" else 2]:
            with pytest.raises(MCPError, match=r"^Internal server error$"):
                await get("menu://today")


async def test_arguments_and_names_that_do_not_fit_are_refused() -> None:
    server = sdk.build_server("restaurant", tool(tip))  # which does not look at its arguments
    with pytest.raises(MCPError, match="party"):
        await call(server, arguments={"guest": "Ada", "party": 9})
    async with modern(server) as client:
        with pytest.raises(MCPError, match="Unknown tool: 'weather'"):
            await client.call_tool("weather", {})


async def test_whoever_the_settings_say_is_calling_is_known_to_all_that_tells_callers_apart() -> (
    None
):
    caller = "ann"
    paid = list[str]()
    settings = sdk.Settings(principal=lambda ctx: caller)

    async def pay(ctx: sdk.ReplayContext[Any], params: sdk.Params) -> sdk.Result:
        ctx.on_commit(paid.append, key="pay")
        return sdk.text("paid")

    frames = sdk.ContinuationStore(max_parked_per_caller=1)
    guard = sdk.single_use(sdk.SqliteStore(":memory:"))
    guarded = sdk.build_server("restaurant", tool(book, guard), settings=settings)
    linear = tool(frames.linear(cast("Any", book_in_line)))
    held = sdk.build_server("restaurant", linear, settings=settings, resources=[frames])
    replayed = sdk.build_server("restaurant", tool(sdk.keyed_replay(pay)), settings=settings)
    meta: Any = {sdk.CALL_KEY: sdk.new_call_key()}
    named: list[object] = []

    async def begin(server: Any) -> Any:
        return await one_round(
            await stack.enter_async_context(modern(server, answering())), meta=meta
        )

    async with AsyncExitStack() as stack:
        for name in ("ann", "bob"):
            caller = name
            named.append((await begin(guarded)).meta["mrtr-options/call"])
            assert isinstance(await begin(held), types.InputRequiredResult)
            with pytest.raises(MCPError, match="1 unanswered calls of yours"):
                await begin(held)
            await begin(replayed)
        assert len(set(named)) == 2, "bob was given ann's call"
        assert len(set(paid)) == 2, "bob's effect has ann's key"


class Tip(BaseModel):
    """A form with one field of each kind that JSON and Python read differently."""

    percent: int = Field(le=20)
    by: Literal["card", "cash"]
    shared: bool = False
    day: str = Field(default="2026-07-28", json_schema_extra={"format": "date"})


TIP = sdk.Question("tip", "How much?", Tip)


async def tip(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    answer = sdk.answer_to(TIP, ctx, params)
    return sdk.ask(TIP) if answer is None else sdk.text(str(answer))


FORMS: dict[str, dict[str, Any]] = {
    "fits": {"percent": 5, "by": "card", "shared": True},
    "an empty field": {"percent": 5, "by": "card", "shared": None},
    "percent: Field required": {"by": "card"},
    "percent: Input should be of the type integer": {"percent": "5", "by": "card"},
    "percent: Input should keep maximum 20": {"percent": 21, "by": "card"},
    "by: Input should be 'card' or 'cash'": {"percent": 5, "by": "bill"},
    "day: Input should keep format 'date'": {"percent": 5, "by": "card", "day": "tomorrow"},
    "shared: Input should be of the type boolean": {"percent": 5, "by": "card", "shared": "yes"},
}


@pytest.mark.parametrize("why", FORMS)
@pytest.mark.parametrize("guarded", [False, True])
async def test_a_form_is_checked_alike_inside_the_guard_and_outside(
    why: str, guarded: bool
) -> None:
    async def user(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=FORMS[why])

    server = lowlevel(
        tool(tip, *([sdk.single_use(sdk.SqliteStore(":memory:"))] if guarded else []))
    )
    if ":" not in why:
        assert text_of(await call(server, user)).startswith("percent=5 by='card'")
        return
    with pytest.raises(MCPError) as refusal:
        await call(server, user)
    assert refusal.value.message == f"The answer to 'tip' does not fit the question: {why}"
    assert refusal.value.data == {"reason": "invalid_answer", "question": "tip"}


NO_FORMS = {"amount": Decimal, "tip": Tip, "hours": list[str], "when": int | str}


@pytest.mark.parametrize("field", NO_FORMS)
def test_a_field_that_no_form_has_is_refused_where_the_question_is_made(field: str) -> None:
    form = cast("Any", create_model)("Form", **{field: (NO_FORMS[field], ...)})
    with pytest.raises(TypeError, match=f"field '{field}'.* fields are str, int, float") as refusal:
        sdk.Question("key", "What?", form)
    assert "\n" not in str(refusal.value)


STATEFUL: dict[str, Any] = {
    "by hand": book,
    "replay": sdk.keyed_replay(book_in_line),
    "steps": sdk.ToolBuilder[Any]()
    .step("when", lambda ctx, params, values: WHEN)
    .end(lambda ctx, params, values: sdk.text("done"))
    .build(),
    "guarded": sdk.single_use(sdk.SqliteStore(":memory:"))(book),
    "continued": sdk.ContinuationStore().linear(book_in_line),
}


@pytest.mark.parametrize("name", STATEFUL)
async def test_without_protection_no_state_is_handed_out_or_taken(name: str) -> None:
    server = own_server(STATEFUL[name])
    with pytest.raises(MCPError, match=r"sdk\.build_server, or add sdk\.protect\(server\)"):
        await call(server)
    async with modern(server) as client:
        with pytest.raises(MCPError, match=r"sdk\.build_server, or add sdk\.protect\(server\)"):
            await one_round(client, request_state='{"hour": 3}')


async def test_a_store_that_is_not_open_says_so_to_whoever_calls() -> None:
    server = own_server(sdk.ContinuationStore().linear(book_in_line))
    sdk.protect(server, sdk.Settings())
    with pytest.raises(MCPError, match=r"async with store"):
        await call(server)


async def _text(guest: str, ctx: HighTierContext[Any]) -> str:
    return guest


async def _three_arguments(ctx: Any, guest: str, party: int) -> str:
    return guest


async def _in_line(ctx: sdk.LinearContext[None], params: sdk.Call) -> types.CallToolResult:
    return sdk.text("")


def _plain(ctx: Any, params: Any) -> Any:
    return sdk.text("")


WRAPPERS: dict[str, Callable[[Any], object]] = {
    "single_use": sdk.single_use(sdk.SqliteStore(":memory:")),
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


def test_a_step_that_takes_something_else_is_refused_where_it_is_added() -> None:
    steps = cast("Any", sdk.ToolBuilder[Any]())
    for add in (partial(steps.step, "when"), steps.end):
        with pytest.raises(sdk.NotAHandler, match=r"\(ctx, params, values\)"):
            add(_plain)


CONTINUED = cast("Any", sdk.ContinuationStore().linear(cast("Any", book_in_line)))


def durable(of: Any) -> None:
    sdk.build_server("restaurant", of(handler=sdk.DurableStore().linear(cast("Any", book_in_line))))


def task(of: Any, serve: Callable[[sdk.Tool, Any], object]) -> None:
    store = sdk.TaskStore()
    serve(of(handler=store.task(cast("Any", book_in_line))), store)


NOT_OPEN = r"build_server\(\.\.\., resources=\[store\]\)"
SERVING = NOT_OPEN.replace("store", r"store\.serving")
LISTS = r"build_server takes lists, as in resources=\[store\.serving\]"
FOREIGN = Mock(middleware=[])  # as fastmcp's FastMCP has one, and add_tool
SAMPLED = types.CreateMessageRequestParams(messages=[], max_tokens=9, tools=[tool().listed])
MISTAKES: list[tuple[str, Callable[[Any], object]]] = [
    ("takes a list of wrappers", lambda of: of(wrappers=sdk.legacy_shim)),
    ("takes a list of", lambda of: of(wrappers=[sdk.SqliteStore(":memory:")])),
    ("single_use takes a store first", lambda of: of(wrappers=[sdk.single_use])),
    ("goes around a handler then", lambda of: sdk.single_use(cast("Any", "rounds.sqlite"))),
    ("goes around a handler then", lambda of: sdk.single_use(cast("Any", sdk.SqliteStore))),
    (
        r"takes sdk\.Settings\(",
        lambda of: sdk.build_server("x", settings=cast("Any", sdk.Settings)),
    ),
    (
        "Settings takes a function for principal",
        lambda of: sdk.Settings(principal=cast("Any", None)),
    ),
    ("takes a function for connect", lambda of: sdk.ResumingClient(cast("Any", "http://"))),
    (r"'when' assumes .* no Hour\(\.\.\.\)", lambda of: replace(WHEN, assumed=cast("Any", Hour))),
    ("a wrapper of Tool.'book_table'. takes a handler", lambda of: of(wrappers=[str])),
    ("takes a pydantic model", lambda of: of(arguments={"type": "object"})),
    ("takes a pydantic model", lambda of: of(arguments=Booking(guest="Ada"))),
    ("with a field for each argument", lambda of: of(arguments=RootModel[list[str]])),
    ("takes a name and tools", lambda of: sdk.build_server("restaurant", cast("Any", [of()]))),
    ("a name and tools", lambda of: sdk.build_server(of())),
    (LISTS, lambda of: sdk.build_server("x", of(), resources=cast("Any", sdk.ContinuationStore()))),
    (LISTS, lambda of: sdk.build_server("x", of(), resources=[cast("Any", sdk.ContinuationStore)])),
    (
        LISTS,
        lambda of: sdk.build_server("x", of(), extensions=[cast("Any", sdk.ContinuationStore())]),
    ),
    (r"Tool\('book_table'\) takes a function for outcome_of", lambda of: of(outcome_of=None)),
    ("'draft' takes no tools", lambda of: sdk.sampling("draft", SAMPLED)),
    ("two tools have one name", lambda of: sdk.build_server("restaurant", of(), of())),
    (NOT_OPEN, lambda of: sdk.build_server("restaurant", of(handler=CONTINUED))),
    (NOT_OPEN, lambda of: sdk.build_server("restaurant", of(handler=sdk.legacy_shim(CONTINUED)))),
    (SERVING, durable),
    (SERVING, lambda of: task(of, lambda made, store: sdk.build_server("x", made))),
    (
        r"extensions=\[store\]",
        lambda of: task(
            of, lambda made, store: sdk.build_server("x", made, resources=[store.serving])
        ),
    ),
    (
        "makes a text of the task of 'book_table'",
        lambda of: task(of, lambda made, _: high_tier(made)),
    ),
    (r"MCPServer\(\.\.\., lifespan=\.\.\.\)", lambda of: high_tier(of(handler=CONTINUED))),
    ("not an MCPServer of the package mcp", lambda of: of().add_to(FOREIGN)),
    *(
        ("not an MCPServer or Server of the package mcp", lambda of, use=use: use(FOREIGN))
        for use in (sdk.protect, sdk.serve)
    ),
]


@pytest.mark.parametrize(("said", "make"), MISTAKES)
def test_what_cannot_work_is_refused_at_start(said: str, make: Callable[[Any], object]) -> None:
    def of(**changes: Any) -> Any:
        return replace(tool(), **changes)

    if "serving" in said or "extensions" in said or "task" in said:
        pytest.importorskip("dbos")
    with pytest.raises((TypeError, ValueError), match=said):
        make(of)


async def test_what_a_block_raises_comes_out_when_its_server_has_ended_in_order() -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def resource() -> AsyncGenerator[None]:
        yield
        ended.append("in order")

    async def block() -> None:
        async with served(sdk.build_server("restaurant", tool(), resources=[resource()])) as url:
            async with client_of(url, answering()) as caller:
                await caller.list_tools()
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block"):
        await block()
    assert ended == ["in order"]


both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Held:
    """A resource whose opening and closing take until they are let go."""

    def __init__(self) -> None:
        self.log = list[str]()
        self.may_open = anyio.Event()
        self.may_close = anyio.Event()

    @asynccontextmanager
    async def __call__(self, *_: object, **__: object) -> AsyncGenerator[None]:
        self.log.append("opens")
        await self.may_open.wait()
        self.log.append("open")
        try:
            yield
        finally:
            self.log.append("closes")
            await self.may_close.wait()
            self.log.append("closed")


Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


def lifespan_of(*resources: Any) -> Lifespan:
    """What every connection of a server with these resources enters."""
    server = sdk.build_server("restaurant", tool(), resources=resources)
    return lambda: server.lifespan(server)


async def connection(lifespan: Lifespan, log: list[str], stay: anyio.Event) -> None:
    async with lifespan():
        log.append("in")
        await stay.wait()


@both_loops
async def test_two_first_connections_open_what_is_held_once_and_close_it_when_cut_off() -> None:
    held = Held()
    held.may_close.set()
    lifespan = lifespan_of(held)
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(connection, lifespan, held.log, anyio.Event())
        await until(lambda: bool(held.log))
        held.may_open.set()
        await until(lambda: held.log.count("in") == 2)
        group.cancel_scope.cancel()
    assert held.log == ["opens", "open", "in", "in", "closes", "closed"]


@both_loops
async def test_a_connection_that_comes_during_the_cleanup_finds_what_is_held_open() -> None:
    held = Held()
    leave = anyio.Event()
    stay = anyio.Event()
    held.may_open.set()
    lifespan = lifespan_of(held)
    async with anyio.create_task_group() as group:
        group.start_soon(connection, lifespan, held.log, leave)
        await until(lambda: "in" in held.log)
        leave.set()
        await until(lambda: "closes" in held.log)
        group.start_soon(connection, lifespan, held.log, stay)
        await anyio.wait_all_tasks_blocked()
        held.may_close.set()
        await until(lambda: held.log.count("in") == 2)
        stay.set()
    assert held.log == ["opens", "open", "in", "closes", "closed"] * 2


@both_loops
async def test_a_resource_that_fails_to_open_closes_those_before_it_and_can_be_tried_again() -> (
    None
):
    held = Held()
    held.may_open.set()
    held.may_close.set()
    fails = [True]

    @asynccontextmanager
    async def second(*_: object, **__: object) -> AsyncGenerator[None]:
        if fails.pop():
            raise OSError("no database")
        fails.append(False)
        yield

    lifespan = lifespan_of(held, second)
    with pytest.raises(OSError, match="no database"):
        async with lifespan():
            raise AssertionError("was opened")
    assert held.log == ["opens", "open", "closes", "closed"]
    fails.append(False)
    async with lifespan():
        held.log.append("in")
    assert held.log[4:] == ["opens", "open", "in", "closes", "closed"]


def test_help_of_sdk_is_its_list_of_names_which_leaves_none_out_and_each_says_what_it_is_for() -> (
    None
):
    each = {name: getattr(sdk, name) for name in api.NAMES}
    ours = {name: value for name, value in each.items() if hasattr(value, "__qualname__")}
    ours = {
        name: value for name, value in ours.items() if value.__module__.startswith("mrtr_options")
    }
    assert len(ours) > 30
    assert [name for name, value in ours.items() if not (value.__doc__ or "").strip()] == []
    assert set(api.NAMES) == set(sdk.NAMES)
    assert len(pydoc.render_doc(sdk).splitlines()) < 125


def test_sdk_imports_no_other_part_and_no_engine_and_leaves_the_way_errors_are_shown_alone() -> (
    None
):
    code = (
        "import sys; sys.modules['dbos'] = None\n"
        "from mrtr_options import sdk\n"
        "for name in sdk.NAMES: getattr(sdk, name)\n"
        "assert sys.excepthook is sys.__excepthook__\n"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('mrtr_options.')})"
    )
    ran = python("-c", code)
    shared = {"checks", "errors", "files", "names"}
    assert set(ran.stdout.split()) - shared == {"sdk"}, ran.stderr


def test_a_server_serves_on_one_event_loop_after_another() -> None:
    server = sdk.build_server("restaurant", tool(), settings=sdk.Settings())

    async def listed() -> str:
        async with Client(server) as client:
            return (await client.list_tools()).tools[0].name

    assert [anyio.run(listed, backend=each) for each in ("asyncio", "trio")] == ["book_table"] * 2


@pytest.mark.parametrize("number", [0, -1, math.inf, math.nan, "5"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (sdk.Settings, "ttl_seconds"),
        (partial(sdk.SqliteStore, ":memory:"), "max_rounds"),
        (partial(sdk.single_use, sdk.SqliteStore(":memory:")), "round_seconds"),
        (sdk.ContinuationStore, "idle_seconds"),
        (partial(sdk.ResumingClient, Mock()), "round_seconds"),
        (sdk.DurableStore, "rounds"),
        (sdk.TaskStore, "ttl_seconds"),
    ],
)
def test_a_time_or_a_size_that_can_be_none_is_refused_where_it_is_given(
    make: Callable[..., object], name: str, number: object
) -> None:
    with pytest.raises(ValueError, match=f"takes a number over 0, not {number!r}"):
        make(**{name: number})


def test_no_pause_and_no_wait_for_another_delivery_can_be_asked_for() -> None:
    sdk.ResumingClient(Mock(), pause_seconds=0)
    sdk.single_use(sdk.SqliteStore(":memory:"), wait_seconds=0)
