"""Durable calls of a fleet: Temporal, as it comes.

A call is a workflow. The author's handler runs in it and is replayed from the history wherever it goes
on; a step is a local activity, which looks its effect up in this process, and one that takes long goes
on as an activity that says now and then that it is alive; a round is an update, whose answer is the next
question or the result. What happens when a worker dies, is paused or vanishes is Temporal's business:
the workflow task, or the activity, times out, and another worker of the same version takes it.

Each version of the code has a task queue of its own, so calls end on the code they began on.

Knows `temporalio`, `call`, `messages` and `rounds`; nothing of MCP's requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import secrets
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
from mcp import MCPError
from mcp.server.request_state import InvalidRequestState, RequestStateCodec
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    QueryRejectCondition,
    RetryPolicy,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    TimeoutType,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.exceptions import TimeoutError as TimedOut
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from mrtr_options.sdk.durable.call import Record
from mrtr_options.sdk.durable.messages import (
    Answers,
    Begun,
    Ended,
    Reply,
    Seal,
    Stepped,
    Stopped,
    gave_up,
    other_version,
    unknown_call,
)
from mrtr_options.sdk.durable.rounds import Work, WrongDatabase

TASK_SECONDS = 10.0
"""How long a worker may be silent between two steps before another one goes on."""
SHORT_SECONDS = 2.0
"""How long a step is short: a call takes no rounds and says nothing meanwhile."""
ALIVE_SECONDS = 30.0
"""How long a worker may be silent in a long step before another one begins that step again."""
KEPT_SECONDS = 600.0
"""How long a worker knows what an effect of its own came to."""
STICKY_SECONDS = 1.0
"""How long a call that waits stays with a worker that does not answer. Temporal's default is 10 s."""
WAIT_SECONDS = 30.0
"""How long a worker that starts waits for a server that is away."""
AGAIN_SECONDS = 0.5
"""How long is waited before a server that is away is asked again."""
LOOK_SECONDS = 1.5
"""How long a round waits before it looks whether there is a worker of its call's version."""
PING_SECONDS = 4.0
"""How soon such a worker answers."""
LIFE = timedelta(days=7)
"""How long a call may take."""
AT_ONCE = 200
"""How many calls a worker works at between two long steps."""
LONG_AT_ONCE = 5000
"""How many long steps a worker has under way."""
THREADS = 8
"""In how many threads handlers run between two steps."""
ATTEMPTS = 4
"""How often a step may end its worker before it is given up."""

REFUSED = "refused"

T = TypeVar("T")

_AWAY = RPCError, WorkflowQueryFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
_IS_OPEN = QueryRejectCondition.NOT_OPEN

_LOG = logging.getLogger(__name__)
_here = threading.local()
_plain = Seal(None)  # the server gets what the codec makes of it


# --- the call, in a worker ----------------------------------------------------------------------


_Place = tuple[str, str]
"""A step: the run of its call, and its key."""


class Effects:
    """The effects of the steps of this process.

    Attributes:
        ready: Those of steps that are under way, and whether their call may have come so far before.
        begun: Those that were begun here, until some time after their end. A step that is begun again
            here, since Temporal did not hear of it in time, gets what that comes to.
    """

    def __init__(self) -> None:
        self.ready: dict[_Place, tuple[Callable[[], Awaitable[Stepped]], bool]] = {}
        self.begun: dict[_Place, asyncio.Task[str]] = {}

    @contextmanager
    def under_way(
        self, place: _Place, run: Callable[[], Awaitable[Stepped]], again: bool
    ) -> Generator[None]:
        """Have an effect found in a block, unless the same step is begun again meanwhile: a worker that
        drops a call from its cache ends the old block after it has begun the new one."""
        effect = self.ready[place] = run, again
        try:
            yield
        finally:
            if self.ready.get(place) is effect:
                del self.ready[place]

    def begin(self, place: _Place) -> None:
        """Run an effect."""
        run, _ = self.ready[place]

        async def once() -> str:
            return _plain.write(await run(), place[1])

        def forget() -> None:
            if self.begun.get(place) is begun:
                del self.begun[place]

        begun = self.begun[place] = asyncio.ensure_future(once())
        begun.add_done_callback(lambda _: begun.get_loop().call_later(KEPT_SECONDS, forget))

    def cancel(self, place: _Place) -> None:
        """Stop an effect, if it was begun here. From any thread."""
        if begun := self.begun.pop(place, None):
            begun.get_loop().call_soon_threadsafe(begun.cancel)


effects = Effects()


@workflow.defn(name="mrtr-call")
class _Call:
    """A call: what `call.Running` says."""

    @workflow.init
    def __init__(self, name: str, begun: str) -> None:
        self.handle = workflow.info().workflow_id
        first = _plain.read(Begun, begun, self.handle)
        self.record = Record(first, first.at)
        self._ahead = first.at - workflow.info().start_time.timestamp()
        self._again = False

    @workflow.run
    async def run(self, name: str, begun: str) -> str:
        self._again = workflow.unsafe.is_replaying()
        work: Work = _here.work
        try:
            output = await work.perform(name, self)
        except asyncio.CancelledError:
            output = Stopped()
        self.record.outputs.append(output)
        self.record.updated = self.now()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return _plain.write(self.record, self.handle)

    def now(self) -> float:
        return workflow.now().timestamp() + self._ahead  # by the clock of the store

    def told(self) -> None:
        """Nothing: conditions are looked at by themselves."""

    async def step(self, key: str, run: Callable[[], Awaitable[Stepped]]) -> Stepped:
        place, ended = (workflow.info().run_id, key), 0
        text = ""
        while not text:
            try:
                with effects.under_way(place, run, self._again):
                    text = await workflow.execute_local_activity(
                        "mrtr-step",
                        args=[*place, ended],
                        result_type=str,
                        start_to_close_timeout=LIFE,
                        retry_policy=RetryPolicy(maximum_attempts=1),
                    )
                if not text:
                    text = await workflow.execute_activity(
                        "mrtr-long-step",
                        args=place,
                        result_type=str,
                        task_queue=_here.own_queue,
                        schedule_to_start_timeout=timedelta(seconds=ALIVE_SECONDS),
                        start_to_close_timeout=LIFE,
                        heartbeat_timeout=timedelta(seconds=ALIVE_SECONDS),
                        retry_policy=RetryPolicy(maximum_attempts=1),
                    )
            except ActivityError as error:
                if is_cancelled_exception(error):
                    effects.cancel(place)
                    raise asyncio.CancelledError from None
                if not isinstance(error.cause, TimedOut):
                    raise
                ended += error.cause.type == TimeoutType.HEARTBEAT
        self.record.updated = self.now()
        return _plain.read(Stepped, text, key)

    async def asks(self) -> None:
        """Whatever looks at a call looks at it where its history ends."""
        self.record.updated = self.now()

    async def answered(self, seconds: float) -> bool:
        answers = self.record.answers
        before = len(answers)
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: len(answers) > before, timeout=seconds)
        return len(answers) > before

    @workflow.update
    async def visit(self, number: int, answers: str, until_taken: bool) -> str:
        record = self.record
        if given := record.new(number, _plain.read(Answers, answers, self.handle)):
            record.take(number, given)
            record.updated = self.now()
        if until_taken:
            return _plain.write(Reply(number, record.outputs[number]), self.handle)
        answering = record.answering(number)
        await workflow.wait_condition(lambda: record.has_said(answering))
        return _plain.write(record.reply(number), self.handle)

    @visit.validator
    def _check(self, number: int, answers: str, until_taken: bool) -> None:
        try:
            self.record.new(number, _plain.read(Answers, answers, self.handle))
        except MCPError as error:
            said = _plain.write(Ended(error), self.handle)
            raise ApplicationError(REFUSED, said, non_retryable=True) from None

    @workflow.signal
    def nudge(self) -> None:
        """Nothing: with thousands of calls Temporal sometimes hands the task of an update to no worker,
        and a signal makes it hand it out again."""

    @workflow.query
    def look(self) -> str:
        return _plain.write(self.record, self.handle)


@workflow.defn(name="mrtr-ping")
class _Ping:
    """Nothing. It ends if there is a worker."""

    @workflow.run
    async def run(self) -> None:
        return


class _Steps:
    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name="mrtr-step")
    async def step(self, run_id: str, key: str, ended: int) -> str:
        """Run the effect of a step; nothing if that takes long.

        Args:
            run_id, key: Which.
            ended: How many workers ended in it, once it took long.
        """
        place = run_id, key
        if place not in effects.begun:
            if ended >= ATTEMPTS or (effects.ready[place][1] and await self._attempts() > ATTEMPTS):
                return _plain.write(Stepped(gave_up=True), key)
            effects.begin(place)
        return await self._until_ended(place, SHORT_SECONDS)

    @activity.defn(name="mrtr-long-step")
    async def long_step(self, run_id: str, key: str) -> str:
        """Wait for the end of an effect that was begun here; nothing if it was not, or is cancelled."""
        place = run_id, key
        while place in effects.begun:
            try:
                if text := await self._until_ended(place, ALIVE_SECONDS / 3):
                    return text
            except asyncio.CancelledError:
                why = activity.cancellation_details()
                if why is not None and why.cancel_requested:
                    effects.cancel(place)
                raise
            activity.heartbeat()
        return ""

    async def _until_ended(self, place: _Place, seconds: float) -> str:
        """What an effect comes to; nothing if that takes longer."""
        begun = effects.begun[place]
        try:
            await asyncio.wait([begun], timeout=seconds)
        except asyncio.CancelledError:
            if not activity.is_cancelled():  # the process is at its end, and says no more
                effects.cancel(place)
                await asyncio.get_running_loop().create_future()
            raise  # Temporal did not hear of it in time, or its call is stopped, which ends the effect
        return begun.result() if begun.done() and not begun.cancelled() else ""

    async def _attempts(self) -> int:
        """How often this piece of the call has been begun, by how many workers."""
        handle = self._client.get_workflow_handle(activity.info().workflow_id or "")
        described = await handle.describe()
        return described.raw_description.pending_workflow_task.attempt


# --- its clients --------------------------------------------------------------------------------


class _Sealing(PayloadCodec):
    """Keeps what the server stores from who can read it."""

    def __init__(self, codec: RequestStateCodec) -> None:
        self._codec = codec

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        metadata = {"encoding": b"binary/mrtr-sealed"}
        sealed = [self._codec.seal(each.SerializeToString()).encode() for each in payloads]
        return [Payload(metadata=metadata, data=data) for data in sealed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        try:
            return [Payload.FromString(self._codec.unseal(each.data.decode())) for each in payloads]
        except (InvalidRequestState, UnicodeDecodeError) as error:
            raise ValueError("this payload is not of this server's keys") from error


class Engine:
    """The engine of one store: see `rounds.Engine`."""

    def __init__(self, client: Client, queue: str) -> None:
        self._client = client
        self._queue = queue

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        text = _plain.write(begun, handle)
        answers = Answers({}, begun.caller)

        async def begin() -> str:
            start = WithStartWorkflowOperation[_Call, Any](
                "mrtr-call",
                args=[name, text],
                id=handle,
                task_queue=self._queue,
                memo={"begun": text},
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                execution_timeout=LIFE,
                task_timeout=timedelta(seconds=TASK_SECONDS),
            )
            started = _seen(start.workflow_handle())  # it fails, too, where this is cancelled
            try:
                return await self._client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
                    "visit",
                    args=[-1, _plain.write(answers, handle), False],
                    start_workflow_operation=start,
                    id="begin",
                    result_type=str,
                )
            finally:
                started.cancel()

        return self._reply(handle, await self._asked(handle, begin))

    async def visit(
        self, handle: str, number: int, answers: Answers, *, until_taken: bool = False
    ) -> Reply | Record:
        text = _plain.write(answers, handle)
        # Delivered twice it is one update; without answers it may come to something else each time.
        said = hashlib.sha256(text.encode()).hexdigest() if answers.responses else secrets.token_hex(8)

        async def visit() -> str:
            return await self._call(handle).execute_update(  # pyright: ignore[reportUnknownMemberType]
                "visit",
                args=[number, text, until_taken],
                id=f"{number}.{said}.{until_taken}",
                result_type=str,
            )

        return self._reply(handle, await self._asked(handle, visit))

    def _reply(self, handle: str, found: str | Record) -> Reply | Record:
        return _plain.read(Reply, found, handle) if isinstance(found, str) else found

    async def look(self, handle: str) -> Record:
        async def look() -> str:
            return await self._call(handle).query("look", result_type=str, reject_condition=_IS_OPEN)

        found = await self._asked(handle, look)
        return _plain.read(Record, found, handle) if isinstance(found, str) else found

    async def stop(self, handle: str) -> None:
        async def stop() -> str | Record:
            await self._call(handle).cancel()
            return await self._ended(handle)

        await self._asked(handle, stop)

    def _call(self, handle: str) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(handle, result_type=str)

    async def _asked(self, handle: str, ask: Callable[[], Awaitable[str | Record]]) -> str | Record:
        """What a call answers; what is on record of it if it is over.

        Raises:
            MCPError: It refuses, there is no such call, or no worker of its version.
        """
        while True:
            asking = _seen(self._asked_once(handle, ask))
            try:
                await asyncio.wait([asking], timeout=LOOK_SECONDS)
                if not asking.done():
                    await self._check_served(handle)
                    with suppress(RPCError):  # it may have ended by now
                        await self._call(handle).signal("nudge")
                return await asking
            except _AWAY as error:
                _LOG.warning("call %s was not asked: %s", handle, str(error).splitlines()[0])
            finally:
                asking.cancel()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _asked_once(self, handle: str, ask: Callable[[], Awaitable[str | Record]]) -> str | Record:
        try:
            return await ask()
        except WorkflowUpdateFailedError as failed:
            if isinstance(failed.cause, ApplicationError) and failed.cause.message == REFUSED:
                outcome = _plain.read(Ended, failed.cause.details[0], handle).outcome
                assert isinstance(outcome, MCPError)
                raise outcome from None
        except (WorkflowAlreadyStartedError, WorkflowQueryRejectedError):
            pass
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
        return await self._ended(handle)

    async def _ended(self, handle: str) -> Record:
        """A call that is over.

        Raises:
            MCPError: There is no such call, or the engine gave it up.
        """
        call = self._call(handle)
        try:
            return _plain.read(Record, await call.result(), handle)
        except WorkflowFailureError:
            described = await call.describe()
            if described.status != WorkflowExecutionStatus.CANCELED:
                raise gave_up() from None
            begun = _plain.read(Begun, await described.memo_value("begun", type_hint=str), handle)
            return Record.stopped(begun, (described.close_time or described.start_time).timestamp())
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise unknown_call() from None
            raise

    async def _check_served(self, handle: str) -> None:
        """Look whether there is a worker of a call's version.

        Raises:
            MCPError: There is none.
        """
        described = await self._call(handle).describe()
        if described.task_queue == self._queue:
            return
        try:
            await self._client.execute_workflow(
                _Ping.run,
                id=f"ping-{secrets.token_hex(8)}",
                task_queue=described.task_queue,
                execution_timeout=timedelta(seconds=PING_SECONDS),
            )
        except WorkflowFailureError:
            raise other_version() from None


def _seen(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task whose failure counts as seen."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


# --- opened and closed --------------------------------------------------------------------------


async def connected(url: str, codec: RequestStateCodec | None = None) -> Client:
    """A client of the server at a URL, as soon as that answers; see `fleet`.

    Raises:
        WrongDatabase: It does not in `WAIT_SECONDS`.
        ValueError: The URL cannot be read.
    """
    host, _, namespace = url.removeprefix("temporal://").partition("#")[0].partition("/")
    address = urlsplit(f"//{host}")
    converter = DataConverter.default
    if codec is not None:
        converter = replace(converter, payload_codec=_Sealing(codec))
    where: dict[str, Any] = {"namespace": namespace or "default", "data_converter": converter}
    where["runtime"] = _runtime()
    with anyio.move_on_after(WAIT_SECONDS):
        for trial in itertools.count():
            with suppress(RuntimeError, OSError):
                # Its client has threads of its own, and a process that ends meanwhile may crash in one:
                # they are not started while nothing listens.
                async with await anyio.connect_tcp(address.hostname or "", address.port or 7233):
                    pass
                return await Client.connect(host, **where)
            if trial == 0:
                _LOG.warning("there is no Temporal at %s; waiting for it", host)
            await asyncio.sleep(AGAIN_SECONDS)
    raise WrongDatabase(f"there is no Temporal at {host}")


@cache
def _runtime() -> Runtime:
    """What Temporal's client runs in. Its own would log to standard output, where a server may talk."""
    levels = TelemetryFilter(core_level="WARN", other_level="ERROR")
    logging = LoggingConfig(levels, forwarding=LogForwardingConfig(_LOG))
    return Runtime(telemetry=TelemetryConfig(logging=logging))


@asynccontextmanager
async def fleet(url: str, work: Work) -> AsyncGenerator[Engine]:
    """The engine of a store on Temporal, with a worker in this process; see `rounds.opened`.

    Args:
        url: `temporal://HOST:PORT`, with a namespace as its path unless it is `default`.
        work: What it runs.

    Raises:
        WrongDatabase: There is no server.
    """
    client = await connected(url, work.codec)
    queue = f"mrtr-{work.version}{url.partition('#')[2]}"
    own_queue = f"{queue}-{secrets.token_hex(8)}"
    steps = _Steps(client)

    def here() -> None:
        _here.work, _here.own_queue = work, own_queue

    with ThreadPoolExecutor(THREADS, thread_name_prefix="mrtr-calls", initializer=here) as threads:
        async with (
            Worker(
                client,
                task_queue=own_queue,
                activities=[steps.long_step],
                max_concurrent_activities=LONG_AT_ONCE,
            ),
            Worker(
                client,
                task_queue=queue,
                workflows=[_Call, _Ping],
                activities=[steps.step],
                workflow_runner=UnsandboxedWorkflowRunner(),
                workflow_task_executor=threads,
                max_concurrent_workflow_tasks=AT_ONCE,
                max_concurrent_local_activities=AT_ONCE,
                no_remote_activities=True,
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=STICKY_SECONDS),
            ),
        ):
            yield Engine(client, queue)
