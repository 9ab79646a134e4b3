"""This project's own stand-in, around the client of `python`, used as documented."""

from __future__ import annotations

from jobs import Job, run
from python.client import client_of

from mrtr_options.sdk.resuming import ResumingClient


async def call(job: Job) -> None:
    """Make the call of a job."""
    async with ResumingClient(lambda: client_of(job), honours_keys=job.honours_keys) as client:
        await job.make(
            lambda: client.call_tool(job.tool, job.arguments),
            lambda: client.use(lambda connected: connected.list_tools()),
        )


if __name__ == "__main__":
    run(call)
