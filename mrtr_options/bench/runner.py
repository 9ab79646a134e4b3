"""Plays a schedule on a deployment and says what was seen.

Knows schedules, deployments and observations; of options only that they serve the weather tool.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext

from mrtr_options.bench import redeploys
from mrtr_options.bench.answers import on_the_wire
from mrtr_options.bench.deployments import Deployment, Request
from mrtr_options.bench.observations import HUNG, Fate, Observation, Reply
from mrtr_options.bench.schedules import (
    AGREE,
    Accept,
    Call,
    Change,
    Nothing,
    Redeploy,
    Restart,
    Schedule,
    Send,
    StateEdit,
    Step,
    UserAnswer,
    Wait,
)
from mrtr_options.bench.subjects import Column
from mrtr_options.bench.tasks import TaskPlayer
from mrtr_options.tool.protection import MAX_TOKEN_BYTES, read_without_key

Era = Literal["modern", "legacy"]

COMES_AGAIN, PAUSE_SECONDS = 10, 0.05
"""How often a client that is told to come again does, and after how long: the SDK's gives up after as
many rounds, and waits as long at first."""


@dataclass
class _Asked:
    """A question the client has seen: its key, the state that came with it, the instance it came from,
    what the user reads, and how often it was asked."""

    key: str
    state: str | None
    instance: int
    form: redeploys.Form
    times: int


@dataclass
class _Client:
    """What a modern client remembers of one call."""

    # By the name of the round that answers it; a key is the server's business.
    asked: dict[str, _Asked] = field(default_factory=dict[str, _Asked])
    answered: dict[str, redeploys.Form] = field(default_factory=dict[str, redeploys.Form])
    place: UserAnswer | None = None
    finished_on: Change | None = None
    result: Reply | None = None
    last: Reply | None = None


async def play(
    schedule: Schedule,
    era: Era,
    deployment: Deployment,
    column: Column,
    *,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Observation:
    """Run one schedule.

    Args:
        schedule: What happens. Its script for the era must not be empty.
        era: The client's.
        deployment: Running, and not used before.
        column: What is deployed; only named in the observation.
        on_step: Told of each step before it is taken.
    """
    seen = Observation(
        column.option.letter, column.wrappers, era, deployment.name, schedule.slug, schedule.calls
    )
    player = _Player(schedule, deployment, seen)
    tasks = TaskPlayer(schedule, deployment, seen)
    for step in schedule.script if era == "modern" else schedule.legacy:
        on_step(step)
        match step:
            case Send():
                await player.send(step)
            case Call():
                await player.call(step)
            case Restart():
                await deployment.restart(step.keys)
            case Redeploy():
                await player.redeploy(step)
            case Wait():
                deployment.wait(step.seconds)
            case _:
                await tasks.take(step)
    if schedule.takes_tasks:
        tasks.conclude()
    else:
        player.conclude()
    counts = await deployment.effects()
    seen.effects = {"audit": counts["audit"], "bill": counts["bill"]}
    seen.entries = deployment.entries
    return seen


class _Player:
    def __init__(self, schedule: Schedule, deployment: Deployment, seen: Observation) -> None:
        self._schedule = schedule
        self._deployment = deployment
        self._seen = seen
        self._clients = {number: _Client() for number in range(1, schedule.calls + 1)}
        self._versions: list[Change | None] = [None] * deployment.instances
        self._turn = 0

    async def redeploy(self, step: Redeploy) -> None:
        """Deploy another version, and remember where."""
        await self._deployment.redeploy(step.change, step.only)
        for place in range(len(self._versions)) if step.only is None else (step.only,):
            self._versions[place] = step.change

    # --- modern ---------------------------------------------------------------------------------

    async def send(self, step: Send) -> None:
        """Send one round, unless its question was never asked."""
        client = self._clients[step.call]
        asked = self._clients[step.state_of or step.call].asked.get(step.round)
        if step.round != "first" and (asked is None or step.round not in client.asked):
            return
        if step.retry and client.last is not None and not client.last.failed:
            return
        last = client.last
        if step.if_asked and (last is None or step.round not in map(last.round_of, last.questions)):
            return
        if asked is not None and not isinstance(step.answer, Nothing):
            client.answered[step.round] = asked.form
            if step.round == "place":
                client.place = step.answer or Accept({"place": AGREE["place"]})
        instance = self._instance(step, asked)
        request = Request(
            step.location or self._schedule.location,
            _answers(step, client),
            _edited(asked.state if asked else None, step.edit),
            step.principal,
            step.asks,
        )
        await self._deployment.arm(step.fault)
        replies = await self._deliver(step, instance, request)
        self._seen.rounds += len(replies)
        self._seen.agreed &= all(reply.same_as(replies[0]) for reply in replies)
        self._note_states(replies)
        reply = replies[0]
        if not step.lost or reply.nothing == HUNG:
            self._receive(client, reply, instance, asks=step.asks)

    def _instance(self, step: Send, asked: _Asked | None) -> int:
        count = self._deployment.instances
        if self._schedule.sticky and asked is not None:
            return asked.instance
        if step.to is not None:
            return step.to % count
        self._turn += 1
        return (self._turn - 1) % count

    async def _deliver(self, step: Send, instance: int, request: Request) -> list[Reply]:
        other = (instance + 1) % self._deployment.instances
        send = self._deployment.send if step.lost else self._send
        if step.again == "at once":
            replies: list[Reply] = []

            async def add(reply: Awaitable[Reply]) -> None:
                replies.append(await reply)

            async with anyio.create_task_group() as group:
                for target in (instance, other):
                    group.start_soon(add, send(target, request))
            return replies
        first = await send(instance, request)
        if step.again == "later":
            return [first, await send(other, request)]
        return [first]

    async def _send(self, instance: int, request: Request) -> Reply:
        """Send a request, and come again where the server says so."""
        reply = await self._deployment.send(instance, request)
        for _ in range(COMES_AGAIN):
            if not reply.later:
                break
            await anyio.sleep(PAUSE_SECONDS)
            again = replace(request, answers=None, state=reply.state)
            self._seen.rounds += 1
            reply = await self._deployment.send(instance, again)
        return reply

    def _receive(self, client: _Client, reply: Reply, instance: int, *, asks: bool) -> None:
        client.last = reply
        self._seen.replies.append(reply)
        if reply.is_result and client.result is None:
            client.result = reply
            client.finished_on = self._versions[instance]
        if reply.code is not None:
            self._seen.refusals.append(reply)
        for key, message in reply.questions.items():
            name = reply.round_of(key)
            times = client.asked[name].times + 1 if name in client.asked else 1
            form = (message, reply.forms[key])
            client.asked[name] = _Asked(key, reply.state, instance, form, times)
            self._seen.questions.append(message)
            self._seen.unasked |= not asks

    def _note_states(self, replies: list[Reply]) -> None:
        for reply in replies:
            if reply.state is not None:
                self._seen.state_bytes.append(len(reply.state))
                self._seen.readable = read_without_key(reply.state) is not None

    # --- legacy ---------------------------------------------------------------------------------

    async def call(self, step: Call) -> None:
        """Make a whole call as a legacy client."""
        gone = anyio.Event()

        async def user(
            context: ClientRequestContext, params: types.ElicitRequestParams
        ) -> types.ElicitResult | types.ErrorData:
            assert isinstance(params, types.ElicitRequestFormParams)
            self._seen.questions.append(params.message)
            if step.leaves:
                gone.set()
                await anyio.sleep_forever()
            name = next(iter(params.requested_schema["properties"]))
            answer = step.answers.get(name) or Accept({name: AGREE[name]})
            return cast("types.ElicitResult", on_the_wire(answer))

        await self._deployment.arm(step.fault)
        reply = await self._deployment.call_legacy(
            self._schedule.location, user if step.asks else None, gone
        )
        self._seen.rounds += 1
        if not step.lost and (reply.nothing is None or reply.nothing == HUNG):
            self._receive(self._clients[1], reply, 0, asks=step.asks)

    # --- the end --------------------------------------------------------------------------------

    def conclude(self) -> None:
        """Say how the calls ended: as the worst of them did."""
        self._conclude()
        if self._schedule.changes:
            self._seen.fate = self._fate(self._clients[1])

    def _fate(self, client: _Client) -> Fate:
        seen = self._seen
        if seen.outcome in ("lost", "hung"):
            return "lost"
        if seen.outcome != "completed":
            return "refused"
        place = (seen.text or "").partition(":")[0]
        due = redeploys.questions(client.finished_on, self._schedule.location, place)
        if any(client.answered.get(key) != form for key, form in due.items()):
            return "stale"
        if "place" in due and client.place != Accept({"place": place}):
            return "stale"
        return "asked again" if any(asked.times > 1 for asked in client.asked.values()) else "ok"

    def _conclude(self) -> None:
        seen = self._seen
        for client in self._clients.values():
            if client.result is None:
                last = client.last
                if last is not None and last.code is not None:
                    seen.outcome, seen.code, seen.message = "refused", last.code, last.message
                else:
                    seen.outcome = "hung" if last is not None and last.nothing == HUNG else "lost"
                return
            seen.text = client.result.text
            seen.outcome = "tool_error" if client.result.is_error else "completed"


def _answers(step: Send, client: _Client) -> types.InputResponses | None:
    said: dict[str, UserAnswer] = {name: Accept(content) for name, content in step.extra.items()}
    if step.round != "first" and not isinstance(step.answer, Nothing):
        said[step.round] = step.answer or Accept({step.round: AGREE[step.round]})
    keys = {name: asked.key for name, asked in client.asked.items()}
    return {keys.get(name, name): on_the_wire(answer) for name, answer in said.items()} or None


def _edited(state: str | None, edit: StateEdit | None) -> str | None:
    if state is None or edit is None:
        return state
    middle = len(state) // 2
    match edit:
        case "drop":
            return None
        case "flip":
            return state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        case "truncate":
            return state[:-8]
        case "garbage":
            return "not a state"
        case "too long":
            return state + "A" * (64 * MAX_TOKEN_BYTES)
        case "forge":
            forged = ".".join(_forged(part) for part in state.split("."))
            return forged if forged != state else _edited(state, "flip")


def _forged(part: str) -> str:
    """A part of a token with another place in it; as it is where it is not base64 of one."""
    try:
        payload = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return part
    forged = base64.urlsafe_b64encode(payload.replace(b"Illinois", b"Missouri")).decode()
    return part if b"Illinois" not in payload else forged[: len(part)]
