"""The shared lowlevel server that every option runs on.

Everything around a tool that no option is about: the tool's listing and argument check, the state
boundary, the desk, and what the domain's outcomes look like on the wire. Knows the rest of `tool`, and
the common part of the stand-ins; no option's own machinery.

What a server is configured with (its ledger, its keys) is not the author's business, so an option
file does not mention it: `build_server` takes it from the settings in force (see `settings`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.request_state import RequestStateBoundary, RequestStateCodec, RequestStateSecurity
from pydantic import BaseModel, ValidationError

from mrtr_options.sdk.extension import add_extension
from mrtr_options.sdk.protection import (
    ClockedCodec,
    InstanceCodec,
    make_codec,
    make_record_codec,
    new_key,
)
from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined, is_modern, kind_of_request, kinds
from mrtr_options.sdk.telemetry import NamingCodec, Rounds
from mrtr_options.tool import weather
from mrtr_options.tool.settings import Context, Handler, Params, Result, Settings, settings_in_force

TOOL = "weather"

_logger = logging.getLogger(__name__)

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)


class Opener(Protocol):
    """Opens what a handler needs while its server serves."""

    def __call__(
        self,
        desk: weather.Desk,
        /,
        *,
        database: str | None,
        principal: Callable[[Context], str | None],
        clock: Callable[[], float] | None,
        codec: RequestStateCodec,
    ) -> AbstractAsyncContextManager[Any]: ...


Resource = AbstractAsyncContextManager[Any] | Opener


def build_server(
    name: str,
    handler: Handler,
    *,
    sealed: bool = False,
    resources: Sequence[Resource] = (),
    extensions: Sequence[Extension] = (),
) -> Server[weather.Desk]:
    """The weather server around one option's handler.

    Args:
        name: The server's name. States are bound to it, so one option's are no good to another.
        handler: Answers `tools/call` for the weather tool; may raise the domain's outcomes.
        sealed: Whether clients must not be able to read the state (see `protection`).
        resources: Kept open while the server serves; closed with the last connection. One that is
            a function is given the desk, the settings' database, principal and clock, and what seals
            records under the settings' keys.
        extensions: Extensions of the protocol that the server declares, with their methods.
    """
    settings = settings_in_force()
    handler = _with_outcomes(handler)
    for wrapper in settings.wrappers:
        handler = wrapper(handler)

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_WEATHER_TOOL])

    async def call_tool(ctx: Context, params: Params) -> Result:
        fitting(params, TOOL, weather.WeatherArguments)
        result = await handler(ctx, params)
        # Outermost: a wrapper may repeat a question that was made for a client that declared more.
        _check_declared(ctx, result)
        return result

    server = Server(
        name,
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        lifespan=_shared_lifespan(settings, resources),
        cache_hints=_CACHE_HINTS,
    )
    boundary = RequestStateBoundary(_security(settings, sealed), default_audience=name)
    server.middleware += [_modern_rounds_only, Rounds(name), boundary]
    for extension in extensions:
        add_extension(server, extension)
    return server


def build_high_tier(name: str, tool: Callable[..., Awaitable[Any]]) -> MCPServer[weather.Desk]:
    """The weather server on the SDK's high tier, around one option's tool.

    Argument check, outcomes and the texts of errors are the SDK's own here, but for an exception of the
    tool's: it ends in an error as it does for every other option. The state is sealed, as it is by
    default on that tier.

    Args:
        name: As for `build_server`.
        tool: The function to be registered as the weather tool.

    Raises:
        ValueError: The settings ask for wrappers; the high tier has no handler to put them around.
    """
    settings = settings_in_force()
    if settings.wrappers:
        raise ValueError("wrappers go around a lowlevel handler, and the high tier has none")
    made = Tool.from_function(tool, TOOL, description=_WEATHER_TOOL.description, structured_output=False)
    made.parameters = without_names(made.parameters)
    made.fn = _ending_in_an_error(tool)
    with _logging_as_it_is():
        server = MCPServer(
            name,
            version="1",
            tools=[made],
            lifespan=_shared_lifespan(settings, ()),
            request_state_security=_security(settings, sealed=True),
            cache_hints=_CACHE_HINTS,
        )
    # Around the boundary, which is the last.
    server.middleware[-1:-1] = [_modern_rounds_only, Rounds(name)]
    return server


def _ending_in_an_error(tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The tool, whose exceptions are errors with a code and not results: as on the lowlevel tier."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await tool(*args, **kwargs)
        except (ToolError, MCPError):
            raise
        except Exception as error:
            _logger.exception("the tool raised")
            if isinstance(error, weather.LedgerUnusable):
                raise _without_ledger() from None
            raise MCPError(types.INTERNAL_ERROR, "Internal server error") from error

    return call


@contextmanager
def _logging_as_it_is() -> Generator[None]:
    """Take back what is done to the root logger inside this block.

    `MCPServer` sends all logs of the process to standard error. That is the host's to decide: one that
    also serves other options would see their engine's warnings there.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


async def _modern_rounds_only(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Server middleware: refuses a request of an older protocol version that carries a modern round."""
    params = ctx.params or {}
    is_round = any(params.get(name) is not None for name in ("inputResponses", "requestState"))
    if is_round and not is_modern(ctx):
        raise MCPError(
            types.INVALID_PARAMS,
            "requestState and inputResponses need protocol version 2026-07-28 or later;"
            f" this request is of {ctx.protocol_version}.",
            {"reason": "not_of_this_version"},
        )
    return await call_next(ctx)


_CACHE_HINTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": CacheHint(ttl_ms=3_600_000, scope="public")
}


def _security(settings: Settings, sealed: bool) -> RequestStateSecurity:
    codec = make_codec(settings.keys or [new_key()], sealed=sealed)
    if settings.instance is not None:
        codec = InstanceCodec(codec, settings.instance)
    codec = NamingCodec(codec)
    return RequestStateSecurity(
        codec=codec if settings.clock is None else ClockedCodec(codec, settings.clock),
        ttl=settings.ttl_seconds,
        bind_principal=settings.principal,
    )


class HasArguments(Protocol):
    """A request's parameters, or what an option puts in their place."""

    @property
    def arguments(self) -> dict[str, Any] | None: ...


def location_of(params: HasArguments) -> str:
    """The tool's one argument."""
    return (params.arguments or {})["location"]


def text(content: str, *, is_error: bool = False) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=content)], is_error=is_error)


def without_names(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's input schema without what the names and docstrings of Python code put into it."""
    properties = {
        name: {word: said for word, said in each.items() if word != "title"}
        for name, each in schema["properties"].items()
    }
    kept = {word: said for word, said in schema.items() if word not in ("title", "description")}
    return {**kept, "properties": properties}


_WEATHER_TOOL = types.Tool(
    name=TOOL,
    description="Today's weather in a place. Asks which place is meant, and in which units to report.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **without_names(weather.WeatherArguments.model_json_schema()),
    },
)


def fitting(params: Params, tool: str, model: type[ArgumentsT]) -> ArgumentsT:
    """The arguments of a call, if it is one of this server's one tool and they fit.

    Raises:
        MCPError: -32602, naming what does not fit.
    """
    if params.name != tool:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
    try:
        return model.model_validate(params.arguments or {})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MCPError(
            types.INVALID_PARAMS, f"The arguments do not fit {tool!r}: {where}: {first['msg']}."
        ) from None


def outcome_of(error: Exception) -> types.CallToolResult | None:
    """What an outcome that a handler may raise looks like on the wire; None if it is not one."""
    match error:
        case Declined():
            return text(weather.declined(error.key))
        case Cancelled():
            return text(weather.cancelled(error.key))
        case CannotAsk() | weather.UnknownPlace():
            return text(str(error), is_error=True)
        case _:
            return None


def _with_outcomes(handler: Handler) -> Handler:
    """Turn the outcomes that a handler may raise into results."""

    async def call(ctx: Context, params: Params) -> Result:
        try:
            return await handler(ctx, params)
        except Exception as error:
            if (result := outcome_of(error)) is not None:
                return result
            if isinstance(error, weather.LedgerUnusable):
                _logger.error("a call was ended: %s", error)
                raise _without_ledger() from None
            raise

    return call


def _without_ledger() -> MCPError:
    return MCPError(
        types.INTERNAL_ERROR,
        "This server cannot do effects now, so the call ends here. Its earlier effects have happened.",
        {"reason": "ledger_unusable"},
    )


_CAPABILITIES: dict[str, dict[str, Any]] = {
    "form": {"elicitation": {}},
    "url": {"elicitation": {"url": {}}},
    "sampling": {"sampling": {}},
    "roots": {"roots": {}},
}


def _check_declared(ctx: Context, result: Result) -> None:
    """Refuse to send a question of a kind the client did not declare, whatever the handler did.

    Raises:
        MCPError: -32021, naming the capability (MCP 2026-07-28, missing client capability).
    """
    if not isinstance(result, types.InputRequiredResult) or not is_modern(ctx):
        return
    asked = {kind_of_request(request) for request in (result.input_requests or {}).values()}
    for kind in sorted(asked - kinds(ctx)):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"This tool asks a question of the kind {kind!r}, which the client does not declare.",
            {"requiredCapabilities": _CAPABILITIES[kind]},
        )


def _shared_lifespan(
    settings: Settings, resources: Sequence[Resource]
) -> Callable[[object], AbstractAsyncContextManager[weather.Desk]]:
    """One lifespan for all connections of a server.

    The SDK enters a server's lifespan once per in-memory connection and once per HTTP app. What is
    held here belongs to the instance, so the first one in opens it and the last one out closes it. One
    that comes in while it is opened or closed waits until that is done.
    """
    desk = weather.Desk(settings.ledger)
    codec = make_record_codec(settings.keys or [new_key()])
    connections = 0  # with those that wait for the resources to be opened or closed
    serving = 0
    turn = anyio.Lock()
    held = AsyncExitStack()

    async def enter() -> None:
        nonlocal serving, held
        async with turn:
            if serving == 0:
                async with AsyncExitStack() as opened:  # closes what was opened before one that fails
                    for resource in resources:
                        if callable(resource):
                            resource = resource(
                                desk,
                                database=settings.database,
                                principal=settings.principal,
                                clock=settings.clock,
                                codec=codec,
                            )
                        await opened.enter_async_context(resource)
                    held = opened.pop_all()
            serving += 1

    async def leave() -> None:
        nonlocal serving
        with anyio.CancelScope(shield=True):
            async with turn:
                serving -= 1
                if serving == 0:
                    await held.aclose()

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[weather.Desk]:
        nonlocal connections, turn
        if connections == 0:
            turn = anyio.Lock()  # of this event loop
        connections += 1
        try:
            await enter()
            try:
                yield desk
            finally:
                await leave()
        finally:
            connections -= 1

    return lifespan
