"""The client of a script: it takes one step after the other.

One player for every client: modern, legacy, and one that takes tasks (SEP-2663). Knows scenarios
and the sender of rounds; of options only that they serve the weather tool.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
import mcp_types as types

from mrtr_options.demo.call import User
from mrtr_options.review.bench.client.sender import (
    Question,
    Sender,
)
from mrtr_options.review.bench.deployments import Instances
from mrtr_options.review.bench.messages import Method, Request
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import (
    NOTHING,
    Create,
    ListTools,
    Look,
    Redeploy,
    Repeat,
    Restart,
    Send,
    Step,
    Stop,
    Together,
    Update,
    Wait,
    WholeCall,
    accept,
    agree,
    edit_key,
    edit_state,
)
from mrtr_options.tool.server import TOOL

LEAVES_SECONDS = 0.6
"""The time after which a client leaves a request at work, or its instance dies.

It is shorter than a slow effect takes.
"""


class Player(Sender):
    """The client of one run: it plays steps, and sends the requests of the usual client."""

    def __init__(self, scenario: Scenario, instances: Instances, user: User | None = None) -> None:
        super().__init__(scenario, instances, user)
        self._is_armed = False
        self._is_full = False

    async def take(self, step: Step) -> None:
        """Play one step."""
        match step:
            case Send():
                await self._send(step)
            case WholeCall():
                await self._call(step)
                self._clients[step.call].thinks.set()
                self._clients[step.call].over.set()
            case Repeat():
                await self._repeat(step)
            case Together():
                await self._take_together(step)
            case ListTools():
                era = self.scenario.setup.era
                listing = Request(method="tools/list", principal=step.principal, era=era)
                await self.play_round(listing, [self.next_instance()])
            case Restart():
                await self.restart(step.keys)
            case Redeploy():
                await self.redeploy(step.change, step.only)
            case Wait():
                await self.wait(step.seconds)
            case Create():
                await self._create(step)
            case Look():
                await self._look(step)
            case Update():
                await self._update(step)
            case Stop():
                await self.play_round(
                    self._of_task("tasks/cancel", step.principal), [self.next_instance()]
                )
            case _:
                await step.play(self)

    async def _take_together(self, together: Together) -> None:
        await self.instances.arm(next(filter(None, (step.fault for step in together.steps)), None))
        self._is_armed = True
        async with anyio.create_task_group() as group:
            for step in together.steps:
                group.start_soon(self._take_one_of, step, together)
        self._is_armed = False

    async def _take_one_of(self, step: Step, together: Together) -> None:
        """Take a step beside others.

        A call that another user waits for begins once that user is asked. A step beside a client
        that leaves begins while that client's request is at work, before the client leaves.
        """
        for other in together.steps:
            match step, other:
                case WholeCall(), WholeCall() if other.waits_for == step.call:
                    await self._clients[other.call].thinks.wait()
                case _:
                    pass
            is_leaving = isinstance(other, Send) and other.ends == "client"
            if is_leaving and other is not step:
                await anyio.sleep(LEAVES_SECONDS / 2)  # the other request is at work by then
        await self.take(step)

    # --- rounds driven by the schedule ----------------------------------------------------------

    async def _send(self, step: Send) -> None:
        """Send one round. Do nothing if its question was not asked."""
        if self._is_left_out(step):
            return
        request = self._request_of(step)
        await self._arm(step.fault)
        to = self._instances_for(step)
        gone = anyio.Event() if step.ends == "client" else None
        async with anyio.create_task_group() as group:
            if step.ends is not None:
                group.start_soon(self._end_at_work, gone, to[0])
            reply = await self.play_round(
                request,
                to,
                call=step.call,
                at_once=step.again == "at once",
                lost=step.lost,
                gone=gone,
            )
            # A busy machine makes one call fail; that is no refusal.
            refused = reply.is_refusal and reply.code != types.INTERNAL_ERROR
            if step.only_if == "room" and refused:
                self._is_full = True
            group.cancel_scope.cancel()

    def _question_of(self, step: Send) -> Question | None:
        """Return the question that a round answers: of its call, or of the call of its state."""
        return self._clients[step.state_of or step.call].open.get(step.name)

    def _is_left_out(self, step: Send) -> bool:
        client = self._clients[step.call]
        last = client.last
        if step.name != "first" and (
            self._question_of(step) is None or step.name not in client.open
        ):
            return True
        match step.only_if:
            case "failed":
                return last is not None and not (last.failed or last.is_error)
            case "asked":
                return last is None or step.name not in map(last.name_of, last.questions)
            case "room":
                return self._is_full
            case None:
                return False

    def _request_of(self, step: Send) -> Request:
        """Record the user's answers of a round, and return its request."""
        asked = self._question_of(step)
        caller = self.scenario.callers[step.call - 1]
        extra: types.InputResponses = {
            name: content if isinstance(content, types.ElicitResult) else accept(content)
            for name, content in step.extra.items()
        }
        said: types.InputResponses = {}
        if step.name != "first" and step.answer != NOTHING:
            said[step.name] = step.answer or agree(step.name)
            self.answer(step.call, step.name, said[step.name])
        # Servers must take both orders: unasked answers before the real one, and behind it.
        unasked_come_first = step.call % 2 == 1
        said = extra | said if unasked_come_first else said | extra
        open_now = self._clients[step.call].open
        keys = self._keys | {name: question.key for name, question in open_now.items()}
        if step.key_edit is not None and asked is not None:
            keys |= {step.name: edit_key(asked.key, step.key_edit)}
        state = step.state or edit_state(asked.state if asked else None, step.edit)
        return Request(
            step.location or caller.location,
            {keys.get(name, name): answer for name, answer in said.items()} or None,
            state,
            caller.principal if step.principal is None else step.principal,
            step.asks and caller.asks,
            caller.declares if step.asks else None,
            tool=step.tool or TOOL,
            arguments=step.arguments,
            forged=state and step.edit,
            takes_tasks=step.takes_tasks,
        )

    def _instances_for(self, step: Send) -> list[int]:
        """Return the instances that a round is delivered to."""
        count = self.instances.instances
        asked = self._question_of(step)
        if self.scenario.setup.fleet == "sticky" and asked is not None:
            instance = asked.instance
        else:
            to = step.to
            instance = self.next_instance() if to is None else to % count
        return [instance] if step.again is None else [instance, (instance + 1) % count]

    async def _end_at_work(self, gone: anyio.Event | None, instance: int) -> None:
        """End the client of a request that is at work, or its instance."""
        await anyio.sleep(LEAVES_SECONDS)
        if gone is not None:
            gone.set()
        else:
            with anyio.CancelScope(shield=True):
                await self.instances.crash(instance)

    async def _repeat(self, step: Repeat) -> None:
        """Deliver an earlier request again."""
        sent = [request for call, request in self._requests if call == step.call]
        if len(sent) < step.back:
            return
        where = [self.next_instance()]
        await self.play_round(sent[-step.back], where, call=step.call, unseen=True)

    # --- calls of an old client -----------------------------------------------------------------

    async def _call(self, step: WholeCall) -> None:
        """Make a call of an old client, which is one request."""
        await self._arm(step.fault)
        caller = self.scenario.callers[step.call - 1]
        request = Request(
            caller.location,
            principal=caller.principal,
            asks=step.asks and caller.asks,
            declares=caller.declares,
            era="legacy",
            version=caller.version,
            session=step.session,
        )
        gone = anyio.Event()
        user = self.pushed(step, request, gone)
        await self.play_round(request, [0], call=step.call, lost=step.lost, user=user, gone=gone)

    # --- tasks ----------------------------------------------------------------------------------

    async def _create(self, step: Create) -> None:
        client = self._clients[1]
        client.created_at = self.next_instance()
        await self._arm_task(step.fault)
        request = Request(self.scenario.location, asks=step.asks, takes_tasks=True)
        reply = await self.play_round(request, [client.created_at], lost=step.lost)
        if not step.lost:
            client.task = reply.task or ""

    async def _look(self, step: Look) -> None:
        request = self._of_task("tasks/get", step.principal)
        request = replace(request, takes_tasks=step.takes_tasks)
        if step.guessed:
            task = request.task
            request = replace(request, task=task[:-1] + ("A" if task[-1:] != "A" else "B"))
        await self.play_round(request, [self.next_instance()], until=step.until)

    async def _update(self, step: Update) -> None:
        request = self._update_request(step)
        await self._arm_task(step.fault)
        deliveries = 1 if step.again is None else 2
        to = [self.next_instance() for _ in range(deliveries)]
        await self.play_round(request, to, at_once=step.again == "at once", lost=step.lost)

    def _of_task(self, method: Method, principal: str) -> Request:
        task = self._clients[1].task
        return Request(principal=principal, method=method, task=task, takes_tasks=True)

    def _update_request(self, step: Update) -> Request:
        open_now = self._clients[1].open
        answers = step.answers
        if answers is None:
            answers = {name: agree(name) for name in open_now}
        for name, response in answers.items():
            self.answer(1, name, response)
        keys = {name: question.key for name, question in open_now.items()}
        extra = {key: accept(content) for key, content in step.extra.items()}
        sent = {keys.get(name, name): response for name, response in answers.items()} | extra
        return replace(self._of_task("tasks/update", step.principal), answers=sent)

    async def _arm(self, fault: str | None) -> None:
        if not self._is_armed:  # steps that begin together are armed together
            await self.instances.arm(fault)

    async def _arm_task(self, fault: str | None) -> None:
        # The work goes on where it began and ends at an unknown time, so faults stay armed.
        if fault is not None:
            await self.instances.arm(fault, self._clients[1].created_at)
