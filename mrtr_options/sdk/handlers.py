"""What a handler is, what is refused as one, and whether its state is protected.

A handler answers `tools/call` on the lowlevel server: `async def (ctx, params)`. Everything here is
either one, goes around one, or makes one. Knows the SDK's types.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, get_origin

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_types.version import LATEST_MODERN_VERSION, is_version_at_least

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, Params], Awaitable[Result]]
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

_NEEDS = "needs_while_serving"


class NotAHandler(TypeError):
    """What was given is no handler. The text is one line that says what to write."""


def check_handler(handler: object, user: str) -> None:
    """Refuse what is no handler: a tool of `MCPServer`, or one that awaits its answers.

    Args:
        handler: What was given.
        user: What it was given to, for the text.

    Raises:
        NotAHandler: It does not take a request's context and parameters.
    """
    if (why := _why_not(handler)) is None:
        return
    name = getattr(handler, "__qualname__", type(handler).__name__)
    raise NotAHandler(
        f"{user} takes a handler, `async def {name}(ctx, params)`, and {name} {why}. One that awaits"
        " its answers goes through keyed_replay(...) or store.linear(...) first; on an MCPServer, write"
        " Tool(...).add_to(server)"
    )


def _why_not(handler: object) -> str | None:
    if not callable(handler):
        return "is no function"
    try:
        signature = inspect.signature(handler, eval_str=True)
    except NameError:  # an annotation that only a type checker can see
        signature = inspect.signature(handler)
    try:
        signature.bind(None, None)
    except TypeError:
        return f"takes {signature.replace(return_annotation=inspect.Signature.empty)}"
    wanted = (ServerRequestContext, types.RequestParams)
    for parameter, kind in zip(signature.parameters.values(), wanted, strict=False):
        given: Any = get_origin(parameter.annotation) or parameter.annotation
        is_said = isinstance(given, type) and given not in (inspect.Parameter.empty, UnionType, Any)
        if is_said and not issubclass(given, kind):
            return f"takes {parameter}"
    return None


def needing(handler: HandlerT, resource: object) -> HandlerT:
    """The handler itself, marked as one that works only while a resource is open."""
    vars(handler)[_NEEDS] = resource
    return handler


def needed_by(handler: object) -> object:
    """What has to be open while this handler serves; None if nothing has to."""
    return getattr(handler, _NEEDS, None)


# --- protection ---------------------------------------------------------------------------------

_protected: ContextVar[bool] = ContextVar("protected", default=False)


def check_protected() -> None:
    """Refuse to hand out or take a state that nothing protects.

    Raises:
        MCPError: -32603, this request did not come through `ProtectedRounds`.
    """
    if not _protected.get():
        raise MCPError(
            types.INTERNAL_ERROR,
            "This server does not protect the state of its calls, and anyone could write one. Its author"
            " has to build it with mrtr_options.sdk.build_server, or to add sdk.protect(server).",
            {"reason": "state_not_protected"},
        )


@contextmanager
def protected() -> Generator[None]:
    """In this block states are sealed on their way out and checked on their way in."""
    token = _protected.set(True)
    try:
        yield
    finally:
        _protected.reset(token)


@dataclass(frozen=True)
class ProtectedRounds:
    """Server middleware around a `RequestStateBoundary`: lets handlers know that it is there.

    Refuses a request of an older protocol version that carries a modern round.

    Attributes:
        is_ephemeral: Whether the boundary's key is of this process only.
    """

    is_ephemeral: bool = False

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        is_round = any(params.get(name) is not None for name in ("inputResponses", "requestState"))
        if is_round and not is_version_at_least(ctx.protocol_version, LATEST_MODERN_VERSION):
            raise MCPError(
                types.INVALID_PARAMS,
                "requestState and inputResponses need protocol version 2026-07-28 or later;"
                f" this request is of {ctx.protocol_version}.",
                {"reason": "not_of_this_version"},
            )
        with protected():
            return await call_next(ctx)
