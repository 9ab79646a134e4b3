"""What one connection to a server may take: so many at once, and so long for a request to be there.

Knows uvicorn's protocol on h11 and asyncio, which it runs on; nothing of MCP.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from contextlib import suppress
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 20.0
"""How long a connection may take until its next request is there, headers and body."""
MAX_CONNECTIONS = 10_000
"""The most connections at once; half as many as the process may have files open, if that is less."""
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"retry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


def max_connections() -> int:
    """How many connections this process takes. The other half of its files is for what it works with."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if open_files < 0 else min(MAX_CONNECTIONS, open_files // 2)


class Connection(H11Protocol):
    """uvicorn's protocol with two bounds: on the number of connections, and on the time for a request.

    A connection too many gets status 503. One whose request is not there in `REQUEST_SECONDS` is closed.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            transport.write(_BUSY)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    @property
    def is_stream(self) -> bool:
        """Whether it carries a response that ends with the client's session only."""
        return bool(self.scope) and self.scope["method"] == "GET"

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Listener(socket.socket):
    """A listening socket that refuses a connection for which the process has no file left.

    Without a file `accept` fails, and asyncio tries again ever more often, with a line in the log each
    time. Here one file is held back, to take such a connection with and close it.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(fileno=listener.detach())
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._refuse()
            raise BlockingIOError from error  # for asyncio: there is none to accept

    def _refuse(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
        with suppress(OSError):
            connection, _ = super().accept()
            connection.close()
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:  # another thread was faster
            self._spare = -1

    def close(self) -> None:
        super().close()
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1


class _Unfinished(Exception):
    """A request's connection was closed before all of it was there."""


def whole_requests(app: ASGIApp) -> ASGIApp:
    """The application, without a word in the log for each request that never came in whole."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        whole = scope["type"] != "http"

        async def receive_whole() -> Message:
            nonlocal whole
            message = await receive()
            if message["type"] == "http.disconnect" and not whole:
                raise _Unfinished
            whole = whole or not message.get("more_body", False)
            return message

        with suppress(_Unfinished):
            await app(scope, receive_whole, send)

    return wrapped
