"""Plays the steps of a client that takes tasks (SEP-2663), each at another instance where there are two.

Knows schedules, deployments and observations; of options only that they serve the weather tool.
"""

from __future__ import annotations

from dataclasses import replace

import anyio

from mrtr_options.bench.answers import on_the_wire
from mrtr_options.bench.deployments import HANG_SECONDS, Deployment, Method, Request
from mrtr_options.bench.observations import HUNG, Observation, Reply
from mrtr_options.bench.schedules import (
    AGREE,
    ENDED,
    Accept,
    AtOnce,
    Create,
    Fault,
    Look,
    Schedule,
    Stop,
    TaskStep,
    Update,
)

POLL_SECONDS = 0.01


class TaskPlayer:
    """What the client of one task remembers.

    Args:
        schedule: What is played.
        deployment: Where.
        seen: Is told of everything.
    """

    def __init__(self, schedule: Schedule, deployment: Deployment, seen: Observation) -> None:
        self._schedule = schedule
        self._deployment = deployment
        self._seen = seen
        self._task = ""
        self._created_at = 0
        self._asked: dict[str, str] = {}
        """The key of the question that was seen last, by the round that answers it."""
        self._over: Reply | None = None
        self._last: Reply | None = None
        self._turn = 0

    async def take(self, step: TaskStep) -> None:
        """Play one step."""
        match step:
            case Create():
                await self._create(step)
            case Look():
                await self._look(step)
            case Update():
                await self._update(step)
            case Stop():
                self._note(await self._send(self._request("tasks/cancel", step.principal)))
            case AtOnce():
                await self._at_once(step)

    def conclude(self) -> None:
        """Say how the task ended, as the client saw it."""
        seen, last = self._seen, self._last
        if self._over is not None and (last is None or last.code is None):
            last = self._over
        if last is None or last.nothing is not None:
            seen.outcome = "hung" if last is not None and last.nothing == HUNG else "lost"
        elif last.code is not None:
            seen.outcome, seen.code, seen.message = "refused", last.code, last.message
        elif last.status == "cancelled":
            seen.outcome = "cancelled"
        elif last.is_result:
            seen.text = last.text
            seen.outcome = "tool_error" if last.is_error else "completed"

    # --- requests -------------------------------------------------------------------------------

    async def _create(self, step: Create) -> None:
        self._created_at = self._turn % self._deployment.instances
        await self._arm(step.fault)
        request = Request(self._schedule.location, asks=step.asks, takes_tasks=True)
        reply = await self._send(request)
        if not step.lost:
            self._task = reply.task or ""
            self._note(reply)

    async def _look(self, step: Look) -> None:
        request = self._request("tasks/get", step.principal, takes_tasks=step.takes_tasks)
        if step.guessed:
            request = replace(request, task=_guessed(self._task))
        reply = Reply(nothing=HUNG)
        with anyio.move_on_after(HANG_SECONDS):
            reply = await self._send(request)
            while step.until and reply.code is None and reply.status not in step.until:
                await anyio.sleep(POLL_SECONDS)
                reply = await self._send(request)
        self._note(reply)

    async def _update(self, step: Update) -> None:
        request = self._answering(step)
        await self._arm(step.fault)
        if step.again == "at once":
            replies = await self._both(request, request)
        else:
            replies = [await self._send(request) for _ in range(1 if step.again is None else 2)]
        self._seen.agreed &= all(reply.same_as(replies[0]) for reply in replies)
        if not step.lost:
            self._note(replies[0])

    async def _at_once(self, step: AtOnce) -> None:
        stop = self._request("tasks/cancel", step.stop.principal)
        for reply in await self._both(self._answering(step.update), stop):
            self._note(reply)

    def _request(self, method: Method, principal: str, *, takes_tasks: bool = True) -> Request:
        return Request(principal=principal, method=method, task=self._task, takes_tasks=takes_tasks)

    def _answering(self, step: Update) -> Request:
        said = step.answers
        if said is None:
            said = {name: Accept({name: AGREE[name]}) for name in self._asked}
        answers = {self._asked.get(name, name): on_the_wire(answer) for name, answer in said.items()}
        extra = {key: on_the_wire(Accept(content)) for key, content in step.extra.items()}
        return replace(self._request("tasks/update", step.principal), answers={**answers, **extra})

    async def _both(self, one: Request, other: Request) -> list[Reply]:
        replies: dict[int, Reply] = {}

        async def send(number: int, request: Request) -> None:
            replies[number] = await self._send(request)

        async with anyio.create_task_group() as group:
            group.start_soon(send, 0, one)
            group.start_soon(send, 1, other)
        return [replies[0], replies[1]]

    async def _send(self, request: Request) -> Reply:
        instance = self._turn % self._deployment.instances
        self._turn += 1
        self._seen.rounds += 1
        reply = await self._deployment.send(instance, request)
        if request.method == "tasks/get":  # a task that is over when it is created has no result yet
            self._follow(reply)
        return reply

    async def _arm(self, fault: Fault | None) -> None:
        # The work goes on where it was begun, and at a time of its own: nothing is disarmed either.
        if fault is not None:
            await self._deployment.arm(fault, self._created_at)

    # --- replies --------------------------------------------------------------------------------

    def _follow(self, reply: Reply) -> None:
        """Take note of how the task stands."""
        if reply.status is None:
            return
        for key, message in reply.questions.items():
            if key not in self._asked.values():
                self._seen.questions.append(message)
        self._asked = {reply.round_of(key): key for key in reply.questions} or self._asked
        if self._over is not None:
            self._seen.agreed &= reply.same_as(self._over)
        elif reply.status in ENDED:
            self._over = reply

    def _note(self, reply: Reply) -> None:
        """Take note of what the client goes on from."""
        self._last = reply
        self._seen.replies.append(reply)
        if reply.code is not None:
            self._seen.refusals.append(reply)


def _guessed(task: str) -> str:
    return task[:-1] + ("A" if task[-1:] != "A" else "B")
