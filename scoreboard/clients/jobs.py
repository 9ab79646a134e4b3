"""The common part of the clients in Python: jobs come in on standard input, reports go out.

Knows no client. README.md describes the lines.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio

CREDENTIALS = {"client_id": "the-client", "client_secret": "a secret"}
"""What a client shows to the authorization server."""

RETRYING = "retrying" in sys.argv
"""True if the client's own retries are to be switched on."""


@dataclass
class Job:
    """A call to make, with reports on the application's side of it.

    Attributes:
        url: The server's endpoint; None if `command` is given.
        command: The command that starts a server that speaks over stdio.
        issuer: The authorization server that hands out tokens; None if the server needs none.
        era: "modern" or "legacy".
        tool, arguments: The call.
        honours_keys: Whether to tell the client that the server honours call keys.
    """

    id: int
    url: str
    command: list[str]
    issuer: str | None
    era: str
    tool: str
    arguments: dict[str, Any]
    answers: dict[str, Any]
    wrong: dict[str, Any]
    think_seconds: float
    honours_keys: bool
    print: Callable[[str], object] = field(default=lambda line: print(line, flush=True))
    _began: float = field(default_factory=time.monotonic)

    def _say(self, **said: Any) -> None:
        self.print(json.dumps({"job": self.id, **said}))

    async def answer(self, message: str, properties: Iterable[str]) -> dict[str, Any]:
        """Ask the user, and return the filled-in form."""
        self._say(asked=message)
        await anyio.sleep(self.think_seconds)
        self.think_seconds = 0
        return {name: self.wrong.pop(name, None) or self.answers[name] for name in properties}

    async def make(
        self, call: Callable[[], Awaitable[Any]], list_tools: Callable[[], Awaitable[object]]
    ) -> None:
        """Make the call with a connected client, then check that the client can list the tools."""
        self._began = time.monotonic()
        try:
            result = await call()
        except Exception as error:
            self.raised(error)
        else:
            texts = [block.text for block in result.content if block.type == "text"]
            said = {"text": "".join(texts), "is_error": bool(result.is_error)}
            self._say(returned=said, seconds=time.monotonic() - self._began)
        try:
            await list_tools()
        except Exception:
            self._say(usable=False)
        else:
            self._say(usable=True)

    def raised(self, error: BaseException, where: str = "call") -> None:
        """Report an exception of the call or, with `where` "client", of the code around it."""
        inner = error
        while nested := getattr(inner, "exceptions", None):  # a group of exceptions
            inner = nested[0]
        names = [type(each).__name__ for each in (error, inner)]
        about = {
            "class": " of ".join(dict.fromkeys(names)),
            "code": getattr(inner, "code", None),
            "message": str(inner)[:500],
        }
        self._say(raised=about, where=where, seconds=time.monotonic() - self._began)

    def over(self) -> None:
        """Report that the job is done."""
        self._say(over=True)


async def one(call: Callable[[Job], Awaitable[None]], job: Job) -> None:
    """Make one call, and report its end, whatever it is."""
    try:
        await call(job)
    except BaseException as error:
        job.raised(error, "client")
        if not isinstance(error, Exception | BaseExceptionGroup):
            raise
    finally:
        job.over()


async def serve(call: Callable[[Job], Awaitable[None]]) -> None:
    """Make the requested calls, until standard input ends."""
    print('{"ready": true}', flush=True)
    async with anyio.create_task_group() as group:
        async for line in anyio.wrap_file(sys.stdin):
            group.start_soon(one, call, Job(**json.loads(line)))


def run(call: Callable[[Job], Awaitable[None]]) -> None:
    """Make the requested calls, in an event loop of this program."""
    anyio.run(serve, call)
