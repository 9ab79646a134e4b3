"""The weather tool as a Temporal workflow that waits for a signal, or an update, at each
question.
"""

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import tool
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

BY_UPDATE = sys.argv[1] in ("updates", "once")
"""Answers are updates with ids in place of signals, and a start may be repeated."""
ONCE = sys.argv[1] == "once"
"""The bill is attempted once at most."""
WAIT_SECONDS = 45.0


@activity.defn
def log_lookup(location: str) -> None:
    tool.audit(location)


@activity.defn
def charge(place: str) -> None:
    tool.bill(place)


@workflow.defn
class Weather:
    def __init__(self) -> None:
        self.question: dict | None = None
        self.answers: dict[str, str] = {}

    @workflow.run
    async def run(self, location: str) -> str:
        how = {"start_to_close_timeout": timedelta(seconds=5)}
        await workflow.execute_activity(log_lookup, location, **how)
        place = await self.ask(1, tool.which_place(location))
        if tool.CONSENT and not await self.ask(2, tool.may_bill(place)):
            return "No lookup was made."
        units = await self.ask(3, tool.which_units(place))
        attempts = {"retry_policy": RetryPolicy(maximum_attempts=1)} if ONCE else {}
        await workflow.execute_activity(charge, place, **how, **attempts)
        return tool.report(place, units)

    async def ask(self, number: int, question: dict) -> str:
        self.question = question | {"number": number}
        await workflow.wait_condition(lambda: question["key"] in self.answers)
        self.question = None  # what was answered early is not asked
        return self.answers[question["key"]]

    @workflow.signal
    def signalled(self, name: str, value: str) -> None:
        self.answers[name] = value

    @workflow.update
    def updated(self, name: str, value: str) -> None:
        self.answers[name] = value

    @updated.validator
    def is_asked(self, name: str, value: str) -> None:
        if self.question is None or name != self.question["key"]:
            raise ValueError(f"{name!r} is not asked now")

    @workflow.query
    def pending(self) -> dict | None:
        return self.question


async def outcome(handle, after: int | None) -> dict:
    """Wait for the question after a question, or for the result."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        if (await handle.describe()).status != WorkflowExecutionStatus.RUNNING:
            return tool.done(await handle.result())
        question = await handle.query(Weather.pending)
        if question and question["number"] != after:
            return tool.asked(question, {"call": handle.id, "number": question["number"]})
        await asyncio.sleep(0.1)
    raise TimeoutError("the workflow does not go on")


async def run(work) -> dict:
    client = await Client.connect(f"127.0.0.1:{os.environ['MRTR_PORT']}")
    how = {
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "activity_executor": ThreadPoolExecutor(4),
        "sticky_queue_schedule_to_start_timeout": timedelta(seconds=1),
        "graceful_shutdown_timeout": timedelta(0),
    }
    async with Worker(
        client, task_queue="weather", workflows=[Weather], activities=[log_lookup, charge], **how
    ):
        return await work(client)


def start(call: str, location: str, user: str) -> dict:
    async def work(client: Client) -> dict:
        how = {"id": call, "task_queue": "weather"}
        if BY_UPDATE:
            how["id_conflict_policy"] = WorkflowIDConflictPolicy.USE_EXISTING
        return await outcome(await client.start_workflow(Weather.run, location, **how), None)

    return asyncio.run(run(work))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    async def work(client: Client) -> dict:
        handle = client.get_workflow_handle(pause["call"])
        if not BY_UPDATE:
            await handle.signal(Weather.signalled, args=[name, value])
            return await outcome(handle, pause["number"])
        try:
            ids = {"id": f"answer-{pause['number']}"}
            await handle.execute_update(Weather.updated, args=[name, value], **ids)
        except WorkflowUpdateFailedError:  # it is not asked now
            return await outcome(handle, None)
        return await outcome(handle, pause["number"])

    return asyncio.run(run(work))


def read(call: str, pause: dict | None, user: str) -> dict:
    """Return the workflow's result, or the question that it has open."""

    async def work(client: Client) -> dict:
        handle = client.get_workflow_handle(call)
        if (await handle.describe()).status != WorkflowExecutionStatus.RUNNING:
            return tool.done(await handle.result())
        return tool.asked(await handle.query(Weather.pending), {"call": call})

    return asyncio.run(run(work))


if __name__ == "__main__":
    tool.deliver(start, resume, read)
