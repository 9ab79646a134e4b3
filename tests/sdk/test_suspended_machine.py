"""The store of frames against a model: calls begin, are answered, sent again, left and ended.

A handler asks `one`, then `two` and `three` together, and then may wait until the machine lets it
go on. The clock stops between the machine's steps; every bound of the store lies between two of
them.
"""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test
from mcp import MCPError

from mrtr_options.sdk.questions import Declined
from mrtr_options.sdk.suspended import CallParams, ContinuationStore, LinearContext
from tests.sdk.fakes import Params, called_by, modern, named, result, who
from tests.sdk.stopped_time import StoppedTime
from tests.sending import text_of

IDLE = 125
KEEP = 75
BOUNDS: dict[str, Any] = {"max_parked": 4, "max_parked_per_caller": 2, "max_finished": 2}
AWAY = (types.INVALID_PARAMS, "unknown_continuation")
BAD = (types.INVALID_PARAMS, "invalid_answer")
OTHER = (types.INVALID_PARAMS, "answered_differently")
FULL = (types.INTERNAL_ERROR, "too_many_continuations")
NO = (0, "declined")

Outcome = tuple[object, ...]
Asked = tuple[tuple[str, ...], str]


@dataclass(eq=False)
class Parked:
    """The model of a call.

    Attributes:
        asked: Its questions in order: the keys, and the state that came with them.
        told: The answers that it took, by the number of the questions.
        log: The steps of its code.
        gate: An event for which its code waits in the end.
        ended: Its result, while the store keeps it.
        waiting: The deliveries that wait for it.
    """

    caller: str | None
    gate: anyio.Event | None
    expires: float = 0.0
    is_live: bool = True
    asked: list[Asked] = field(default_factory=list[Asked])
    told: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
    log: list[str] = field(default_factory=list[str])
    ended: Outcome | None = None
    waiting: list[Future[Any]] = field(default_factory=list[Future[Any]])


class Suspended(stateful.RuleBasedStateMachine):
    """The calls of one store, and of the stores before it."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.time = StoppedTime(backend)
        self.calls: list[Parked] = []
        self.finished: list[Parked] = []
        self.done: list[list[str]] = []
        self.caller: str | None = None
        self.callers = called_by(lambda: self.caller)
        self.callers.start()
        self.open_store()

    def open_store(self) -> None:
        self.store = ContinuationStore(idle_seconds=IDLE, keep_seconds=KEEP, **BOUNDS)
        self.time.run(self.store.__aenter__)
        self.handle = self.store.linear(self.tool)

    def teardown(self) -> None:
        self.time.run(self.store.aclose)
        self.time.close()
        self.callers.stop()

    async def tool(self, ctx: LinearContext[Any], call: CallParams) -> types.CallToolResult:
        number: int = (call.arguments or {})["number"]
        done = self.done[number]
        gate = self.calls[number].gate
        done.append("above")
        try:
            one = await ctx.elicit(who("one"))
            done.append("between")
            two, three = await ctx.elicit_all(who("two"), who("three"))
            done.append("below")
            if gate is not None:
                await gate.wait()
        finally:
            done.append("finally")
        return result(f"{one.name} {two.name} {three.name}")

    async def deliver(self, number: int, state: str | None, answers: dict[str, str]) -> Outcome:
        given: types.InputResponses = {}
        for key, name in answers.items():
            given |= named(name, key)
            if name in ("no", "5"):
                content: Any = {"name": 5}
                action = "decline" if name == "no" else "accept"
                given[key] = types.ElicitResult(action=action, content=content)
        request = Params(
            name="tool",
            arguments={"number": number},
            input_responses=given or None,
            request_state=state,
        )
        try:
            response = await self.handle(modern(), request)
        except MCPError as error:
            return error.code, error.data["reason"]
        except Declined:
            return NO
        if isinstance(response, types.CallToolResult):
            return "result", text_of(response)
        return "asks", tuple(response.input_requests or {}), response.request_state

    @property
    def live(self) -> list[Parked]:
        return [call for call in self.calls if call.is_live]

    def touch(self, call: Parked) -> None:
        call.expires = self.time.now + IDLE if call.is_live else call.expires

    def asks(self, call: Parked, got: Outcome | None, keys: tuple[str, ...]) -> None:
        assert got is not None
        assert got[:2] == ("asks", keys)
        call.asked.append((keys, str(got[2])))

    def end(self, call: Parked, outcome: Outcome | None) -> None:
        """End a call: its outcome is kept for a while, or (None) it is given up."""
        call.is_live = False
        call.ended = outcome
        call.log.append("finally")
        if outcome is not None:
            call.expires = self.time.now + KEEP
            self.finished.append(call)
            if len(self.finished) > BOUNDS["max_finished"]:
                self.finished.pop(0).ended = None

    def expected(self, call: Parked, asked: int, answers: dict[str, str]) -> Outcome | None:
        """Return the immediate outcome of a round; None if its answers are taken, or it waits."""
        if not call.is_live and call.ended is None:
            return AWAY
        keys, state = call.asked[asked]
        said = {key: answers[key] for key in keys if key in answers}
        if asked not in call.told:
            if not said:
                self.touch(call)
                return "asks", keys, state
            refused = [name for name in said.values() if name in ("no", "5")]
            return BAD if refused[:1] == ["5"] else None
        if any(call.told[asked].get(key, name) != name for key, name in said.items()):
            return OTHER
        self.touch(call)
        if asked + 1 < len(call.asked):
            return "asks", *call.asked[asked + 1]
        return call.ended

    def told(self, call: Parked, asked: int, answers: dict[str, str], got: Outcome | None) -> None:
        """Take the answers and check how the handler went on; `got` is None if it waits."""
        keys, _ = call.asked[asked]
        said = {key: answers[key] for key in keys if key in answers}
        call.told[asked] = said
        self.touch(call)
        left = tuple(key for key in keys if key not in said)
        if "no" in said.values():
            self.end(call, NO)
            assert got == NO
        elif left:
            self.asks(call, got, left)
        elif keys == ("one",):
            call.log.append("between")
            self.asks(call, got, ("two", "three"))
        else:
            call.log.append("below")
            if call.gate is None:
                self.returns(call)
            assert got == call.ended

    def returns(self, call: Parked) -> None:
        names = {key: name for said in call.told.values() for key, name in said.items()}
        self.end(call, ("result", f"{names['one']} {names['two']} {names['three']}"))

    which = st.sampled_from([0, 0, 0, 1, 2, 3])
    said = st.sampled_from(["Ann", "Ann", "Ann", "Ann", "Bob", "no", "5"])
    of = st.sampled_from(["all", "all", "first", "last", "none"])

    @rule(caller=st.sampled_from(["ada", None]), waits=st.booleans())
    def begin(self, caller: str | None, waits: bool) -> None:
        self.caller = caller
        mine = [call for call in self.live if call.caller == caller]
        is_full = len(self.live) >= BOUNDS["max_parked"]
        if caller is not None and len(mine) >= BOUNDS["max_parked_per_caller"]:
            is_full = True
        call = Parked(caller, anyio.Event() if waits else None, log=["above"])
        self.calls.append(call)
        self.done.append([])
        got = self.time.start(self.deliver, len(self.calls) - 1, None, {}).result(0)
        if is_full:
            assert got == FULL
            self.calls.pop()
            assert self.done.pop() == []
        else:
            self.asks(call, got, ("one",))
            self.touch(call)

    def answers(self, call: Parked, asked: int, said: str, of: str) -> dict[str, str]:
        keys, _ = call.asked[asked]
        some = {"all": keys, "first": keys[:1], "last": keys[-1:], "none": ()}[of]
        return {**dict.fromkeys(some, said), "another": "Eve"}

    @precondition(lambda self: self.calls)
    @rule(which=which, back=which, said=said, of=of)
    def resume(self, which: int, back: int, said: str, of: str) -> None:
        call, asked, state = self.chosen(which, back)
        answers = self.answers(call, asked, said, of)
        expected = self.expected(call, asked, answers)
        is_new = expected is None and asked not in call.told
        reply = self.time.start(self.deliver, 0, state, answers)
        got = reply.result(0) if reply.done() else None
        if is_new:
            self.told(call, asked, answers, got)
        else:
            assert got == expected
        call.waiting += [reply] if got is None else []

    @precondition(lambda self: self.calls)
    @rule(which=which)
    def answer(self, which: int) -> None:
        self.resume(which, 0, "Ann", "all")

    def chosen(self, which: int, back: int) -> tuple[Parked, int, str]:
        call = self.calls[-1 - which % len(self.calls)]
        asked = len(call.asked) - 1 - back % len(call.asked)
        return call, asked, call.asked[asked][1]

    @precondition(lambda self: self.calls)
    @rule(which=which, names=st.sampled_from([["Ann", "Ann", "Ann"], ["Ann", "Bob"]]))
    def resume_at_once(self, which: int, names: list[str]) -> None:
        call, asked, state = self.chosen(which, 0)
        if (
            asked in call.told
            or not call.is_live
            or (call.gate and call.asked[asked][0] != ("one",))
        ):
            return
        replies: list[tuple[str, Outcome]] = []

        async def deliver(name: str) -> None:
            replies.append(
                (name, await self.deliver(0, state, self.answers(call, asked, name, "all")))
            )

        async def at_once() -> None:
            async with anyio.create_task_group() as group:
                for name in names:
                    group.start_soon(deliver, name)

        self.time.run(at_once)
        taken, got = next((name, got) for name, got in replies if got != OTHER)
        self.told(call, asked, self.answers(call, asked, taken, "all"), got)
        assert all(other == (got if name == taken else OTHER) for name, other in replies)

    @precondition(lambda self: any(call.waiting for call in self.calls))
    @rule(which=which)
    def leave(self, which: int) -> None:
        """Disconnect the client of a waiting request; its call goes on."""
        waited_for = [call for call in self.calls if call.waiting]
        call = waited_for[which % len(waited_for)]
        self.time.cancel(call.waiting.pop())
        self.touch(call)

    @precondition(lambda self: any(call.log[-1] == "below" for call in self.calls))
    @rule(which=which)
    def go_on(self, which: int) -> None:
        """Let a handler go on that waits at its gate."""
        held = [call for call in self.calls if call.log[-1] == "below"]
        call = held[which % len(held)]
        assert call.gate is not None
        self.time.run(call.gate.set)
        self.returns(call)
        self.replied(call, call.ended)

    def replied(self, call: Parked, expected: Outcome | None) -> None:
        assert [reply.result(0) for reply in call.waiting] == [expected] * len(call.waiting)
        call.waiting.clear()

    @rule(seconds=st.sampled_from([50, 50, 100, 150]))
    def pass_time(self, seconds: int) -> None:
        self.time.move(seconds)
        for call in self.live:
            if call.expires <= self.time.now:
                if call.waiting:
                    self.touch(call)
                else:
                    self.end(call, None)
        while self.finished and self.finished[0].expires <= self.time.now:
            self.finished.pop(0).ended = None

    @rule()
    def restart(self) -> None:
        self.time.run(self.store.aclose)
        for call in self.live:
            self.end(call, None)
            self.replied(call, AWAY)
        for call in self.finished:
            call.ended = None
        self.finished.clear()
        self.the_code_has_done_what_it_should()
        self.open_store()

    @invariant()
    def the_code_has_done_what_it_should(self) -> None:
        assert self.done == [call.log for call in self.calls]
        assert len(self.store) == len(self.live)
        kept = self.store._finished  # pyright: ignore[reportPrivateUsage]
        assert len(kept) == len(self.finished)


@pytest.mark.parametrize(("backend", "examples"), [("asyncio", 50), ("trio", 20)])
def test_the_store_of_frames_does_what_the_model_says(backend: str, examples: int) -> None:
    machine: Any = lambda: Suspended(backend)  # noqa: E731
    drawn = settings(max_examples=examples, stateful_step_count=40)
    run_state_machine_as_test(machine, settings=drawn)
