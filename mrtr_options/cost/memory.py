"""What a parked call costs: H's frames in memory, and how long to park, to resume and to evict them.

H's stand-in is driven directly, with the context of a real request: at a hundred thousand calls the
wire would take minutes, and it would hide what is looked for, which is whether the store slows down as
it fills. One size goes through the whole server as well, to show that a request leaves nothing else
behind. Knows H's stand-in and asyncio.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp import Client

from mrtr_options.bench.client import MODES
from mrtr_options.cost.calls import agree
from mrtr_options.cost.timing import Progress, Row, ratio, spread, steady
from mrtr_options.sdk.suspended import Call, ContinuationStore, LinearContext
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.server import TOOL, Context, Handler, Params, Result
from mrtr_options.tool.settings import Settings

SIZES = (1_000, 20_000, 100_000)
THROUGH_SERVER = 1_000
BATCH = 1_000
"""Calls that are timed together. Of a size's batches the median counts, so that a pass of the garbage
collector or another process falls out."""
BATCHES = 20
"""How many batches are timed, spread over the store; the smallest size is filled anew for each."""
EVICTIONS = 2
"""How often a whole store is given up; beside it, several small ones."""
BASELINE = 20_000
"""The most bare tasks, and the most with streams, that are made to be compared with: a hundred thousand
of the latter would take most of a gigabyte."""


VERBS = ("park", "resume", "evict")
Times = dict[str, list[float]]
"""Microseconds of the processor for one call, batch by batch: to `park`, from the request to the
question; to `resume`, from the answer to the result, oldest first; to `evict`, all at once. And the
same, as `small_park` and so on, for a store of `BATCH` calls
that is filled and emptied beside this one."""


async def parked(sizes: Sequence[int], progress: Progress) -> list[Row]:
    """Park calls of H, by number.

    Args:
        sizes: How many calls; multiples of `BATCH`.
        progress: Called once for each size.

    Returns:
        The bytes of one of them by tracemalloc, beside a bare task that waits on a future and a task
        with two memory object streams (which is how one would do it with anyio); and its times.
    """
    context = await _context_of_a_request()
    found: list[Row] = []
    baselines: dict[int, tuple[float, float]] = {}
    for size in sizes:
        call_bytes = await _bytes_of_calls(context, size)
        compared = min(size, BASELINE)
        if compared not in baselines:
            baselines[compared] = (
                await _bytes_of_tasks(compared, _on_a_future),
                await _bytes_of_tasks(compared, _on_two_streams),
            )
        task_bytes, streams_bytes = baselines[compared]
        times: Times = defaultdict(list)
        while len(times["park"]) < BATCHES:
            await _time_batches(context, size, times)
        for _ in range(EVICTIONS):
            times["evict"].append(await _evict(context, size))
            small = [await _evict(context, BATCH) for _ in range(5)]
            times["small_evict"].append(statistics.median(small))
        found.append(
            Row(
                "H",
                {
                    "calls": size,
                    "call_bytes": call_bytes,
                    "task_bytes": task_bytes,
                    "streams_bytes": streams_bytes,
                    **{verb: spread(times[verb]) for verb in VERBS},
                    **{f"{verb}_ratio": ratio(times[verb], times[f"small_{verb}"]) for verb in VERBS},
                    "to_task": call_bytes / task_bytes,
                    "to_streams": call_bytes / streams_bytes,
                },
            )
        )
        progress()
    return found


async def bytes_through_server(calls: int) -> float:
    """Bytes of one parked call of H that was made by a client through the whole server."""
    server = load(option_named("H").path, Settings(weather.MemoryLedger()))
    async with Client(server, mode=MODES["modern"], elicitation_callback=agree) as client:

        async def park() -> None:
            await client.session.call_tool(TOOL, {"location": "Tokyo"}, allow_input_required=True)

        await park()
        return await _measured(calls, park)


# --- H ------------------------------------------------------------------------------------------


async def _context_of_a_request() -> Context:
    contexts: list[Context] = []

    def keep(handler: Handler) -> Handler:
        async def kept(ctx: Context, params: Params) -> Result:
            contexts.append(ctx)
            return await handler(ctx, params)

        return kept

    settings = Settings(weather.MemoryLedger(), wrappers=(keep,))
    server = load(option_named("H").path, settings)
    async with Client(server, mode=MODES["modern"], elicitation_callback=agree) as client:
        await client.session.call_tool(TOOL, {"location": "Tokyo"}, allow_input_required=True)
    return contexts[0]


async def _tool(ctx: LinearContext[Any], params: Call) -> types.CallToolResult:
    units = await ctx.elicit(weather.which_units("Tokyo, Japan"))
    return types.CallToolResult(content=[types.TextContent(text=units.units)])


async def _bytes_of_calls(context: Context, calls: int) -> float:
    async with ContinuationStore(max_parked=calls) as store:
        handler = store.linear(_tool)

        async def park() -> None:
            await handler(context, _round())

        return await _measured(calls, park)


async def _time_batches(context: Context, calls: int, times: Times) -> None:
    """Park so many calls and then resume them all, with a small store beside it for each batch."""
    with steady():
        async with ContinuationStore(max_parked=calls) as store:
            batches = calls // BATCH
            timed = range(0, batches, max(batches // BATCHES, 1))
            waiting: list[list[Result]] = []
            for batch in range(batches):
                took, asked = await _park(context, store)
                waiting.append(asked)
                if batch in timed:
                    async with ContinuationStore() as small:
                        beside, _ = await _park(context, small)
                    times["park"].append(took)
                    times["small_park"].append(beside)
            for batch, asked in enumerate(waiting):
                took = await _resume(context, store, asked)
                if batch in timed:
                    async with ContinuationStore() as small:
                        _, asked_beside = await _park(context, small)
                        times["small_resume"].append(await _resume(context, small, asked_beside))
                    times["resume"].append(took)


async def _park(context: Context, store: ContinuationStore) -> tuple[float, list[Result]]:
    """A batch; microseconds for each, and what was asked."""
    handler = store.linear(_tool)
    begins = time.process_time()
    asked = [await handler(context, _round()) for _ in range(BATCH)]
    return (time.process_time() - begins) / BATCH * 1e6, asked


async def _resume(context: Context, store: ContinuationStore, asked: Sequence[Result]) -> float:
    """The same batch; microseconds for each."""
    handler = store.linear(_tool)
    begins = time.process_time()
    for each in asked:
        assert isinstance(each, types.InputRequiredResult)
        await handler(context, _round(each.request_state, _METRIC))
    return (time.process_time() - begins) / BATCH * 1e6


async def _evict(context: Context, calls: int) -> float:
    """Fill a store and give all its calls up; microseconds for each."""
    async with ContinuationStore(max_parked=calls) as store:
        handler = store.linear(_tool)
        for _ in range(calls):
            await handler(context, _round())
        gc.disable()
        try:
            begins = time.process_time()
            await store.aclose()
            return (time.process_time() - begins) / calls * 1e6
        finally:
            gc.enable()


_METRIC: types.InputResponses = {
    "units": types.ElicitResult(action="accept", content={"units": "metric"})
}


def _round(state: str | None = None, answers: types.InputResponses | None = None) -> Params:
    return types.CallToolRequestParams(
        name=TOOL, arguments={"location": "Tokyo"}, request_state=state, input_responses=answers
    )


# --- what it is compared with -------------------------------------------------------------------


async def _on_a_future() -> None:
    await asyncio.get_running_loop().create_future()


async def _on_two_streams() -> None:
    questions = anyio.create_memory_object_stream[object](1)
    answers = anyio.create_memory_object_stream[object](1)
    with questions[0], questions[1], answers[0], answers[1]:
        await answers[1].receive()


async def _bytes_of_tasks(calls: int, wait: Callable[[], Awaitable[None]]) -> float:
    tasks: list[asyncio.Future[None]] = []

    async def park() -> None:
        tasks.append(asyncio.ensure_future(wait()))

    taken = await _measured(calls, park)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return taken


async def _measured(calls: int, park: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(calls):
            await park()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()  # every one of them gets to where it waits
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / calls
