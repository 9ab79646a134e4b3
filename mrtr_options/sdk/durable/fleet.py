"""Durable calls of a fleet: Temporal, as it comes.

A call is a workflow. The author's handler runs in it and is replayed from the history wherever it
goes on. A step is an activity, which looks the effect up in the process that runs the call. A round
is an update, whose answer is the next question or the result. When a worker dies, is paused or
vanishes, its task times out: another worker of the same version takes the workflow, whose replay
reaches that step and begins it there. A step whose workers fall silent several times is abandoned.

Each handler of each version has a task queue of its own, so calls end on the code they began on.

Knows `temporalio`, `context`, `events`, `engine` and `store`; nothing of MCP's requests.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import re
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
from mcp import MCPError
from mcp.server.request_state import RequestStateCodec
from temporalio import client, common, exceptions, runtime, workflow
from temporalio.api.workflowservice import v1 as api
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from mrtr_options.sdk.durable import activities
from mrtr_options.sdk.durable.activities import Effects, Place
from mrtr_options.sdk.durable.context import ATTEMPTS, Running
from mrtr_options.sdk.durable.engine import Work, WrongDatabase
from mrtr_options.sdk.durable.events import Answers, Begun, Ended, Reply, Run, Stepped
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import Seal, Unreadable
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.writing import digest

TASK_SECONDS = 10.0
"""The longest silence of a worker between two steps; then another one goes on."""
STICKY_SECONDS = 1.0
"""The time that a waiting call stays with a silent worker. Temporal's default is 10 s."""
WAIT_SECONDS = 30.0
"""The time that a worker waits at its start for a server that is away."""
AGAIN_SECONDS = 0.5
"""The delay before a server that is away is asked again."""
LOOK_SECONDS = 1.5
"""The time after which a round checks that there is a worker of its call's version."""
PING_SECONDS = 4.0
"""The time in which such a worker answers."""
LIFE = timedelta(days=7)
"""The longest life of a call."""
AT_ONCE = 200
"""The most calls that a worker advances at once between two steps."""
STEPS_AT_ONCE = 5000
"""The most steps that a worker runs at once."""
THREADS = 8
"""The number of threads in which handlers run between two steps."""


REFUSED = "refused"

T = TypeVar("T")

_IS_OPEN = common.QueryRejectCondition.NOT_OPEN
_AWAY = RPCError, client.WorkflowQueryFailedError, client.WorkflowUpdateRPCTimeoutOrCancelledError
_SILENT = (
    RPCStatusCode.CANCELLED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,
)
_NON_DETERMINISM = re.compile("TMPRL1100|Fatal error in workflow machines")
"""Temporal's words for a handler that does something else than its history has."""
_CALL_ENDED = (
    client.WorkflowFailureError,
    client.WorkflowQueryRejectedError,
    exceptions.WorkflowAlreadyStartedError,
)

_LOG = logging.getLogger(__name__)
_here = threading.local()


# --- the call, in a worker ----------------------------------------------------------------------


@workflow.defn(name="mrtr-call")
class _Call(Running):
    """A call: its handler runs in the workflow, its rounds are updates."""

    @workflow.init
    def __init__(self, name: str, begun: str) -> None:
        self.handle = workflow.info().workflow_id
        first = _here.seal.read(Begun, begun, self.handle)
        self.record = Record(first, first.at)
        work: Work = _here.work
        self._clock = work.clock
        self._ahead = first.at - workflow.info().start_time.timestamp()

    @workflow.run
    async def run(self, name: str, begun: str) -> str:
        work: Work = _here.work
        try:
            output = await work.perform(name, self)
        except asyncio.CancelledError:
            output = self.record.ended(None)
        self.record.outputs.append(output)
        self.record.updated = self.now()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return _here.seal.write(self.record, self.handle)

    def now(self) -> float:
        if not workflow.in_workflow():  # a step asks, and runs in an activity
            return self._clock()
        return workflow.now().timestamp() + self._ahead  # by the clock of the store

    def notify(self) -> None:
        """Do nothing: Temporal evaluates conditions by itself."""

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        with suppress(TimeoutError):
            await workflow.wait_condition(
                is_so, timeout=seconds and min(seconds, LIFE.total_seconds())
            )
        return is_so()

    async def step(self, key: str, run: Run, *, is_wait: bool = False) -> Stepped:
        place = workflow.info().run_id, key
        doing = _seen(self._step(place, run, is_wait=is_wait))
        try:
            # A cancelled scope of AnyIO cancels its code again at every turn of the loop until that
            # has ended, and an activity ends only once Temporal says so.
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            doing.cancel()
            if not workflow.unsafe.is_replaying():  # or Temporal drops the call from its cache
                _here.effects.cancel(place)
            raise

    async def _step(self, place: Place, run: Run, *, is_wait: bool) -> Stepped:
        ended = 0
        queue: str | None = None  # the call's, from which Temporal hands it to this worker at once
        while is_wait or ended < ATTEMPTS:
            try:
                with _here.effects.ready(place, run):
                    text = await workflow.execute_activity(
                        "mrtr-step",
                        args=place,
                        result_type=str,
                        task_queue=queue,
                        schedule_to_start_timeout=timedelta(seconds=activities.ALIVE_SECONDS),
                        start_to_close_timeout=LIFE,
                        heartbeat_timeout=timedelta(seconds=activities.ALIVE_SECONDS),
                        retry_policy=common.RetryPolicy(maximum_attempts=1),
                    )
                _here.effects.forget(place)
                self.record.updated = self.now()
                return _here.seal.read(Stepped, text, place[1])
            except exceptions.ActivityError as error:
                queue = _here.own_queue  # the one way that leads here surely
                match error.cause:
                    case exceptions.TimeoutError(type=why):
                        if why == exceptions.TimeoutType.HEARTBEAT:
                            ended += 1
                    case exceptions.ApplicationError(type=activities.ELSEWHERE):
                        pass
                    case exceptions.ApplicationError(type=activities.ENDED):
                        ended += 1
                    case _:
                        raise
        return Stepped(gave_up=True)

    async def record_handover(self) -> None:
        """Nothing: the handler is never behind Temporal's own record of it."""

    async def take_answers(self, number: int, answers: Answers) -> None:
        self.record.take(number, answers)
        self.record.updated = self.now()

    @workflow.update(name="visit")
    async def visit_update(self, number: int, answers: str) -> str:
        given = _here.seal.read(Answers, answers, self.handle)
        return _here.seal.write(await self.visit(number, given), self.handle)

    @visit_update.validator
    def _check(self, number: int, answers: str) -> None:
        """Refuse a round before it counts: Temporal takes 2,000 updates of a call."""
        try:
            self.record.new_answers(number, _here.seal.read(Answers, answers, self.handle))
        except MCPError as error:
            said = _here.seal.write(Reply(number, Ended(error)), self.handle)
            raise exceptions.ApplicationError(REFUSED, said, non_retryable=True) from None

    @workflow.signal
    def nudge(self) -> None:
        """Do nothing: the signal itself makes Temporal hand out a task again.

        With thousands of calls Temporal sometimes hands the task of an update to no worker.
        """

    @workflow.query
    def look(self) -> str:
        return _here.seal.write(self.record, self.handle)


# --- its clients --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """The engine of one store: see `engine.Engine`.

    Attributes:
        server: Its client.
        seal: Seals what is kept.
        queues: The task queues of its handlers, by their names.
    """

    server: Client
    seal: Seal
    queues: dict[str, str]

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        text = self.seal.write(begun, handle)
        answers = self.seal.write(Answers({}, begun.caller), handle)

        async def begin() -> str:
            start = client.WithStartWorkflowOperation[_Call, Any](
                "mrtr-call",
                args=[name, text],
                id=handle,
                task_queue=self.queues[name],
                id_conflict_policy=common.WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=common.WorkflowIDReusePolicy.REJECT_DUPLICATE,
                execution_timeout=LIFE,
                task_timeout=timedelta(seconds=TASK_SECONDS),
            )
            started = _seen(start.workflow_handle())  # it fails, too, where this is cancelled
            try:
                return await self.server.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
                    "visit",
                    args=[-1, answers],
                    start_workflow_operation=start,
                    id="begin",
                    result_type=str,
                )
            finally:
                started.cancel()

        return await self._ask_engine(Reply, handle, begin)

    async def visit(self, handle: str, number: int, answers: Answers) -> Reply | Record:
        text = self.seal.write(answers, handle)
        plain = Seal(None).write(answers, handle)
        # Delivered twice it is one update; without answers it may come to something else each time.
        said = digest(plain) if answers.responses else secrets.token_hex(8)

        async def visit() -> str:
            return await self._call(handle).execute_update(  # pyright: ignore[reportUnknownMemberType]
                "visit",
                args=[number, text],
                id=f"{number}.{said}",
                result_type=str,
            )

        return await self._ask_engine(Reply, handle, visit)

    async def look(self, handle: str) -> Record:
        return await self._ask_engine(Record, handle, lambda: self._query_record(handle))

    async def stop(self, handle: str) -> None:
        async def stop() -> str:
            await self._call(handle).cancel()
            return await self._call(handle).result()

        await self._ask_engine(Record, handle, stop)

    def _call(self, handle: str) -> client.WorkflowHandle[Any, Any]:
        return self.server.get_workflow_handle(handle, result_type=str)

    def _query_record(
        self, handle: str, seconds: timedelta | None = None
    ) -> Coroutine[Any, Any, str]:
        call = self._call(handle)
        return call.query("look", result_type=str, reject_condition=_IS_OPEN, rpc_timeout=seconds)

    async def _ask_engine(
        self, kind: type[T], handle: str, ask: Callable[[], Awaitable[str]]
    ) -> T | Record:
        """Return a call's answer, parsed as `kind`; its record if the call is over.

        Raises:
            MCPError: There is no such call, the engine gave it up, or there is no worker of its
                version.
        """
        while True:
            asking = _seen(self._ask_engine_once(kind, handle, ask))
            try:
                await asyncio.wait([asking], timeout=LOOK_SECONDS)
                failed = asking.exception() if asking.done() else None
                if not asking.done() or isinstance(failed, _AWAY):
                    await self._check_served(handle, failed)
                return await asking
            except Unreadable as error:
                _LOG.warning("%s", error)
                raise refusal(Reason.UNKNOWN_CALL) from error
            except _AWAY as error:
                _LOG.warning("call %s was not asked: %s", handle, str(error).splitlines()[0])
            finally:
                asking.cancel()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _ask_engine_once(
        self, kind: type[T], handle: str, ask: Callable[[], Awaitable[str]]
    ) -> T | Record:
        why = Reason.GAVE_UP
        for of, says in ((kind, ask), (Record, self._call(handle).result)):
            why = Reason.GAVE_UP
            try:
                return self.seal.read(of, await says(), handle)
            except client.WorkflowUpdateFailedError as failed:
                cause = failed.cause
                if isinstance(cause, exceptions.ApplicationError) and cause.message == REFUSED:
                    return self.seal.read(of, cause.details[0], handle)
            except _CALL_ENDED:
                pass
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
                why = Reason.UNKNOWN_CALL
        raise refusal(why)

    async def _check_served(self, handle: str, failed: BaseException | None) -> None:
        """Have a call handed out again, unless it `failed`.

        A call whose handler does something else than before is ended.

        Raises:
            MCPError: There is no worker of its version.
        """
        call = self._call(handle)
        now = await call.describe()
        is_tried_again = now.raw_description.pending_workflow_task.attempt > 1
        does_otherwise = _NON_DETERMINISM.search(str(failed)) is not None
        if is_tried_again and not does_otherwise:
            does_otherwise = await self._does_otherwise(now)
        if does_otherwise:
            await call.terminate("its handler did something else when it began again")
        elif now.task_queue not in self.queues.values():
            try:
                with suppress(*_CALL_ENDED):
                    await self._query_record(handle, timedelta(seconds=PING_SECONDS))
            except RPCError as error:
                if error.status not in _SILENT:
                    raise
                await call.describe()  # Temporal itself is there
                raise refusal(Reason.OTHER_VERSION) from None
        with suppress(RPCError):  # it may have ended by now
            if failed is None:
                await call.signal("nudge")

    async def _does_otherwise(self, now: client.WorkflowExecutionDescription) -> bool:
        """Return whether the handler departed from its history since the call last went on."""
        asked = api.GetWorkflowExecutionHistoryReverseRequest(
            namespace=self.server.namespace,
            execution=now.raw_description.workflow_execution_info.execution,
        )
        said = await self.server.workflow_service.get_workflow_execution_history_reverse(asked)
        for event in said.history.events:
            message = event.workflow_task_failed_event_attributes.failure.message
            failed = _NON_DETERMINISM.search(message)
            if failed or event.HasField("workflow_task_completed_event_attributes"):
                return bool(failed)
        return False


def _seen(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a task whose failure counts as seen."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


# --- opened and closed --------------------------------------------------------------------------


async def connected(url: str) -> Client:
    """Return a client of the server at a URL, as soon as that answers; see `open_engine`.

    Raises:
        WrongDatabase: It does not in `WAIT_SECONDS`.
        ValueError: The URL cannot be read.
    """
    address = urlsplit(url.partition("#")[0])
    host = address.netloc
    namespace = address.path.strip("/") or "default"
    says = f"no Temporal server answers at {host} for the namespace {namespace}"
    with anyio.move_on_after(WAIT_SECONDS):
        for trial in itertools.count():
            with suppress(RuntimeError, OSError, RPCError):
                server = await Client.connect(host, namespace=namespace, runtime=_runtime())
                asked = api.DescribeNamespaceRequest(namespace=namespace)
                await server.workflow_service.describe_namespace(asked)
                return server
            if trial == 0:
                _LOG.warning("%s; waiting for it", says)
            await asyncio.sleep(AGAIN_SECONDS)
    raise WrongDatabase(says)


def try_url(url: str) -> None:
    """Wait for a server; see `connected`."""
    anyio.run(connected, url)


@cache
def _runtime() -> runtime.Runtime:
    """Return the runtime of Temporal's client, with its logs sent to ours.

    Temporal's default runtime would log to standard output, where a server may talk.
    """
    atexit.register(time.sleep, 0.1)  # its threads let go of Python, or the process aborts
    levels = runtime.TelemetryFilter(core_level="WARN", other_level="ERROR")
    logging = runtime.LoggingConfig(levels, forwarding=runtime.LogForwardingConfig(_LOG))
    return runtime.Runtime(telemetry=runtime.TelemetryConfig(logging=logging))


@asynccontextmanager
async def open_engine(
    url: str, work: Work, codec: RequestStateCodec | None
) -> AsyncGenerator[Engine]:
    """Open the engine of a store on Temporal, with a worker in this process.

    See `DurableStore.serving`.

    Args:
        url: `temporal://HOST:PORT`, with a namespace as its path unless it is `default`.
        work: The store.
        codec: Seals what is kept; None to leave it readable.

    Raises:
        WrongDatabase: There is no server.
    """
    server = await connected(url)
    seal = Seal(codec)
    queues = {name: f"mrtr-{name}{url.partition('#')[2]}" for name in work.handlers}
    own_queue = f"mrtr-{secrets.token_hex(8)}"
    doing = Effects(seal)

    def here() -> None:
        _here.work = work
        _here.seal = seal
        _here.own_queue = own_queue
        _here.effects = doing

    steps: dict[str, Any] = {
        "activities": [doing.step],
        "max_concurrent_activities": STEPS_AT_ONCE,
        "max_heartbeat_throttle_interval": timedelta(seconds=activities.ALIVE_SECONDS / 3),
    }
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mrtr-calls", initializer=here)
    with closing(doing), pool as threads:
        async with AsyncExitStack() as workers:
            await workers.enter_async_context(Worker(server, task_queue=own_queue, **steps))
            for queue in queues.values():
                worker = Worker(
                    server,
                    task_queue=queue,
                    workflows=[_Call],
                    workflow_runner=UnsandboxedWorkflowRunner(),
                    workflow_task_executor=threads,
                    max_concurrent_workflow_tasks=AT_ONCE,
                    sticky_queue_schedule_to_start_timeout=timedelta(seconds=STICKY_SECONDS),
                    **steps,
                )
                await workers.enter_async_context(worker)
            yield Engine(server, seal, queues)
