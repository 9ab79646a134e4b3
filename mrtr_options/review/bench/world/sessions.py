"""An old client that stays connected: several requests in one session.

A session lives in a task of its own, since the SDK's client is closed where it was opened. Knows
the client; nothing of what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from mrtr_options.review.bench.client import client_of, fetch, refusal, refuse_question
from mrtr_options.review.bench.messages import LOST, Reply, Request


@dataclass
class _Job:
    """A request that waits for its turn in a session.

    Attributes:
        request, user, gone: See `Instances.send`.
        reply: Its response, once there is one.
        done: Set when the response is there.
    """

    request: Request
    user: ElicitationFnT | None
    gone: anyio.Event | None
    reply: Reply = field(default_factory=lambda: Reply(nothing=LOST))
    done: anyio.Event = field(default_factory=anyio.Event)


class Session:
    """One session of an old client.

    Args:
        url: The endpoint.
        http: The connections of all clients.
        like: A request like those to come, with the client's version and capabilities.
    """

    def __init__(self, url: str, http: httpx2.AsyncClient, like: Request) -> None:
        self._url = url
        self._http = http
        self._like = like
        self._jobs, self._taken = anyio.create_memory_object_stream[_Job](0)
        self._user: ElicitationFnT = refuse_question
        self._ended = Reply(nothing=LOST)

    async def run(self, scope: anyio.CancelScope) -> None:
        """Open the session and send the requests that come, until it is closed or breaks."""
        with scope, self._taken:
            transport = streamable_http_client(self._url, http_client=self._http)
            try:
                async with client_of(transport, self._like, self._answer) as client:
                    async for job in self._taken:
                        self._user = job.user or refuse_question
                        try:
                            job.reply = await fetch(client, job.request, job.gone)
                        finally:
                            job.done.set()
            except* httpx2.TransportError:
                pass
            except* (MCPError, RuntimeError, ValidationError) as why:  # it does not connect
                self._ended = refusal(why)

    async def _answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        return await self._user(context, params)

    async def send(
        self, request: Request, user: ElicitationFnT | None, gone: anyio.Event | None
    ) -> Reply:
        """Send a request in its turn; see `Instances.send`."""
        job = _Job(request, user, gone)
        try:
            await self._jobs.send(job)
        except anyio.BrokenResourceError:  # the session has ended
            return self._ended
        await job.done.wait()
        return job.reply

    def close(self) -> None:
        """End the session once its requests have their responses."""
        self._jobs.close()
