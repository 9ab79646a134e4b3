"""Serving tools that take several rounds: any name, schema, handler and wrappers.

    class Booking(BaseModel):
        party: int

    guard = single_use(store)
    tool = Tool("book_table", "Books a table.", Booking, call_book_table, wrappers=[guard])
    server = build_server("restaurant", tool)

The state is sealed and checked on every server that is built here. Arguments are held against the
schema, a declined or cancelled question ends in a text, a question that the client did not declare
is not sent, and each round is logged. What cannot work is refused when the server is built.

Knows the SDK's lowlevel server and the modules that all stand-ins share; no option's own machinery.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, cast

import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context as HighTierContext
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from pydantic import BaseModel, Field, SkipValidation
from typing_extensions import TypeVar

from mrtr_options.checks import check_functions
from mrtr_options.sdk.capabilities import check_declared
from mrtr_options.sdk.current_request import check_arguments, keep_arguments, protected
from mrtr_options.sdk.effects import ENDINGS, in_doubt, keeping_effects, meant_by, with_effects
from mrtr_options.sdk.effects import outcome_of as outcome_of
from mrtr_options.sdk.effects import text as text
from mrtr_options.sdk.handler import (
    NAMES_CALLS,
    TELLS_EFFECTS,
    TIMES,
    AnyServer,
    Context,
    Crashed,
    Handler,
    Params,
    Result,
    check_handler,
    check_result,
    check_server,
    failure_of,
    needed_by,
)
from mrtr_options.sdk.handler import arguments_of as arguments_of
from mrtr_options.sdk.protection import AgingCodec, ProtectedRounds, make_codec, new_key
from mrtr_options.sdk.questions import keeps
from mrtr_options.sdk.settings import Resource, Settings, settings_or_environment, shared_lifespan
from mrtr_options.sdk.writing import argument_name, say_name
from mrtr_options.sdk.writing import without_names as without_names

_logger = logging.getLogger(__name__)

LifespanT = TypeVar("LifespanT", default=None)

CACHE_HINTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": CacheHint(ttl_ms=3_600_000, scope="public")
}


# --- tools --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """A tool that may ask its user.

    Attributes:
        name: What it is called by.
        description: What it does, for the model that chooses tools.
        arguments: The model of its arguments; the input schema is made from it.
        handler: Answers `tools/call`; may raise `Declined`, `Cancelled`, `CannotAsk` and
            `BadAnswer`.
        wrappers: Put around the handler, the last one outermost. They see results as they go on the
            wire: a declined question is a text by then.
        outcome_of: Makes the result of an exception of the handler; None for one that stays an
            error.
        annotations: Hints for clients: whether it only reads, may be repeated, ... A tool without
            hints is presumed to destroy.
        output_schema: The model of what its results have as `structured_content`; None for none.
        listed: The tool as `tools/list` has it.

    Raises:
        NotAHandler: The handler, or what a wrapper makes of it, is not `async def (ctx, params)`.
        TypeError: The arguments are not a model, the wrappers are not a list of wrappers,
            `outcome_of` is not a function, or the annotations are none.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    handler: Handler
    wrappers: Sequence[Callable[[Handler], Handler]] = ()
    outcome_of: Callable[[Exception], types.CallToolResult | None] = outcome_of
    annotations: types.ToolAnnotations | None = None
    output_schema: type[BaseModel] | None = None

    def __post_init__(self) -> None:
        user = f"Tool({self.name!r})"
        is_model = inspect.isclass(self.arguments) and hasattr(self.arguments, "model_json_schema")
        if not is_model or "properties" not in _schema_of(self.arguments):
            raise TypeError(
                f"{user} takes a pydantic model with a field for each argument,"
                f" not {self.arguments!r}"
            )
        check_handler(self.handler, user)
        if callable(self.wrappers) or not all(map(callable, self.wrappers)):
            raise TypeError(f"{user} takes a list of wrappers, as in wrappers=[single_use(store)]")
        check_handler(self._wrapped, f"a wrapper of {user}")
        check_functions(user, outcome_of=self.outcome_of)
        if not isinstance(cast("object", self.annotations), types.ToolAnnotations | None):
            raise TypeError(f"{user} takes annotations=mcp_types.ToolAnnotations(...)")

    @cached_property
    def listed(self) -> types.Tool:
        """Describe the tool for `tools/list`."""
        schema = without_names(_schema_of(self.arguments), self.named_by)
        output = self.output_schema
        return types.Tool(
            name=self.name,
            description=self.description,
            input_schema={"$schema": "https://json-schema.org/draft/2020-12/schema", **schema},
            annotations=self.annotations,
            output_schema=output and output.model_json_schema(mode="serialization"),
        )

    async def call(self, ctx: Context, params: Params) -> Result:
        """Answer a round.

        Raises:
            MCPError: -32602, the arguments do not fit; -32021, the client did not declare a
                question's kind; and what the handler raises.
        """
        keep_arguments(self.arguments, params)
        result = await self._wrapped(ctx, params)
        # Outermost: a wrapper may repeat a question that was made for a client that declared more.
        check_declared(ctx, result)
        return result

    @property
    def named_by(self) -> str | None:
        """The argument that names its calls; None where none does."""
        call = getattr(getattr(self._wrapped, NAMES_CALLS, None), "call", None)
        return call if isinstance(call, str) else None

    def check_calls(self, *, knows_callers: bool, ttl_seconds: float) -> None:
        """Check that the names and times of its calls suit its server.

        Raises:
            ValueError: See `call_key.check_naming`. Or a call is known for less time than a state
                is good: a question would be open that nobody can answer, or a call would begin
                again while its question is open.
        """
        if hasattr(self._wrapped, NAMES_CALLS):
            from mrtr_options.sdk.call_key import check_naming  # most servers need none of it

            names = [argument_name(*each) for each in self.arguments.model_fields.items()]
            check_naming(self.name, self._wrapped, names, knows_callers=knows_callers)
        times: dict[str, float] = getattr(self._wrapped, TIMES, {})
        for name, seconds in times.items():
            if seconds < ttl_seconds:
                raise ValueError(
                    f"the tool {self.name!r}: {name}={seconds:g} is shorter than the"
                    f" {ttl_seconds:g} s for which a state is good; make it longer, or give"
                    " Settings a shorter ttl_seconds"
                )

    @cached_property
    def _wrapped(self) -> Handler:
        wrapped: Handler = partial(self._with_outcomes)
        for mark in (TELLS_EFFECTS, TIMES, NAMES_CALLS):
            if hasattr(self.handler, mark):
                vars(wrapped)[mark] = getattr(self.handler, mark)
        for wrapper in self.wrappers:
            wrapped = wrapper(wrapped)
        return wrapped

    async def _with_outcomes(self, ctx: Context, params: Params) -> Result:
        with keeping_effects() as effects:
            try:
                if not hasattr(self.handler, NAMES_CALLS):  # nor is the call known by its name
                    check_arguments(effects.names)
                result = check_result(await self.handler(ctx, params))
                if isinstance(result, types.CallToolResult):
                    self._check_output(result)
                return result
            except BaseException as raised:
                failure = failure_of(raised)
                error = meant_by(failure)
                result = self._result_of(error)
                if result is not None and isinstance(error, ENDINGS):
                    effects.ending = error
                    return with_effects(result, effects)
                if result is not None:
                    return result
                if isinstance(error, MCPError) or not effects.is_in_doubt:
                    raise error from failure.__cause__
                _logger.exception("the tool %r raised after an effect", self.name)
                raise in_doubt(effects.names) from error

    def _result_of(self, error: Exception) -> types.CallToolResult | None:
        """Make the result of an exception: an error if it lacks what the output schema promises."""
        # An author's own `outcome_of` may know nothing of the endings.
        result = self.outcome_of(error) or outcome_of(error)
        if result is None or self.output_schema is None or result.structured_content is not None:
            return result
        return result.model_copy(update={"is_error": True})

    def _check_output(self, result: types.CallToolResult) -> None:
        """Raise a ValidationError for a result that does not keep the output schema."""
        if self.output_schema is None or result.is_error:
            return
        if not keeps(self.listed.output_schema, result.structured_content):
            self.output_schema.model_validate(result.structured_content)

    def add_to(self, server: AnyServer) -> None:
        """Add the tool to a server of your own, of either tier.

        Protect the server first: `protect` gives it the keys of your settings, and says who calls.
        A handler of H or L needs its store open: enter that in the server's lifespan.

        Raises:
            TypeError: The server is neither an `MCPServer` nor a lowlevel `Server`.
            ValueError: The handler needs a store, and the server has no lifespan; or it is one of
                K; or its calls are named for callers that the server does not know, or known for
                less time than a state.
        """
        check_server(server)
        boundaries = [each for each in server.middleware if isinstance(each, ProtectedRounds)]
        said = [each.settings for each in boundaries if isinstance(each.settings, Settings)]
        knows_callers = any(each.knows_callers for each in said)
        if isinstance(server, MCPServer):
            knows_callers = knows_callers or server.settings.auth is not None
        ttl_seconds = max((each.ttl_seconds for each in boundaries), default=0)
        self.check_calls(knows_callers=knows_callers, ttl_seconds=ttl_seconds)
        if not isinstance(server, MCPServer):
            return _add_to_lowlevel(self, server)
        needed = needed_by(self.handler)
        if isinstance(_store_of(needed), Extension):
            raise ValueError(
                f"an MCPServer makes a text of the task of {self.name!r}: serve it by"
                " build_server(...), or write DurableStore().linear(...)"
            )
        if needed is not None and server.settings.lifespan is None:
            raise ValueError(
                f"the handler of {self.name!r} needs its store open: MCPServer(..., lifespan=...),"
                " and in it `async with store`, or `async with store.serving(context)`"
            )
        return _add_to_high_tier(self, server)


@lru_cache(maxsize=64)
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Make a model's JSON schema, which takes longer than the rest of a server."""
    return model.model_json_schema()


def _store_of(needed: object) -> object:
    """Return the store whose `serving` a handler needs, or which it needs itself."""
    return getattr(needed, "__self__", needed)


def _add_to_high_tier(tool: Tool, server: MCPServer[Any]) -> None:
    """Add a tool to a server whose tools are functions with a parameter for each argument."""
    name_of_context = "ctx"
    while name_of_context in tool.arguments.model_fields:
        name_of_context += "_"

    async def call(**given: Any) -> Result:
        ctx: HighTierContext[Any] = given[name_of_context]
        request = ctx.request_context
        params = Params(
            name=tool.name,
            arguments=(request.params or {}).get("arguments"),
            input_responses=ctx.input_responses,
            request_state=ctx.request_state,
            _meta=request.meta,
        )
        try:
            with protected(server.name):
                return await tool.call(request, params)
        except (MCPError, ToolError):
            raise
        except Exception as error:
            # The SDK would make it a result, and a model takes that for something to work around.
            _logger.exception("the tool %r raised", tool.name)
            raise Crashed from error

    parameters = _parameters_of(tool, name_of_context)
    cast("Any", call).__signature__ = inspect.Signature(parameters)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    server.add_tool(
        call,
        tool.name,
        description=tool.description,
        annotations=tool.annotations,
        structured_output=False,  # the SDK would list, and check, what the model reads
    )
    made = cast("Any", server)._tool_manager.get_tool(tool.name)
    if made.fn is call:  # and no other tool has the name
        made.fn_metadata.output_schema = tool.listed.output_schema


def _parameters_of(tool: Tool, name_of_context: str) -> list[inspect.Parameter]:
    """Return a parameter for the SDK's context, and one for each argument.

    `Tool.call` checks the arguments: those of a call that is known may be of an older version.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name_of_context, kind, annotation=HighTierContext[Any])]
    for name, field in tool.arguments.model_fields.items():
        annotation: Any = Annotated[field.annotation, field]
        if argument_name(name, field) == tool.named_by:
            annotation = Annotated[annotation, Field(description=say_name(field.description))]
        annotation = Annotated[annotation, SkipValidation]
        parameters.append(inspect.Parameter(name, kind, annotation=annotation))
    return parameters


def _add_to_lowlevel(tool: Tool, server: Server[Any]) -> None:
    """Add a tool beside those that a lowlevel server lists and calls by itself."""
    others_listed = server.get_request_handler("tools/list")
    others_called = server.get_request_handler("tools/call")

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams) -> Any:
        if others_listed is None:
            return types.ListToolsResult(tools=[tool.listed])
        listed: Any = await others_listed.handler(ctx, params)
        if listed.next_cursor is not None:  # this tool is on the last page
            return listed
        return listed.model_copy(update={"tools": [*listed.tools, tool.listed]})

    async def call_tool(ctx: Context, params: Params) -> Any:
        if params.name == tool.name:
            return await tool.call(ctx, params)
        if others_called is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
        return await others_called.handler(ctx, params)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", Params, call_tool)


# --- servers ------------------------------------------------------------------------------------

_NO_CONTEXT: Any = None


def build_server(  # noqa: PLR0913 - each is a choice of its own, given by name
    name: str,
    *tools: Tool,
    lifespan_context: LifespanT = _NO_CONTEXT,
    settings: Settings | None = None,
    sealed: bool = True,
    resources: Sequence[Resource] = (),
    extensions: Sequence[Extension] = (),
) -> Server[LifespanT]:
    """Build a server for these tools, with the state of their calls protected.

    Args:
        name: The server's name. States are bound to it: another server refuses them.
        tools: What it serves.
        lifespan_context: What handlers find as `ctx.lifespan_context`: a database, a client, ...
        settings: What this instance is run with; None for what the environment says. Instances that
            share calls need the same keys (`MRTR_STATE_KEYS`).
        sealed: Whether clients must not be able to read the state. False only where it holds
            nothing but what the client said.
        resources: Kept open while the server serves; closed with the last connection. One that is a
            function is given the lifespan context, the settings' database, principal and clock, and
            what seals records under the settings' keys.
        extensions: Extensions of the protocol that the server declares, with their methods.

    Raises:
        TypeError: Something else is given for a tool, a resource, an extension, or the settings.
        ValueError: Two tools have one name; a call is known for less time than a state; a handler
            needs a store that is not among the resources; or calls are named for callers that the
            server does not know.
        SystemExit: The environment cannot be used; one line on standard error says why.
    """
    settings = settings_or_environment(settings)
    _check_given(name, tools, resources, extensions)
    for tool in tools:
        _check_resources(tool, resources, extensions)
        tool.check_calls(knows_callers=settings.knows_callers, ttl_seconds=settings.ttl_seconds)
    lifespan = shared_lifespan(settings, lifespan_context, resources)
    server = Server(name, version="1", lifespan=lifespan, cache_hints=CACHE_HINTS)
    for tool in tools:
        _add_to_lowlevel(tool, server)
    protect(server, settings, sealed=sealed)
    for extension in extensions:
        add_extension(server, extension)
    return server


def _check_given(
    name: object, tools: Sequence[object], resources: object, extensions: object
) -> None:
    """Raise for a name, tools, resources or extensions of which no server can be built."""
    names = [each.name for each in tools if isinstance(each, Tool)]
    if not isinstance(name, str) or len(names) < len(tools):
        raise TypeError(
            'build_server takes a name and tools, as in build_server("name", tool, other)'
        )
    if len(set(names)) < len(names):
        raise ValueError(f"two tools have one name: {', '.join(names)}")
    is_listed = _is_list_of(lambda each: isinstance(each, Extension), extensions)
    if not is_listed or not _is_list_of(_is_resource, resources):
        raise TypeError(
            "build_server takes lists, as in resources=[store.serving], extensions=[store]"
        )


def add_extension(server: Server[Any], extension: Extension) -> None:
    """Declare an extension of the protocol, and serve its methods.

    It is in `extensions` of the server's capabilities. A lowlevel server cannot do so by itself.
    """
    server.extensions[extension.identifier] = extension.settings()
    for method in extension.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)


def _is_list_of(fits: Callable[[object], bool], given: object) -> bool:
    return isinstance(given, Sequence) and all(map(fits, cast("Sequence[object]", given)))


def _is_resource(given: object) -> bool:
    is_opener = callable(given) and not inspect.isclass(given)
    return isinstance(given, AbstractAsyncContextManager) or is_opener


def _check_resources(
    tool: Tool, resources: Sequence[Resource], extensions: Sequence[Extension]
) -> None:
    """Refuse a handler whose store would not be open, or not be found by clients."""
    needed = needed_by(tool.handler)
    if needed is None:
        return
    store = _store_of(needed)
    if needed not in resources:
        what = "store" if store is needed else "store.serving"
        raise ValueError(
            f"the handler of {tool.name!r} needs its store open:"
            f" build_server(..., resources=[{what}])"
        )
    if isinstance(store, Extension) and store not in extensions:
        raise ValueError(
            f"clients of {tool.name!r} need its store's methods:"
            " build_server(..., extensions=[store])"
        )


def protect(server: AnyServer, settings: Settings | None = None, *, sealed: bool = True) -> None:
    """Have a server of your own seal and check the state of its calls, and log its rounds.

    `build_server` has done so. Add other middleware before it. An `MCPServer` protects states by
    itself, but under a key of its process: with this, instances share the keys of the settings.

    Args:
        server: The server, of either tier. States are bound to its name.
        settings: As for `build_server`.
        sealed: As for `build_server`.

    Raises:
        TypeError: It is neither an `MCPServer` nor a lowlevel `Server`, or the settings are not
            `Settings`.
    """
    check_server(server)
    settings = settings_or_environment(settings)
    keys = settings.keys or [new_key()]
    codec = make_codec(keys, sealed=sealed, instance=settings.instance)
    security = RequestStateSecurity(
        codec=AgingCodec(codec, settings.clock),
        ttl=settings.ttl_seconds,
        bind_principal=settings.principal,
    )
    boundary = ProtectedRounds(
        security,
        server=server.name,
        clock=settings.clock,
        is_ephemeral=not settings.keys,
        settings=settings,
    )
    others = [each for each in server.middleware if not isinstance(each, RequestStateBoundary)]
    server.middleware[:] = [*others, boundary]
