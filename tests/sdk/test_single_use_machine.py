"""The guard against a model: deliveries to two instances in any order, with handlers and time.

A handler that got answers goes on when the machine says how it ends. The clock stops between the
machine's steps, and is the store's clock, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from mcp import MCPError
from pydantic import BaseModel

from mrtr_options.sdk.call_key import CALL_KEY
from mrtr_options.sdk.protection import ANSWER_BY
from mrtr_options.sdk.questions import BadAnswer, NotBegun, ask, load_state
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.tool.server import Handler
from tests.sdk.fakes import (
    Context,
    Params,
    first_of,
    key_made,
    modern,
    named,
    params,
    result,
    who,
)
from tests.sdk.stopped_time import StoppedTime
from tests.sending import Response

WAIT = 10
ROUND = 60
KEEP = 1e6
INVALID = types.INVALID_PARAMS
SPENT = (INVALID, "answered_differently")
REUSED = (INVALID, "call_reused")
BAD = (INVALID, "invalid_answer")
AWAY = (INVALID, "unknown_continuation")
CLOSED = (-32050, "closed")
INDETERMINATE = (types.INTERNAL_ERROR, "indeterminate")
AT_WORK = (types.REQUEST_TIMEOUT, "still_at_work")
DIED = ("raises", "Died")

Outcome = tuple[object, str]
"""(code, reason) of an error, or (kind, JSON) of a response."""
RAISES: dict[str, Callable[[], BaseException]] = {
    "closed": lambda: MCPError(*CLOSED[:1], "Closed.", {"reason": "closed"}),
    "bad": lambda: BadAnswer("who", "it is unknown"),
    "away": lambda: NotBegun(INVALID, "Not here.", {"reason": "unknown_continuation"}),
    "fails": lambda: OSError("the printer is on fire"),
    "dies": lambda: Died(),
}


class Died(BaseException):
    """The death of a round's process, which no code in it can see or record."""


class Asked(BaseModel):
    times: int = 0


@dataclass(eq=False)
class Round:
    """The model of a round.

    Attributes:
        call: The rounds of its call, in order.
        states: The responses that carry it. A request without answers gets one more.
        taken: The answer of the delivery that took it.
        ends: The end of its lease.
        holder: The delivery that runs it, or ran it last.
        outcome: The recorded outcome.
        is_reopened: Whether its question was asked again, so that any answer takes it over.
    """

    call: list[Round]
    states: list[Response]
    taken: str | None = None
    ends: float = 0.0
    holder: Delivery | None = None
    outcome: Outcome | None = None
    is_reopened: bool = False


@dataclass(eq=False)
class Delivery:
    """A request: an answer to a round, or (`name` is empty) a first request under a known key."""

    of: Round
    name: str | None
    since: float
    ctx: Context
    reply: Future[Any] = field(default_factory=Future[Any])
    attempts: int = 0
    tries_again: bool = False
    gone: bool = False

    @property
    def is_first(self) -> bool:
        return self.name == ""


@dataclass(eq=False)
class Run:
    """A handler that got an answer, and waits until the machine says how it ends."""

    delivery: Delivery
    over: anyio.Event
    scope: anyio.CancelScope
    ends: float = 0.0
    ending: str = ""


def seen(response: Response) -> Outcome:
    """Return the kind and the JSON of a response; one that is handed out again equals the first."""
    kind = "asks" if isinstance(response, types.InputRequiredResult) else "result"
    said = first_of(response).model_dump(mode="json")
    state = json.loads(said.get("request_state") or "{}")
    said["request_state"] = {key: state[key] for key in state if key not in ("begins", "mark")}
    # A question that is asked again after its round was abandoned has a time of its own.
    meta: dict[str, Any] = said["meta"] or {}
    said["meta"] = {key: meta[key] for key in meta if key != ANSWER_BY}
    return kind, json.dumps(said)


class Guarded(RuleBasedStateMachine):
    """Two guarded instances of a tool."""

    def __init__(self, backend: str, attempts: int) -> None:
        super().__init__()
        self.time = StoppedTime(backend)
        self.attempts = attempts
        self.store = SqliteStore(":memory:", keep_seconds=KEEP, clock=lambda: self.time.now)
        guard = single_use(self.store, wait_seconds=WAIT, round_seconds=ROUND, attempts=attempts)
        self.instances: list[Handler] = [guard(self.tool), guard(self.tool)]
        self.rounds: list[Round] = []
        self.keys: list[tuple[str, Round]] = []
        self.runs: list[Run] = []
        self.entered: list[Run] = []
        self.begun: list[Run] = []
        self.waiting: list[Delivery] = []
        self.sent: dict[int, Delivery] = {}
        self.first_rounds = 0
        self.is_over = False

    def teardown(self) -> None:
        self.is_over = True
        for run in self.begun:
            run.ending = "dies"
            self.time.run(run.over.set)
        self.time.move(1000)
        self.time.close()
        self.store.close()

    async def tool(self, ctx: Context, given: Params) -> Response:
        asked = load_state(given, Asked).times
        if given.request_state is None:
            self.first_rounds += 1
        if not given.input_responses or self.is_over:
            return ask(who(), Asked(times=asked + 1))
        run = Run(self.sent[id(ctx.lifespan_context)], anyio.Event(), anyio.CancelScope())
        self.entered.append(run)
        self.begun.append(run)
        with run.scope:
            await run.over.wait()
        if run.ending in RAISES:
            raise RAISES[run.ending]()
        return ask(who(), Asked(times=asked + 1)) if run.ending == "asks" else result(run.ending)

    # --- the model ------------------------------------------------------------------------------

    def is_open(self, delivery: Delivery) -> bool:
        of = delivery.of
        may_take = of.is_reopened or of.taken == delivery.name
        over = self.attempts > 1 and of.ends <= self.time.now and may_take
        return of.outcome is None and (of.taken is None or over)

    def expected(self, delivery: Delivery) -> Outcome | None:
        """Return the outcome for a delivery that does not run its round; None while it waits."""
        of = delivery.of
        now = self.time.now
        if delivery.is_first:
            of = next(each for each in of.call if each.outcome is None or each.outcome[0] != "asks")
            if of.outcome is None and (of.taken is None or (self.attempts > 1 and of.ends <= now)):
                of.is_reopened = of.taken is not None
                of.holder = None if of.is_reopened else of.holder
                return seen(of.states[0])
        if of.outcome is not None:
            return of.outcome if delivery.name in ("", of.taken) else SPENT
        is_abandoned = of.taken is not None and of.ends <= now
        if is_abandoned and self.attempts == 1:
            return INDETERMINATE
        if is_abandoned and delivery.name != of.taken and not of.is_reopened:
            return SPENT
        return AT_WORK if delivery.since + WAIT <= now else None

    def taken(self, run: Run) -> None:
        """Check that a handler was rightly entered, and take the round."""
        delivery = run.delivery
        of = delivery.of
        if not delivery.tries_again:
            assert self.is_open(delivery), "a handler ran a round that is not open"
            of.taken = delivery.name
            of.is_reopened = False
            of.ends = self.time.now + ROUND
            of.holder = delivery
        run.ends = of.ends
        delivery.attempts += 1
        delivery.tries_again = False
        assert delivery.attempts <= self.attempts

    def settle(self) -> None:
        """Compare all entered handlers and all replies with the model."""
        opened = [each for each in self.waiting if not each.is_first and self.is_open(each)]
        before = {id(each): {self.expected(each)} for each in self.waiting if each.is_first}
        entered = self.entered
        self.entered = []
        self.runs += entered
        for run in entered:
            self.taken(run)
            self.waiting = [each for each in self.waiting if each is not run.delivery]
        for run in [each for each in self.runs if each.delivery.of.ends <= self.time.now]:
            if not run.scope.shield and run.delivery.of.holder is run.delivery:
                self.runs.remove(run)
                self.came(run.delivery, INDETERMINATE)
                run.delivery.of.outcome = INDETERMINATE if self.attempts == 1 else None
        for delivery in list(self.waiting):
            wanted = {self.expected(delivery)} | before.get(id(delivery), set())
            beside = [each for each in opened if each.of.call is delivery.of.call]
            if delivery in opened or any(each.name is None for each in beside):
                wanted |= {None, AT_WORK}  # another delivery has taken it and given it back
            if delivery in opened and delivery.of.taken is None:
                assert any(each.name is None for each in beside), "its handler does not run"
            if delivery.of.outcome == INDETERMINATE:
                wanted |= {SPENT, INDETERMINATE}
            if not delivery.reply.done():
                assert None in wanted
                continue
            self.waiting.remove(delivery)
            got = self.reply_to(delivery)
            if delivery in opened and delivery.name is None and got[0] == "asks":
                self.asked_again(delivery)
            else:
                assert got in wanted

    def came(self, delivery: Delivery, expected: Outcome | None) -> None:
        if not delivery.gone:
            assert delivery.reply.done() == (expected is not None)
            assert expected is None or self.reply_to(delivery) == expected

    def reply_to(self, delivery: Delivery) -> Outcome:
        reply: Any = delivery.reply.result(0)
        return seen(reply) if isinstance(reply, Response) else reply

    def asked_again(self, delivery: Delivery) -> None:
        delivery.of.states.append(delivery.reply.result(0))

    # --- the rules ------------------------------------------------------------------------------

    def send(self, of: Round | None, name: str | None, request: Params, instance: int) -> Delivery:
        ctx = replace(modern(), lifespan_context=object())

        async def deliver() -> Any:
            try:
                return await self.instances[instance](ctx, request)
            except MCPError as error:
                return error.code, error.data["reason"]
            except (OSError, Died) as error:
                return "raises", type(error).__name__

        delivery = Delivery(of or Round([], []), name, self.time.now, ctx)
        self.sent[id(ctx.lifespan_context)] = delivery
        delivery.reply = self.time.start(deliver)
        return delivery

    def keyed(self, key: str, x: int = 1) -> Params:
        return params().model_copy(update={"meta": {CALL_KEY: key}, "arguments": {"x": x}})

    def asks(self, call: list[Round], delivery: Delivery) -> Round:
        call.append(Round(call, [delivery.reply.result(0)]))
        self.rounds.append(call[-1])
        return call[-1]

    which = st.sampled_from([0, 0, 0, 1, 2])
    instance = st.integers(0, 1)
    names = st.sampled_from(["Ada", "Ada", "Ada", "Bob", None, "5"])

    @precondition(lambda self: len([each for each in self.rounds if each.taken is None]) < 2)
    @rule(instance=instance, keyed=st.booleans())
    def begin(self, instance: int, keyed: bool) -> None:
        key = key_made(self.time.now)
        before = self.first_rounds
        delivery = self.send(None, None, self.keyed(key) if keyed else params(), instance)
        assert self.first_rounds == before + 1
        of = self.asks([], delivery)
        self.keys += [(key, of)] if keyed else []

    @precondition(lambda self: self.keys)
    @rule(which=which, instance=instance, x=st.sampled_from([1, 1, 2]))
    def begin_again(self, which: int, instance: int, x: int) -> None:
        key, of = self.keys[-1 - which % len(self.keys)]
        before = self.first_rounds
        delivery = self.send(of, "", self.keyed(key, x), instance)
        assert self.first_rounds == before
        expected = REUSED if x == 2 else self.expected(delivery)
        self.came(delivery, expected)
        self.waiting += [] if expected else [delivery]

    @precondition(lambda self: self.rounds)
    @rule(which=which, state=which, instance=instance, name=names)
    def deliver(self, which: int, state: int, instance: int, name: str | None) -> None:
        of = self.rounds[-1 - which % len(self.rounds)]
        bad: types.InputResponses = {
            "who": types.ElicitResult(action="accept", content={"name": 5})
        }
        answers: types.InputResponses | None = None
        if name == "5":
            answers = bad
        elif name is not None:
            answers = named(name)
        delivery = self.send(of, name, params(answers, of.states[state % len(of.states)]), instance)
        if name == "5":
            self.came(delivery, BAD)
        elif self.is_open(delivery) and name is None:
            self.asked_again(delivery)
        elif self.is_open(delivery):
            assert [run.delivery for run in self.entered] == [delivery]
        else:
            expected = self.expected(delivery)
            self.came(delivery, expected)
            self.waiting += [] if expected else [delivery]
        self.settle()

    @precondition(lambda self: self.runs)
    @rule(which=which, ending=st.sampled_from(["Done.", "asks", *RAISES]))
    def end(self, which: int, ending: str) -> None:
        run = self.runs.pop(which % len(self.runs))
        delivery = run.delivery
        of = run.delivery.of
        run.ending = ending
        is_late = run.ends <= self.time.now
        is_fenced = of.holder is not delivery or of.outcome is not None
        self.time.run(run.over.set)
        if ending == "dies":
            self.came(delivery, DIED)
        elif ending == "fails" and self.attempts > 1 and (is_late or delivery.attempts == 1):
            self.came(delivery, INDETERMINATE if is_late else None)
            delivery.tries_again = not is_late
        elif ending in ("bad", "away") or (ending == "fails" and self.attempts > 1):
            self.came(delivery, {"bad": BAD, "away": AWAY}.get(ending, INDETERMINATE))
            of.taken = of.taken if is_fenced else None
        elif is_fenced:
            self.came(delivery, INDETERMINATE)
        else:
            self.recorded(delivery, ending)
        self.pass_time(0.25)

    def recorded(self, delivery: Delivery, ending: str) -> None:
        of = delivery.of
        if ending == "asks":
            if delivery.gone:
                name = delivery.name
                delivery = self.send(of, name, params(named(name or ""), of.states[0]), 0)
            of.outcome = self.reply_to(delivery)
            self.asks(of.call, delivery)
            return
        of.outcome = {"closed": CLOSED, "fails": INDETERMINATE}.get(ending, seen(result(ending)))
        self.came(delivery, of.outcome)

    @precondition(lambda self: self.runs)
    @rule(which=which)
    def pause(self, which: int) -> None:
        """Stop a process in the middle of a round, so that no deadline ends the handler."""
        self.time.run(setattr, self.runs[which % len(self.runs)].scope, "shield", True)

    @precondition(lambda self: self.runs or self.waiting)
    @rule(which=which)
    def leave(self, which: int) -> None:
        held = [run.delivery for run in self.runs if not run.delivery.gone]
        deliveries = held + self.waiting
        if deliveries:
            delivery = deliveries[which % len(deliveries)]
            self.time.cancel(delivery.reply)
            delivery.gone = True
            self.waiting = [each for each in self.waiting if each is not delivery]

    @rule(seconds=st.sampled_from([1, 12.5, 61]))
    def pass_time(self, seconds: float) -> None:
        self.time.move(seconds)
        self.settle()


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_guard_does_what_the_model_says(backend: str, attempts: int) -> None:
    machine: Any = lambda: Guarded(backend, attempts)  # noqa: E731
    examples = 40 if backend == "asyncio" else 20
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=60)
    )
