"""The sender of a run: it sends rounds to instances, follows them up, and records both ways.

What is counted, from the outside in: a *round* of a call (its question and the answer to it), a
client's *attempt* at the round, the *sending* of it (a number in the history), a *delivery* of the
sending to an instance, and an *exchange* with the instance, of which a delivery has several if its
response puts the result off.

It remembers only what a client has to remember to go on. Everything else is computed from the
history. The client of a script (`player`) and the usual client (`driver`) send with it. Knows
instances and what is sent; of a script only how the user of a whole call answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext, ElicitationFnT

from mrtr_options.review.bench.history import (
    Answered,
    Asked,
    Elapsed,
    Event,
    Received,
    Redeployed,
    Restarted,
    Sent,
)
from mrtr_options.review.bench.messages import HUNG, LOST, Form, Reply, Request
from mrtr_options.review.bench.steps import (
    Change,
    Keys,
    Status,
    WholeCall,
    agree,
)

if TYPE_CHECKING:
    from mrtr_options.demo.call import User
    from mrtr_options.review.bench.deployments import Instances
    from mrtr_options.review.bench.scenario import Scenario

RETRIES = 10
"""The most retries of a client after a state-only response, each time at once.

The SDK's client gives up after the same number of rounds; it waits between them.
"""

POLL_SECONDS = 0.01
"""The pause between two looks at a task."""

LossRule = bool | Callable[[Received], Awaitable[bool]]
"""The fate of responses: all are lost, none is, or a function decides it for each on its way."""

Pushed = Callable[[int], ElicitationFnT]
"""A function that answers the questions that a legacy server pushes, for each delivery."""


@dataclass
class Question:
    """A question that the client has seen: its key, its state, and the instance that asked it."""

    key: str
    state: str | None
    instance: int


@dataclass
class CallMemory:
    """A client's memory of one call.

    Attributes:
        open: The questions by name; of a task, its open questions.
        answers: The user's last answer to each question they saw, by name.
        seen: The questions that the user saw, by name.
        times: The number of times that the user was asked before, by name, if their answer depends
            on it.
        thinks: Set when the user is asked for the first time, or the call ended without that.
        over: Set when a whole call has ended.
        last: The last response.
        task: The task's id.
        created_at: The instance that created the task.
    """

    open: dict[str, Question] = field(default_factory=dict[str, Question])
    answers: dict[str, types.InputResponse] = field(default_factory=dict[str, types.InputResponse])
    seen: dict[str, Form] = field(default_factory=dict[str, Form])
    times: dict[str, int] = field(default_factory=dict[str, int])
    thinks: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)
    last: Reply | None = None
    task: str = ""
    created_at: int = 0


@dataclass
class _Sending:
    """A sending of a round: its number, and the arguments of `play_round`.

    Attributes:
        lost: Whether its latest response is lost.
    """

    number: int
    call: int
    request: Request
    loss: LossRule
    until: tuple[Status, ...]
    user: Pushed | None
    gone: anyio.Event | None

    def __post_init__(self) -> None:
        self.lost = self.loss is True


class Sender:
    """The sender of the rounds of one run.

    Args:
        scenario: The scenario that is sending.
        instances: The instances.
        user: Answers the questions of whole calls; None to answer as the scenario says.

    Attributes:
        sendings: The number of times that a round was sent.
        hung: The number of requests that hung.
        held: The states that were handed out, in order.
    """

    def __init__(self, scenario: Scenario, instances: Instances, user: User | None = None) -> None:
        self.scenario = scenario
        self.instances = instances
        self._user = user
        self._clients = {number + 1: CallMemory() for number in range(len(scenario.callers))}
        self._requests: list[tuple[int, Request]] = []
        self.held: list[str] = []
        self._keys: dict[str, str] = {}  # the last key of each question of any call, by name
        self._at_work: dict[str, str | None] = {}  # the owner of each task that is at work
        self.sendings = 0
        self.hung = 0
        self._turn = 0
        self._exchanges = 0

    def _record(self, event: Event) -> None:
        self.instances.recording.append(event)

    def next_instance(self) -> int:
        """Return the instance whose turn it is."""
        self._turn += 1
        return (self._turn - 1) % self.instances.instances

    async def restart(self, keys: Keys) -> None:
        """Replace every instance."""
        self._record(Restarted(keys))
        await self.instances.restart(keys)

    async def redeploy(self, change: Change | None, only: int | None = None) -> None:
        """Replace instances by ones with another version of the file."""
        self._record(Redeployed(change, only))
        await self.instances.redeploy(change, only)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._record(Elapsed(seconds))
        await self.instances.wait(seconds)

    async def play_round(
        self,
        request: Request,
        to: Sequence[int],
        *,
        call: int = 1,
        at_once: bool = False,
        lost: LossRule = False,
        until: tuple[Status, ...] = (),
        user: Pushed | None = None,
        gone: anyio.Event | None = None,
        unseen: bool = False,
    ) -> Reply:
        """Send one round: deliver its request, follow it up, and take the response.

        Args:
            request: The request.
            to: The instances it is delivered to, one delivery each.
            call: The number of the user's call.
            at_once: Whether several deliveries are made at the same time.
            lost: Whether the response is lost, or a function that decides it. The function is
                called for each delivery, and for each follow-up of a delivery.
            until: The task's statuses at which the client stops sending `tasks/get`.
            user: Answers what a legacy server pushes, by delivery.
            gone: When it is set the client leaves.
            unseen: Whether the client does not go on from the response.

        Returns:
            The first response, as it reaches the client.
        """
        self.sendings += 1
        self._requests.append((call, request))
        sending = _Sending(self.sendings, call, request, lost, until, user, gone)
        replies: list[Reply] = []

        async def deliver(delivery: int, instance: int) -> None:
            replies.append(await self._deliver(sending, delivery, instance))

        if at_once:
            async with anyio.create_task_group() as group:
                for delivery, instance in enumerate(to):
                    group.start_soon(deliver, delivery, instance)
        else:
            for delivery, instance in enumerate(to):
                await deliver(delivery, instance)
        reply = replies[0]
        if not unseen and (not sending.lost or reply.nothing == HUNG):
            self._clients[call].last = reply
            if request.method == "tools/call":
                self._show_questions(sending, reply, to[0])
        return Reply(nothing=LOST) if sending.lost else reply

    async def _deliver(self, sending: _Sending, delivery: int, instance: int) -> Reply:
        """Make one delivery of a sending and follow it up. Return the last response."""
        reply = await self._exchange(sending, delivery, instance, sending.request)
        reply = await self._retry(sending, delivery, instance, reply)
        return await self._poll(sending, delivery, instance, reply)

    async def _exchange(
        self, sending: _Sending, delivery: int, instance: int, request: Request
    ) -> Reply:
        """Send a request to an instance once, and record both ways."""
        self._exchanges += 1
        where = (self._exchanges, sending.number, delivery, sending.call, instance)
        self._record(Sent(*where, request))
        user = sending.user and sending.user(delivery)
        reply = await self.instances.send(instance, request, user, sending.gone)
        if not isinstance(sending.loss, bool):
            sending.lost = await sending.loss(Received(*where, reply))
        self._record(Received(*where, reply, lost=sending.lost and reply.nothing != HUNG))
        if reply.nothing == HUNG:
            self.hung += 1
        if reply.task is not None and reply.status == "working":
            self._at_work[reply.task] = request.principal
        elif reply.task is not None:
            self._at_work.pop(reply.task, None)
        if reply.state is not None and reply.state not in self.held:
            self.held.append(reply.state)
        if request.method == "tasks/get":  # each response lists the open questions
            self._show_questions(sending, reply, instance)
        return reply

    async def let_tasks_rest(self) -> None:
        """Wait until no task of this run is at work, so that its effects are not a later run's.

        These looks are the bench's own, so the history has none of them.
        """
        looks = int(self.instances.hang_seconds / POLL_SECONDS)
        for task, owner in self._at_work.items():
            look = Request(principal=owner, method="tasks/get", task=task, takes_tasks=True)
            for _ in range(looks):
                reply = await self.instances.send(self.next_instance(), look)
                if reply.status != "working":
                    break
                await anyio.sleep(POLL_SECONDS)

    async def _retry(self, sending: _Sending, delivery: int, instance: int, reply: Reply) -> Reply:
        """Go on from state-only responses."""
        request = sending.request
        for _ in range(RETRIES):
            if sending.lost or not reply.later:
                break
            request = replace(request, answers=None, state=reply.state)
            reply = await self._exchange(sending, delivery, instance, request)
        return reply

    async def _poll(self, sending: _Sending, delivery: int, instance: int, reply: Reply) -> Reply:
        """Look at a task, on each instance in turn, until it has a status of the sending's.

        The looks are counted, since each gives the server a turn, also on a busy machine.
        """
        left = self.instances.hang_seconds / POLL_SECONDS
        while sending.until and reply.code is None and reply.status not in sending.until:
            left -= 1
            if left < 0 or reply.nothing == HUNG:
                reply = Reply(nothing=HUNG)
                where = (self._exchanges, sending.number, delivery, sending.call, instance)
                self._record(Received(*where, reply))
                break
            await anyio.sleep(POLL_SECONDS)
            instance = self.next_instance()
            reply = await self._exchange(sending, delivery, instance, sending.request)
        return reply

    def _show_questions(self, sending: _Sending, reply: Reply, instance: int) -> None:
        """Show the user the questions of a response; an open one of a task only once."""
        client = self._clients[sending.call]
        request = sending.request
        found: dict[str, Question] = {}
        for key, message in reply.questions.items():
            name = reply.name_of(key)
            before = client.open.get(name)
            found[name] = Question(key, reply.state, instance)
            self._keys[name] = key
            form = (message, reply.schemas[key])
            has_answer = name in client.answers and client.seen.get(name) == form
            if request.key is not None and has_answer:
                continue  # the client knows that it is the same call, and does not ask again
            if request.method == "tasks/get" and before is not None and before.key == key:
                continue
            client.answers.pop(name, None)
            client.seen[name] = form
            self._record(Asked(sending.number, sending.call, name, *form, request.asks))
        if request.method == "tools/call":
            client.open |= found
        elif found:
            client.open = found

    def answer(
        self, call: int, name: str, response: types.InputResponse, delivery: int = 0
    ) -> None:
        """Record an answer of the user's, unless the client repeats an earlier one."""
        client = self._clients[call]
        if client.answers.get(name) == response:
            return
        client.answers[name] = response
        if isinstance(response, types.ElicitResult):
            self._record(Answered(call, name, response.action, response.content, delivery))
        else:
            self._record(Answered(call, name, "other", None, delivery))

    def open_question(self, call: int, name: str) -> Question | None:
        """Return a question of a call that is open; None if it was not asked."""
        return self._clients[call].open.get(name)

    # --- the answers to an old client -------------------------------------------------------------

    def pushed(self, step: WholeCall, request: Request, gone: anyio.Event | None = None) -> Pushed:
        """Return the function that answers pushed questions in the next sending.

        The step says what the user answers; `gone` is set when the client leaves.
        """
        number = self.sendings + 1

        async def answer(
            delivery: int, context: ClientRequestContext, params: types.ElicitRequestParams
        ) -> types.ElicitResult | types.ErrorData:
            assert isinstance(params, types.ElicitRequestFormParams)
            name = next(iter(params.requested_schema["properties"]))
            schema = params.requested_schema
            where = (number, step.call, name)
            self._record(Asked(*where, params.message, schema, request.asks, delivery))
            if not request.asks:
                return types.ErrorData(
                    code=types.INVALID_REQUEST, message="elicitation is not supported"
                )
            if step.leaves == name and gone is not None:
                gone.set()
                await anyio.sleep_forever()
            self._clients[step.call].thinks.set()
            if step.waits_for is not None:
                await self._clients[step.waits_for].over.wait()
            response = await self._ask_user(step, name, params)
            self._clients[step.call].answers.pop(
                name, None
            )  # another delivery may have had the same
            self.answer(step.call, name, response, delivery)
            # Recorded before the time passes: what the server does meanwhile comes after the answer
            # in each run, however fast it is.
            if step.thinks:
                await self.wait(step.thinks)
            return cast("types.ElicitResult", response)

        return lambda delivery: partial(answer, delivery)

    async def _ask_user(
        self, step: WholeCall, name: str, form: types.ElicitRequestFormParams
    ) -> types.InputResponse:
        if self._user is not None:
            return await self._user(form)
        said = step.answers.get(name) or agree(name)
        if isinstance(said, tuple):
            times = self._clients[step.call].times
            turn = times.get(name, -1) + 1
            times[name] = turn
            said = said[min(turn, len(said) - 1)]
        return said
