"""A tool of any shape, whoever calls it: the program, its bank, its client, and what must hold.

Everything runs on trio's clock, which jumps to the next moment at which something happens, and the
store's clock is the same one. Each statement of the store is a point at which time may pass, or
another request may go on.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar, cast

import anyio
import mcp_types as types
import trio
import trio.testing
from mcp import MCPError
from pydantic import BaseModel, Field
from sqlalchemy.util.concurrency import await_only, greenlet_spawn

from mrtr_options import sdk
from mrtr_options.sdk import current_request
from mrtr_options.sdk.call_key import REPEAT
from tests.sdk.drawn_bank import Bank, Died, Refused, is_death
from tests.sdk.drawn_requests import answer, call, data_of, made, make_question, reason_of, text_of
from tests.sdk.drawn_stories import SAME_WORDS, WORDS, Move, Step, Story
from tests.sdk.fakes import FakeSession, Params, capabilities, of_session, result

T = TypeVar("T")

BEFORE = "this call did something, or may have"
OPEN = "goes on learns what became of it"
SAYS_NOT_DONE = "nothing was done, says the author"
PATIENCE = 10.0
"""The seconds after which an author goes on without an effect, where that is shorter than slow."""

LAST_WORDS = ("it failed, says the author", "it is closed, says the author")
"""What an author tells as an ordinary end: it is recorded."""


class Wanted(BaseModel):
    """The arguments of the tool."""

    reference: Decimal
    amount: Decimal = Decimal(100)
    due: datetime = datetime(2026, 12, 1, 12, tzinfo=UTC)
    note: str = ""


# --- the world ----------------------------------------------------------------------------------


class GatedStore(sdk.SqliteStore):
    """A store in memory in which time may pass, and others may go on, before each statement."""

    gates: list[float]
    _is_in_block = False

    async def _use(self, use: Callable[[], T]) -> T:
        return await greenlet_spawn(use)

    def _execute(self, statement: str, values: Any) -> Any:
        if self.gates and not self._is_in_block:
            await_only(anyio.sleep(self.gates.pop(0)))
        return super()._execute(statement, values)

    def _transaction(self) -> Any:
        if self.gates:
            await_only(anyio.sleep(self.gates.pop(0)))
        return self._alone_in(super()._transaction())

    @contextmanager
    def _alone_in(self, block: Any) -> Generator[None]:
        with block:
            self._is_in_block = True
            try:
                yield
            finally:
                self._is_in_block = False


class Done(sdk.Markers):
    """F's state."""

    answered: list[str] = Field(default_factory=list[str])


@dataclass
class World:
    """The tool of a story, its bank and its client.

    Attributes:
        stopped: How often the program has stopped at a step, by reference and step.
        question: What the client was asked last.
        last: What it sent last.
        frames: Where H's process holds its calls.
        open: What ends with the story.
        store: The guard's.
        tools: The tool at two instances.
        patience: How many responses without a question a client that persists takes.
    """

    story: Story
    bank: Bank
    stopped: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])
    frames: Any = None
    open: AsyncExitStack = field(default_factory=AsyncExitStack)
    store: GatedStore = field(init=False)
    tools: list[Any] = field(default_factory=list[Any])
    patience: int = 1
    question: types.InputRequiredResult | None = None
    last: Params | None = None

    # --- the tool -------------------------------------------------------------------------------

    async def replayed(self, ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
        return await self.awaited(ctx.elicit, params, self.drawing(ctx.memo, ctx.once))

    def drawing(self, memo: Any, once: Any) -> Any:
        """Return how an author does an effect under a number that a memo draws."""

        async def drawn(key: str, effect: Any, settled: Any = None) -> None:
            number = await memo(key, self.bank.draw)
            look = None if settled is None else partial(settled, number)
            await once(key, partial(effect, number=number), settled=look)

        return drawn

    async def marked(self, ctx: sdk.Context, params: Params) -> sdk.Result:
        state = sdk.load_state(params, Done)

        async def ask(question: Any) -> bool:
            if question.key in state.answered:
                return True
            if sdk.answer_to(question, ctx, params) is None:
                return False
            state.answered.append(question.key)
            return True

        async def once(key: str, effect: Callable[[str], Awaitable[None]], **more: Any) -> None:
            await state.once(key, lambda: effect(""), **more)

        ended = await self.perform(params, ask, once)
        return ended if isinstance(ended, types.CallToolResult) else sdk.ask(ended, state)

    def built(self) -> Any:
        """Build G's tool: a step for each question, and all else at the end."""
        builder = sdk.ToolBuilder[Any]().step("start", lambda ctx, params, values: Done())
        for key, step in self.story.program:
            if step.does == "asks":
                question = make_question(step.how, key)
                builder.step(key, lambda ctx, params, values, question=question: question)

        async def ask(question: Any) -> bool:
            return True

        async def end(ctx: sdk.Context, params: Params, values: sdk.Values) -> Any:
            return await self.perform(params, ask, unrecorded)

        return builder.end(end).build()

    async def held(self, ctx: sdk.Context, params: Params) -> Any:
        """Hold H's tool in memory, which is lost when the process dies."""
        frames = self.frames

        async def linear(ctx: sdk.LinearContext[Any], call: sdk.CallParams) -> Any:
            async def once(key: str, effect: Callable[[str], Any], **more: Any) -> None:
                await ctx.once(key, lambda: effect(""), **more)

            return await self.awaited(ctx.elicit, call, once)

        try:
            return await frames.linear(linear)(ctx, params)
        finally:
            if self.frames is not frames:
                raise Died

    async def die(self) -> None:
        """End the process in which an effect is done, and with it the requests that it works at."""
        await self.begin_process()
        raise Died

    async def begin_process(self) -> None:
        """Begin a process that holds no tool yet."""
        self.frames = await self.open.enter_async_context(sdk.ContinuationStore())

    async def awaited(self, elicit: Any, params: Any, once: Any) -> types.CallToolResult:
        """Run the program of a tool that awaits its answers."""

        async def ask(question: Any) -> bool:
            await elicit(question)
            return True

        return await self.perform(params, ask, once)

    async def perform(self, params: Any, ask: Any, once: Any) -> Any:
        """Run the program; return its result, or the question that has to be asked."""
        reference = int(sdk.arguments_of(params, Wanted).reference)
        acted: list[str] = []
        for key, step in self.story.program:
            ended = await grouped(step, partial(self.take, step, key, reference, ask, once))
            if ended is not None:
                return result(said_done(acted)) if ended == "a result" else ended
            acted += [key] if step.does == "acts" and step.how != "goes on" else []
        return result(said_done(acted))

    async def take(self, step: Step, key: str, reference: int, ask: Any, once: Any) -> Any:
        """Take a step; return what ends the round, or None."""
        if step.does == "asks":
            question = make_question(step.how, key)
            return None if await ask(question) else question
        if step.does == "acts":
            return await self.act(step, reference, key, ask, once)
        if self.stopped[reference, key]:
            return None
        self.stopped[reference, key] += 1
        if self.story.is_silent:
            self.bank.doubt.add(reference)  # F does not tell of all its effects
        return step.how if step.how == "a result" else self.stop(step.how, reference)

    async def act(self, step: Step, reference: int, key: str, ask: Any, once: Any) -> Any:
        """Do an effect as its author does."""

        async def effect(once: str, number: int = 0) -> None:
            await self.bank.act(reference, key, once, number)
            if step.how == "asks" and self.story.stand_in in "HJ":
                self.bank.doubt.add(reference)  # J refuses to ask
                await ask(make_question("form", f"{key} asks"))

        look = partial(self.bank.look, reference, key) if step.can_look else None
        goes_on = step.how == "goes on"
        # On an engine, a handler that looks at its own clock goes another way when it begins again.
        gives_up = goes_on and self.story.stand_in not in "KL"
        try:
            with anyio.move_on_after(PATIENCE if gives_up else math.inf):
                await once(key, effect, settled=look)
        except Refused:
            if step.how not in ("NotDone", "an error", "goes on"):
                raise
            return None if goes_on else self.stop(step.how, reference)
        except TimeoutError:
            if step.how not in ("Unknown", "MCPError", "goes on"):
                raise
            return None if goes_on else self.stop(step.how, reference)

    def stop(self, how: str, reference: int) -> Any:
        """End the program as its author does, who knows of what no stand-in records."""
        is_done = bool(self.bank.has_done(reference))
        is_author_unsure = self.story.stand_in == "G" or self.story.goes_on
        match how:
            case "NotDone" if not (is_done and is_author_unsure):
                raise sdk.NotDone(SAYS_NOT_DONE)
            case "Unknown":
                raise sdk.Unknown("nobody knows, says the author")
            case "MCPError":
                raise MCPError(-32000, "it is closed, says the author")
            case "an error" | "NotDone":
                return sdk.text("it failed, says the author", is_error=True)
            case _:
                raise OSError("the price list is down")

    # --- the client -----------------------------------------------------------------------------

    def context(self) -> sdk.Context:
        able = capabilities(form=True, url=True)
        if self.story.samples:
            able = able.model_copy(update={"sampling": types.SamplingCapability()})
        return of_session(FakeSession(able), modern=True)

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await anyio.sleep(seconds)

    async def reply(self, tool: Any, request: Params) -> Any:
        """Return the response to a request."""
        return await tool(self.context(), request)

    async def send(self, tool: Any, request: Params) -> Any:
        """Send a request, and return what comes back: a response, an error or None."""
        reply: Any = None
        current_request.current_request.set(None)
        try:
            reply = await self.reply(tool, request)
        except Exception as error:
            reply = error
        except BaseException as error:
            if not is_death(error):
                raise
        self.check(request, reply)
        return reply

    def check(self, request: Params, reply: Any) -> None:
        """Check what has happened, and what is told of it."""
        reference = int(sdk.arguments_of(request, Wanted).reference)
        done = self.bank.has_done(reference)
        for effect in done:
            assert self.bank.times(reference, effect) == 1, "done twice"
        if reply is None or isinstance(reply, types.InputRequiredResult):
            return
        said = text_of(reply)
        if said.startswith("done:"):
            for effect in filter(None, said.removeprefix("done: ").split(", ")):
                assert effect in done, "told as done, and not done"
            return
        is_repeat = isinstance(reply, types.CallToolResult) and REPEAT in (reply.meta or {})
        if reason_of(reply) == "nothing_done":
            assert all(repr(each) in said for each in done), "told as not done, and it is done"
        if reason_of(reply) == "indeterminate" or BEFORE in said:
            assert done or reference in self.bank.doubt, "told as in doubt, and it is not"
            check_doubt(reply, done, is_repeat=is_repeat)
        elif is_repeat:
            return  # it was true then
        elif said in LAST_WORDS or "nobody knows" in said:
            return  # the author's own words
        elif reason_of(reply) is not None and data_of(reply).get("may_have_happened") is not False:
            assert reason_of(reply) != "call_reused", "one call is taken for another"
        else:
            assert not done, "told as not done, and it is done"

    async def move(self, move: Move, number: int) -> None:
        self.store.gates = [*move.gates]
        await self.pause(move.seconds)
        request = self.request(move)
        if request is None:
            return
        self.last = request
        one, other = self.tools[number % 2], self.tools[(number + 1) % 2]
        replies: list[Any] = []

        async def deliver(tool: Any, request: Params) -> None:
            replies.append(await self.send(tool, request))

        async with anyio.create_task_group() as group:
            group.start_soon(deliver, one, request)
            if move.way == "both":
                group.start_soon(deliver, other, request)
            if move.way == "beside a call":
                group.start_soon(deliver, other, call(1, WORDS[move.words % SAME_WORDS]))
            if move.way == "leaves":
                await anyio.sleep(0.0005)
                group.cancel_scope.cancel()
        if move.way == "twice":
            await self.send(other, request)
        if move.way != "lost" and replies and isinstance(replies[0], types.InputRequiredResult):
            self.question = replies[0]

    def request(self, move: Move) -> Params | None:
        """Return the request of a move; None if the client cannot make it now."""
        if move.does == "resends":
            return self.last
        if move.does == "calls":
            return call(1, WORDS[move.words if self.story.same else move.words % 6])
        if self.question is None:
            return None
        return answer(self.question, 1, move.does)

    async def persist(self, tool: Any, reference: int) -> str:
        """Have a call done by a user who wants it, on a network without faults; return its end."""
        self.bank.troubles.clear()
        self.bank.looks.clear()
        said = ""
        for _ in range(8):
            most = len(self.story.steps) + self.patience + 1
            reply = await made(partial(self.send, tool), reference, most)
            said = text_of(reply)
            is_over = isinstance(reply, types.CallToolResult) and said.startswith("done:")
            if is_over:
                return "done"
            if reason_of(reply) == "still_at_work":
                await self.pause(61)
            elif reason_of(reply) == "indeterminate" and "retry_after" not in data_of(reply):
                assert reference in self.bank.doubt, "ends in doubt, and nobody is"
                assert not self.story.can_settle, "stays in doubt, and could be settled"
                return "in doubt"
            elif BEFORE in said or said in LAST_WORDS or "cannot be asked" in said:
                return "author"
            elif reason_of(reply) == "unknown_continuation":
                return "lost"
        assert self.story.is_refused or self.story.is_given_up, f"a call does not end: {said}"
        return "in doubt"


def check_doubt(reply: Any, done: list[str], *, is_repeat: bool) -> None:
    """Check a reply that says that something may have happened."""
    said = text_of(reply)
    if BEFORE not in said:
        assert data_of(reply)["may_have_happened"] is True, "a doubt is not told to programs"
    elif OPEN in said:
        assert not is_repeat, "ends with what may still be settled"
    else:
        assert done or SAYS_NOT_DONE not in said, "the author's word is not taken"
        assert all(repr(each) in said for each in done), "an effect is not told of"


def said_done(acted: list[str]) -> str:
    return f"done: {', '.join(acted)}"


async def unrecorded(key: str, effect: Callable[[str], Awaitable[None]], **more: Any) -> None:
    """Do an effect of which no stand-in keeps a record."""
    await effect("")


async def grouped(step: Step, work: Callable[[], Awaitable[T]]) -> T:
    """Do it, in a task of a group if the step says so."""
    if not step.in_group:
        return await work()
    returned: list[T] = []

    async def run() -> None:
        returned.append(await work())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
    return returned[0]


@contextmanager
def silence() -> Generator[None]:
    """Log nothing of the troubles that are played."""
    logger = logging.getLogger("mrtr_options")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def play(story: Story) -> None:
    """Play a story, and check it.

    Raises:
        AssertionError: Something happened twice, was told wrongly, or does not end.
    """
    with silence():
        trio.run(_play, story, clock=trio.testing.MockClock(autojump_threshold=0))


def finding(story: Story) -> str | None:
    """Play a story, and return what does not hold; None if all does."""
    try:
        play(story)
    except Exception as error:
        one: BaseException = error
        while isinstance(one, BaseExceptionGroup):
            one = cast("BaseExceptionGroup[BaseException]", one).exceptions[0]
        return f"{type(one).__name__}: {one}".partition("\n")[0]
    return None


async def _play(story: Story) -> None:
    attempts = story.attempts if story.stand_in == "J" else 1
    world = World(story, Bank([*story.troubles], [*story.looks], honours_keys=attempts > 1))
    GatedStore.gates = []
    world.store = GatedStore(":memory:", clock=lambda: 2e9 + anyio.current_time())
    handlers: dict[str, Any] = {
        "F": world.marked, "G": world.built(), "H": world.held,
        "J": sdk.keyed_replay(world.replayed),
    }  # fmt: skip
    same = ("amount",) if story.same else None
    guard = sdk.single_use(
        world.store, call="reference", call_is_secret=True, attempts=attempts, same=same
    )
    tool = sdk.Tool("pay", "Pays.", Wanted, handlers[story.stand_in], [guard])
    world.tools = [tool.call, tool.call]
    world.open.callback(world.store.close)
    await play_through(world)


async def play_through(world: World) -> None:
    """Play the client's moves, and then the calls of a user who persists."""
    world.bank.die = world.die
    async with world.open:
        await world.begin_process()
        for number, move in enumerate(world.story.moves):
            await world.move(move, number)
        world.store.gates = []
        if not world.story.ends_name:
            check_end(world, await world.persist(world.tools[0], 1), 1)
        end = await world.persist(world.tools[1], 2)
        may_fail = end == "author" or world.story.is_silent or world.story.is_refused
        assert end == "done" or may_fail, "a second call that is wanted is not done"
        check_end(world, end, 2)


def check_end(world: World, end: str, reference: int) -> None:
    """Check that a call which nobody doubts is done, and each of its effects once."""
    effects = [key for key, step in world.story.program if step.does == "acts"]
    leaves_out = any(step.how in ("a result", "goes on") for step in world.story.steps)
    if end == "done" and not leaves_out:
        assert all(world.bank.times(reference, each) == 1 for each in effects), "left out"
