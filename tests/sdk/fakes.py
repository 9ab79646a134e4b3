"""Fake requests, as far as the stand-ins look at them: a context, its session, the parameters."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar, cast
from unittest import mock

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import BaseModel

from mrtr_options.sdk import current_request
from mrtr_options.sdk.call_key import CALL_KEY, REPEAT, new_call_key
from mrtr_options.tool.weather import Question
from tests.bounds import SECONDS
from tests.sending import Response

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""The mark of tests on engines and on databases with threads, which need asyncio."""

T = TypeVar("T")
Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
User = Callable[[types.ServerRequest], Awaitable[types.InputResponse]]


class Name(BaseModel):
    """The answer to `who`."""

    name: str


def who(key: str = "who", assumed: str | None = None) -> Question[Name]:
    """Make a question about a name."""
    fallback = None if assumed is None else Name(name=assumed)
    return Question(key, f"Who is {key}?", Name, fallback, f"Say who {key} is.")


async def not_by_push(request: types.ServerRequest) -> types.InputResponse:
    """Fail: this client must not be asked by push."""
    raise AssertionError(f"the server asked by push: {request}")


async def never(context: Any, params: Any) -> NoReturn:
    """Fail: the test drives the rounds by hand, so the client must not ask its user."""
    raise AssertionError(f"the client asked its user without the test: {params}")


@dataclass
class FakeSession:
    """A client's session: its capabilities, whether the server can push to it, and its user."""

    client_capabilities: types.ClientCapabilities | None
    can_send_request: bool = False
    user: User = not_by_push
    pushed: list[types.ServerRequest] = field(default_factory=list[types.ServerRequest])

    async def send_request(
        self, request: types.ServerRequest, result_type: type[Any], metadata: Any
    ) -> types.InputResponse:
        assert metadata.related_request_id == 1, "the push is not on the call's stream"
        self.pushed.append(request)
        return await self.user(request)


def capabilities(*, form: bool = False, url: bool = False) -> types.ClientCapabilities:
    """Declare elicitation with these modes; without any, the capability is empty."""
    return types.ClientCapabilities(
        elicitation=types.ElicitationCapability(
            form=types.FormElicitationCapability() if form else None,
            url=types.UrlElicitationCapability() if url else None,
        )
    )


def of_session(session: FakeSession, *, modern: bool) -> Context:
    """Make a request of this client."""
    return ServerRequestContext(
        session=cast(ServerSession, session),
        lifespan_context=None,
        protocol_version=LATEST_MODERN_VERSION if modern else LATEST_HANDSHAKE_VERSION,
        method="tools/call",
        request_id=1,
    )


def modern(declared: types.ClientCapabilities | None = None, *, forms: bool = True) -> Context:
    """Make a request of a modern client, which declares forms by default."""
    able = declared or (capabilities(form=True) if forms else types.ClientCapabilities())
    return of_session(FakeSession(able), modern=True)


def params(answers: types.InputResponses | None = None, asked: Response | None = None) -> Params:
    """Make the parameters of a first round, or of the round after the response that asked."""
    state = asked.request_state if isinstance(asked, types.InputRequiredResult) else None
    return Params(name="tool", arguments={"x": 1}, input_responses=answers, request_state=state)


async def deliver(
    handler: Callable[[Any, Any], Awaitable[Response]],
    asked: Response | None = None,
    answers: types.InputResponses | None = None,
    *,
    ctx: Context | None = None,
    key: object = None,
    **arguments: Any,
) -> Response:
    """Deliver a round to a handler, for a bounded time.

    The round is the first one, or the one that answers `asked`. If the response is a repeat, it is
    returned without the entry that says so.

    Args:
        handler: The handler.
        asked: The response that asked.
        answers: The client's answers.
        ctx: The client's request; by default one of a modern client.
        key: The call key.
        **arguments: The tool's arguments; by default those of `params`.
    """
    request = params(answers, asked)
    meta: Any = None if key is None else {CALL_KEY: key}
    request = request.model_copy(update={"meta": meta, "arguments": arguments or request.arguments})
    with anyio.fail_after(SECONDS):
        return first_of(await handler(ctx or modern(), request))


def first_of(response: Response) -> Response:
    """Return a response without the entry that marks it as a repeat."""
    meta = {name: value for name, value in (response.meta or {}).items() if name != REPEAT}
    return response.model_copy(update={"meta": meta or None})


def called_by(name: Callable[[], str | None]) -> Any:
    """Patch the caller of requests that come from no server."""

    def principal(ctx: Context) -> str | None:
        return name()

    return mock.patch.object(
        current_request, "_unprotected_request", partial(current_request.Request, None, principal)
    )


def key_made(at: float) -> str:
    """Make a call key as of a time, in seconds since 1970."""
    random = uuid.UUID(new_call_key()).int & (1 << 80) - 1
    return str(uuid.UUID(int=int(at * 1000) << 80 | random))


async def play(
    handler: Callable[[Any, Any], Awaitable[Response]], *answers: types.InputResponses | None
) -> Response:
    """Play a call with these answers, and return its last response."""
    response = await deliver(handler)
    for each in answers:
        response = await deliver(handler, response, each)
    return response


async def refused(
    handler: Callable[[Any, Any], Awaitable[Response]],
    asked: Response | None = None,
    answers: types.InputResponses | None = None,
    **more: Any,
) -> tuple[int, str]:
    """Deliver a round that is refused, and return the code and the reason of the error."""
    with pytest.raises(MCPError) as refusal:
        await deliver(handler, asked, answers, **more)
    return refusal.value.code, refusal.value.data["reason"]


def named(name: str, key: str = "who") -> types.InputResponses:
    """Make an answer to `who(key)`."""
    return {key: types.ElicitResult(action="accept", content={"name": name})}


def no(key: str = "who", action: Any = "decline") -> types.InputResponses:
    """Make a no to `who(key)`, with what the user had typed."""
    return {key: types.ElicitResult(action=action, content={"name": "Eve"})}


def unfit(key: str = "who", name: object = 5) -> types.InputResponses:
    """Make an answer that does not fit `who(key)`."""
    return {key: types.ElicitResult(action="accept", content={"name": cast(int, name)})}


def asking(*keys: str) -> Any:
    """Make a handler that awaits its answers, and asks for one name after the other."""

    async def handler(ctx: Any, params: Any) -> types.CallToolResult:
        return result(" and ".join([(await ctx.elicit(who(key))).name for key in keys]))

    return handler


def asking_at_once(*keys: str) -> Any:
    """Make one that asks for all names together."""

    async def handler(ctx: Any, params: Any) -> types.CallToolResult:
        return result(" and ".join(each.name for each in await ctx.elicit_all(*map(who, keys))))

    return handler


def result(text: str) -> types.CallToolResult:
    """Make a result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=text)])


def key_of(response: Response) -> str:
    """Return the key of the one question in a response."""
    (key,) = keys_of(response)
    return key


def keys_of(response: Response) -> set[str]:
    """Return the keys of the questions in a response."""
    assert isinstance(response, types.InputRequiredResult), f"not a question: {response}"
    return set(response.input_requests or {})


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds, for a bounded time."""
    with anyio.fail_after(SECONDS):
        while not holds():
            await anyio.lowlevel.checkpoint()
