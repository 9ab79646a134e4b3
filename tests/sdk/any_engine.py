"""A tool of any shape on an engine, L's or K's: the world of `any_tool`, in real time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.from_thread import start_blocking_portal
from mcp import MCPError

from mrtr_options import sdk
from mrtr_options.sdk.durable.embedded import Process, process
from mrtr_options.sdk.tasks.wire import (
    IDENTIFIER,
    CreateTaskResult,
    TaskParams,
    UpdateTaskParams,
)
from tests.sdk.any_tool import Wanted, World, play_through, silence
from tests.sdk.drawn_bank import Bank, Died
from tests.sdk.drawn_stories import Story
from tests.sdk.fakes import Context, Params

WAIT_SECONDS = 0.2
POLL_SECONDS = 0.005


class KeptWorld(World):
    """The tool of a story on DBOS. A process that dies is a store that closes."""

    def __init__(self, story: Story, bank: Bank, url: str) -> None:
        super().__init__(story, bank, patience=1000)
        self.store = cast("Any", SimpleNamespace())  # the engine keeps the record
        self.url = url
        self.ended = anyio.Event()
        self.process = AsyncExitStack()
        self.methods: dict[str, Any] = {}
        self.recorded: set[tuple[int, str]] = set()

    async def stepped(self, ctx: sdk.TaskContext[Any], call: sdk.CallParams) -> Any:
        reference = int(sdk.arguments_of(call, Wanted).reference)

        async def step(key: str, effect: Callable[[str], Awaitable[None]], **more: Any) -> None:
            async def counted(once: str) -> None:
                # The bank takes two arrivals under one key for one, but not after the record.
                await effect(f"{once} again" if (reference, key) in self.recorded else once)

            await ctx.step(key, counted, **more)
            self.recorded.add((reference, key))

        return await self.awaited(ctx.elicit, call, self.drawing(ctx.memo, step))

    async def begin_process(self) -> None:
        self.open.push_async_exit(self.process)
        usual: dict[str, Any] = {"version": "1", "wait_seconds": WAIT_SECONDS, "rounds": 1000}
        store = sdk.TaskStore(while_working="state", **usual)
        serve: Any = store.task if self.story.stand_in == "K" else store.linear
        handler = serve(self.stepped, call="reference", call_is_secret=True)
        tool = sdk.Tool("pay", "Pays.", Wanted, handler).call
        await self.process.enter_async_context(store.serving(None, database=self.url))
        self.methods = {each.method: each.handler for each in store.methods()}
        self.tools = [tool, tool]

    async def die(self) -> None:
        self.ended.set()
        await anyio.sleep_forever()

    async def pause(self, seconds: float) -> None:
        await anyio.sleep(min(seconds, WAIT_SECONDS))

    def context(self) -> Context:
        ctx = super().context()
        if self.story.stand_in == "K":
            able: Any = ctx.session.client_capabilities
            able.extensions = {IDENTIFIER: {}}
        return ctx

    async def reply(self, tool: Any, request: Params) -> Any:
        """Return the response to a request, unless the process dies meanwhile."""
        ended, got = self.ended, list[Any]()

        async def ask() -> None:
            try:
                got.append(await self.answer_of(self.tools[0], request))
            except Exception as error:
                got.append(error)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await ended.wait()
            group.cancel_scope.cancel()
        if ended.is_set() and self.ended is ended:
            self.ended = anyio.Event()
            with anyio.CancelScope(shield=True):  # a client that leaves holds up no restart
                await self.process.aclose()
                self.process = AsyncExitStack()
                await self.begin_process()
        if not got:
            raise Died
        if isinstance(got[0], Exception):
            raise got[0]
        return got[0]

    async def answer_of(self, tool: Any, request: Params) -> Any:
        """Return what a client hears in the end, also of a task."""
        ctx, task = self.context(), request.request_state
        # A call's state has a dot, and a task's id has none. A slow server answers with a state
        # before there is a task.
        if task is None or "." in task:
            own = {"name": self.url}  # stories share an engine, and no names
            reply = await tool(ctx, request.model_copy(update=own))
            if not isinstance(reply, CreateTaskResult):
                return reply
            task = reply.task_id
        elif request.input_responses:
            said = request.model_dump(mode="json", by_alias=True, exclude_none=True)
            answers = UpdateTaskParams(task_id=task, input_responses=said["inputResponses"])
            await self.methods["tasks/update"](ctx, answers)

        look = partial(self.methods["tasks/get"], ctx, TaskParams(task_id=task))
        found = await look()
        while found.status == "working":
            await anyio.sleep(POLL_SECONDS)
            found = await look()
        match found.status:
            case "input_required":
                asked = found.input_requests
                return types.InputRequiredResult(input_requests=asked, request_state=task)
            case "completed":
                return types.CallToolResult.model_validate(found.result)
            case _:
                raise MCPError(found.error.code, found.error.message, found.error.data)


@contextmanager
def engine() -> Generator[Callable[[Story], None]]:
    """Run an engine; yield what plays a story on it."""
    with (
        silence(),
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(process(None)) as here,
    ):
        yield lambda story: portal.call(_play, here, story)


async def _play(here: Process, story: Story) -> None:
    # An engine repeats an effect whose process died before its record, under the same key.
    bank = Bank([*story.troubles], [*story.looks], True, 1.5 * WAIT_SECONDS)
    await play_through(KeptWorld(story, bank, here.apart()))
