"""Tests of a server of one's own, with a tool of one's own."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    computed_field,
    create_model,
)

from mrtr_options import sdk
from mrtr_options.review.bench.client import MODES
from mrtr_options.sdk.protection import ANSWER_BY
from tests.restaurant import (
    TIERS,
    WHEN,
    Booking,
    Hour,
    Serve,
    State,
    answering,
    book,
    book_in_line,
    call,
    high_tier,
    lowlevel,
    modern,
    tool,
)
from tests.sending import round_of, text_of

pytestmark = pytest.mark.anyio


def own_server(handler: Any) -> Server[Any]:
    """Put a lowlevel server together by hand, with nothing around its handler."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool().listed])

    return Server("by-hand", on_list_tools=list_tools, on_call_tool=handler)


class Odd(BaseModel):
    """Arguments with names that Python, the SDK or a stand-in use, and with defaults."""

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
    ("user", "output", "says", "is_error"),
    [
        (answering("decline"), None, "'when' was declined", False),
        (answering("cancel"), None, "'when' was cancelled", False),
        (None, None, "cannot be asked for 'when'", True),
        (answering("decline"), Booking, "'when' was declined", True),
        (answering("cancel"), Booking, "'when' was cancelled", True),
    ],
)
async def test_a_question_that_is_not_answered_ends_in_a_text(
    serve: Serve, user: Any, output: type[BaseModel] | None, says: str, is_error: bool
) -> None:
    """Expect an error where output is promised: the SDK's client takes no other text."""
    server = serve(replace(tool(), output_schema=output))
    async with modern(server, user) as client:
        await client.list_tools()
        result = await client.call_tool("book_table", {"guest": "Ada"})
    assert says in text_of(result)
    assert result.is_error == is_error


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
        (lambda: sdk.text("booked"), "ValidationError"),
    ],
)
async def test_a_mistake_of_the_authors_is_an_error_that_the_log_explains_and_no_result(
    serve: Serve, ends: Callable[[], Any], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(ctx: sdk.Context, params: sdk.Params) -> Any:
        return ends()

    server = serve(replace(tool(handler), output_schema=Booking))
    sdk.protect(server)  # the lowlevel tier is protected twice
    caplog.set_level(logging.INFO, logger="mrtr_options.rounds")
    with pytest.raises(MCPError, match=r"^Internal server error$") as raised:
        await call(server)
    assert raised.value.code == types.INTERNAL_ERROR
    assert says in caplog.text
    assert [vars(each)["outcome"] for each in caplog.records if "outcome" in vars(each)] == [
        "crashed"
    ]


class Stay(BaseModel):
    """What a tool writes otherwise than it reads it."""

    model_config = ConfigDict(extra="forbid")
    guest: str = Field(serialization_alias="name")
    secret: str = Field(exclude=True)
    day: Annotated[date, PlainSerializer(lambda day: f"{day:%d %b}", return_type=str)]

    @computed_field
    def nights(self) -> int:
        return 1


@TIERS
async def test_a_result_is_held_against_what_its_model_writes(serve: Serve) -> None:
    stay = Stay(guest="Ada", secret="1", day=date(2026, 12, 1))
    said = stay.model_dump(by_alias=True)

    async def handler(ctx: sdk.Context, params: sdk.Params) -> Any:
        return sdk.text("booked").model_copy(update={"structured_content": said})

    async with modern(serve(replace(tool(handler), output_schema=Stay))) as client:
        await client.list_tools()
        result = await client.call_tool("book_table", {"guest": "Ada"})
    assert result.structured_content == said == {"name": "Ada", "day": "01 Dec", "nights": 1}


async def test_a_tool_whose_name_is_taken_leaves_the_other_tool_as_it_is() -> None:
    server = MCPServer("restaurant")

    @server.tool()
    async def book_table() -> Booking:
        raise NotImplementedError

    sdk.protect(server)
    tool().add_to(server)
    (listed,) = await server.list_tools()
    assert listed.output_schema is not None


class Tip(BaseModel):
    """A form with one field of every kind that JSON and Python read differently."""

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
    assert refusal.value.data["question"] == "tip"


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
    "named": sdk.single_use(sdk.SqliteStore(":memory:"), call="guest", call_is_secret=True)(tip),
    "continued": sdk.ContinuationStore().linear(book_in_line),
}


@pytest.mark.parametrize("name", STATEFUL)
async def test_without_protection_no_state_is_handed_out_or_taken(name: str) -> None:
    server = own_server(STATEFUL[name])
    for _ in range(2):
        with pytest.raises(MCPError, match=r"sdk\.build_server, or add sdk\.protect\(server\)"):
            await call(server)
    made_up = types.InputRequiredResult(request_state='{"hour": 3}')
    async with modern(server) as client:
        with pytest.raises(MCPError, match=r"sdk\.build_server, or add sdk\.protect\(server\)"):
            await round_of(client, "book_table", {"guest": "Eve"}, made_up)


async def mistaken(ctx: Any, params: Any, values: Any = None) -> Any:
    """Serve a prompt or a resource, and fail to validate the author's own data."""
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
    server = sdk.build_server("restaurant", tool(tip))  # `tip` does not look at its arguments
    with pytest.raises(MCPError, match="party"):
        await call(server, arguments={"guest": "Ada", "party": 9})
    async with modern(server) as client:
        with pytest.raises(MCPError, match="Unknown tool: 'weather'"):
            await client.call_tool("weather", {})


async def test_a_tool_beside_others_is_on_the_last_page_of_the_list() -> None:
    pages = {None: "tea", "then": "coffee"}

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        listed = replace(tool(), name=pages[params.cursor]).listed
        following = "then" if params.cursor is None else None
        return types.ListToolsResult(tools=[listed], next_cursor=following)

    server = Server("café", on_list_tools=list_tools)
    tool().add_to(server)
    async with modern(server) as client:
        first = await client.list_tools()
        last = await client.list_tools(cursor=first.next_cursor)
    names = [[each.name for each in page.tools] for page in (first, last)]
    assert names == [["tea"], ["coffee", "book_table"]]


async def test_a_question_of_a_middleware_says_until_when_it_may_be_answered() -> None:
    async def asks(ctx: Any, call_next: Any) -> Any:
        return sdk.ask(WHEN, State()) if ctx.method == "tools/call" else await call_next(ctx)

    server = sdk.build_server("restaurant", tool())
    server.middleware.append(asks)
    async with modern(server) as client:
        asked = await round_of(client, "book_table", {"guest": "Ada"})
    assert ANSWER_BY in (asked.meta or {})


async def test_a_store_that_is_not_open_says_so_to_whoever_calls() -> None:
    server = own_server(sdk.ContinuationStore().linear(book_in_line))
    sdk.protect(server, sdk.Settings())
    with pytest.raises(MCPError, match=r"async with store"):
        await call(server)


def test_a_server_serves_on_one_event_loop_after_another() -> None:
    server = sdk.build_server("restaurant", tool(), settings=sdk.Settings())

    async def listed() -> str:
        async with Client(server) as client:
            return (await client.list_tools()).tools[0].name

    assert [anyio.run(listed, backend=each) for each in ("asyncio", "trio")] == ["book_table"] * 2
