"""What each option costs over a handler written by hand: time per call, memory per parked call.

Every figure is a ratio measured side by side in one run. Knows options only as servers.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from rich.table import Table

from mrtr_options import weather
from mrtr_options.observe import MODES, agreeable
from mrtr_options.options import DURABLE, Option, installed, load, option_named
from mrtr_options.review import cost_questions, postgres
from mrtr_options.review.cost_questions import QUESTIONS, QuestionsTiming, time_per_question_count
from mrtr_options.review.matrix import progress
from mrtr_options.server import TOOL, Context, Params, Result, Settings
from mrtr_options.terminal import console

if TYPE_CHECKING:
    from mrtr_options.review.cost_durable import RoundTiming

T = TypeVar("T")

CALLS = 50
"""Calls in one timing."""
REPEATS = 15
"""Timings of each server, taken in turns."""


@dataclass(frozen=True)
class Timing:
    """Time of one call with one question, in memory.

    Attributes:
        option: A letter, or "floor".
        milliseconds: Median over the repeats.
        ratio: Median of the ratio to the floor's timing in the same repeat.
        low, high: The middle half of those ratios.
    """

    option: str
    milliseconds: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Parked:
    """Memory of one parked call, by tracemalloc.

    Attributes:
        calls: How many were parked.
        bare_bytes: Of one bare task that waits on a future.
        call_bytes: Of one call of option H, made through its server.
        ratio: `call_bytes` to `bare_bytes`.
    """

    calls: int
    bare_bytes: float
    call_bytes: float
    ratio: float


def floor_server() -> Server[weather.Desk]:
    """The tool as one would write it with nothing but the SDK, its state sealed: the baseline."""
    own_desk = weather.Desk(weather.MemoryLedger())

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])

    async def call_tool(ctx: Context, params: Params) -> Result:
        location = (params.arguments or {}).get("location")
        if not isinstance(location, str):
            raise MCPError(types.INVALID_PARAMS, "location: a text is needed")
        desk = ctx.lifespan_context
        await desk.audit(location)
        state: dict[str, str] = json.loads(params.request_state) if params.request_state else {}
        place = state.get("place") or weather.only_place(location)
        if place is None:
            raise MCPError(types.INVALID_PARAMS, "location: ambiguous")
        given = (params.input_responses or {}).get("units")
        if given is None:
            return types.InputRequiredResult(
                input_requests={"units": _which_units(place)}, request_state=json.dumps({"place": place})
            )
        if not isinstance(given, types.ElicitResult) or given.action != "accept":
            return types.CallToolResult(content=[types.TextContent(text="No lookup was made.")])
        units = weather.UnitsAnswer.model_validate(given.content)
        await desk.bill(place)
        return types.CallToolResult(content=[types.TextContent(text=weather.report(place, units))])

    @asynccontextmanager
    async def lifespan(_: Server[weather.Desk]) -> AsyncGenerator[weather.Desk]:
        yield own_desk

    server = Server("weather-floor", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=lifespan)
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


def _which_units(place: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {"units": {"type": "string", "enum": ["metric", "imperial"]}},
        "required": ["units"],
    }
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=f"Which units for {place}?", requested_schema=schema
        )
    )


async def time_per_call(options: Sequence[Option], progress: Callable[[], None]) -> list[Timing]:
    """Time one call with one question on each option's server, beside the floor.

    Args:
        options: Which options.
        progress: Called `REPEATS` times.
    """
    servers: dict[str, Server[Any] | MCPServer[Any]] = {"floor": floor_server()}
    for option in options:
        servers[option.letter] = load(option.path, Settings(weather.MemoryLedger())).server
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(
                Client(server, mode=MODES["modern"], elicitation_callback=_agree)
            )
            for name, server in servers.items()
        }
        for name in clients:
            await _calls(clients[name])
        for _ in range(REPEATS):
            for name, client in clients.items():
                gc.collect()
                start = time.perf_counter()
                await _calls(client)
                seconds[name].append((time.perf_counter() - start) / CALLS)
            progress()
    return [_timing(name, seconds[name], seconds["floor"]) for name in servers]


async def _agree(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)


async def _calls(client: Client) -> None:
    for _ in range(CALLS):
        await client.call_tool(TOOL, {"location": "Tokyo"})


def _timing(name: str, own: Sequence[float], floor: Sequence[float]) -> Timing:
    ratios = [mine / base for mine, base in zip(own, floor, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Timing(name, statistics.median(own) * 1000, middle, low, high)


async def memory_per_parked_call(option: Option, calls: int) -> Parked:
    """Park calls of an option, through its server, beside as many bare tasks.

    Args:
        option: An option that keeps something per unanswered call.
        calls: How many.
    """

    async def bare() -> None:
        await asyncio.get_running_loop().create_future()

    async def park_bare() -> asyncio.Task[None]:
        return asyncio.create_task(bare())

    tasks, bare_bytes = await _measured(calls, park_bare)
    for task in tasks:
        task.cancel()
    await anyio.lowlevel.checkpoint()
    del tasks

    server = load(option.path, Settings(weather.MemoryLedger())).server
    async with Client(server, mode=MODES["modern"], elicitation_callback=_agree) as client:

        async def park_call() -> None:
            await client.session.call_tool(TOOL, {"location": "Tokyo"}, allow_input_required=True)

        await park_call()
        _, call_bytes = await _measured(calls, park_call)
    return Parked(calls, bare_bytes, call_bytes, call_bytes / bare_bytes)


async def _measured(calls: int, park: Callable[[], Awaitable[T]]) -> tuple[list[T], float]:
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [await park() for _ in range(calls)]
        await anyio.lowlevel.checkpoint()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept, (after - before) / calls


# --- showing ------------------------------------------------------------------------------------

PARKED_CALLS = 20_000


def show(options: Sequence[Option], *, as_json: bool, database: str | None = None) -> int:
    """Measure and print. Returns 0.

    Args:
        database: A second one for the durable option, beside a SQLite file. None for a PostgreSQL
            of this run's own, where one is installed.
        options: Which to time; the one that keeps frames (H) is measured for memory too.
        as_json: Print one JSON object instead of tables.
    """
    options = [option for option in options if option.extra is None]
    rounds: list[RoundTiming] = []
    with progress(quiet=as_json) as bar:
        timing = bar.add_task("time per call", total=REPEATS)
        timings = anyio.run(time_per_call, options, lambda: bar.advance(timing))
        timing = bar.add_task(f"{QUESTIONS} questions", total=cost_questions.REPEATS)
        questions = anyio.run(time_per_question_count, (QUESTIONS,), lambda: bar.advance(timing))
        parking = bar.add_task(f"{PARKED_CALLS:,} parked calls", total=None)
        parked = anyio.run(memory_per_parked_call, option_named("H"), PARKED_CALLS)
        bar.update(parking, total=1, completed=1)
        with _databases(database) as urls:
            for url in urls:
                from mrtr_options.review.cost_durable import CALLS as DURABLE_CALLS
                from mrtr_options.review.cost_durable import time_per_round

                timing = bar.add_task("time per round on a database", total=DURABLE_CALLS)
                rounds += anyio.run(time_per_round, url, partial(bar.advance, timing))
    if as_json:
        print(
            json.dumps(
                {
                    "timings": [asdict(each) for each in timings],
                    "questions": [asdict(each) for each in questions],
                    "parked": asdict(parked),
                    "rounds": [asdict(each) for each in rounds],
                },
                indent=1,
            )
        )
        return 0
    table = Table(title="one call with one question, in memory", title_justify="left", box=None)
    for heading in ("option", "ms", "to the floor", "middle half"):
        table.add_column(heading, justify="right")
    for each in timings:
        half = f"{each.low:.2f} to {each.high:.2f}"
        table.add_row(each.option, f"{each.milliseconds:.2f}", f"{each.ratio:.2f}", half)
    out = console()
    out.print(table)
    out.print("floor: the same tool written by hand with nothing but the SDK, its state sealed")
    out.print()
    out.print(_questions_table(questions))
    out.print("each question depends on the answer before it; I is the SDK's resolver")
    out.print(
        f"\n{parked.calls:,} parked calls of H: {parked.call_bytes:,.0f} bytes each,"
        f" {parked.ratio:.2f} times a bare task on a future ({parked.bare_bytes:,.0f} bytes)"
    )
    if rounds:
        out.print()
        out.print(_rounds_table(rounds))
        out.print("raw: the same tool written by hand on the engine (DBOS), its state sealed")
    return 0


@contextmanager
def _databases(database: str | None) -> Generator[list[str | None]]:
    """What the durable option is timed on; None in it for a SQLite file."""
    if not installed(DURABLE):
        yield []
    elif database is not None:
        yield [None, database]
    elif not postgres.installed():
        yield [None]
    else:
        with postgres.running() as url:
            yield [None, url]


def _questions_table(timings: Sequence[QuestionsTiming]) -> Table:
    title = f"one call with {QUESTIONS} questions, in memory"
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("option", "ms", "to I", "middle half"):
        table.add_column(heading, justify="right")
    table.add_column("executed in one call")
    for each in timings:
        table.add_row(
            each.option,
            f"{each.milliseconds:.2f}",
            f"{each.ratio:.2f}",
            f"{each.low:.2f} to {each.high:.2f}",
            ", ".join(f"{name} {times}" for name, times in each.executed.items()),
        )
    return table


def _rounds_table(rounds: Sequence[RoundTiming]) -> Table:
    table = Table(title="one round, in memory, on a database", title_justify="left", box=None)
    for heading in ("database", "option", "ms", "1 in 100", "to raw"):
        table.add_column(heading, justify="right")
    for each in rounds:
        table.add_row(
            each.database,
            each.what,
            f"{each.milliseconds:.1f}",
            f"{each.slowest:.1f}",
            f"{each.ratio:.2f}",
        )
    return table
