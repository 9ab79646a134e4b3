"""A tool of ours on a server of its author's, of either tier of the SDK.

Knows `handler` and `current_request`.
"""

from __future__ import annotations

import inspect
import logging
from functools import cached_property
from typing import Annotated, Any, Protocol, cast

import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context as HighTierContext
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from mrtr_options.sdk.current_request import protected
from mrtr_options.sdk.handler import Context, Crashed, Params, Result
from mrtr_options.sdk.writing import say_name

_logger = logging.getLogger(__name__)


class Tool(Protocol):
    """The part of `server.Tool` that this module uses."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def arguments(self) -> type[BaseModel]: ...
    @property
    def annotations(self) -> types.ToolAnnotations | None: ...
    @property
    def named_by(self) -> str | None: ...
    @property
    def output_schema(self) -> type[BaseModel] | None: ...
    @cached_property
    def listed(self) -> types.Tool: ...
    async def call(self, ctx: Context, params: Params) -> Result: ...


def add_to_high_tier(tool: Tool, server: MCPServer[Any]) -> None:
    """Add a tool to a server whose tools are functions with a parameter for each argument."""
    name_of_context = "ctx"
    while name_of_context in tool.arguments.model_fields:
        name_of_context += "_"

    async def call(**given: Any) -> Result:
        try:
            with protected(server.name):
                return await _called(tool, given[name_of_context])
        except (MCPError, ToolError):
            raise
        except Exception as error:
            # The SDK would make it a result, and a model takes that for something to work around.
            _logger.exception("the tool %r raised", tool.name)
            raise Crashed from error

    parameters = _parameters_of(tool, name_of_context)
    returned: Any = None
    if tool.output_schema is not None:
        returned = Annotated[types.CallToolResult, tool.output_schema]
    cast("Any", call).__signature__ = inspect.Signature(parameters, return_annotation=returned)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    server.add_tool(
        call,
        tool.name,
        description=tool.description,
        annotations=tool.annotations,
        structured_output=tool.output_schema is not None,
    )


async def _called(tool: Tool, ctx: HighTierContext[Any]) -> Result:
    request = ctx.request_context
    params = Params(
        name=tool.name,
        arguments=(request.params or {}).get("arguments"),
        input_responses=ctx.input_responses,
        request_state=ctx.request_state,
        _meta=request.meta,
    )
    return await tool.call(request, params)


def _parameters_of(tool: Tool, name_of_context: str) -> list[inspect.Parameter]:
    """Return a parameter for the SDK's context, and one for each argument."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name_of_context, kind, annotation=HighTierContext[Any])]
    for name, field in tool.arguments.model_fields.items():
        annotation: Any = Annotated[field.annotation, field]
        if (field.alias or name) == tool.named_by:
            annotation = Annotated[annotation, Field(description=say_name(field.description))]
        parameters.append(inspect.Parameter(name, kind, annotation=annotation))
    return parameters


def add_to_lowlevel(tool: Tool, server: Server[Any]) -> None:
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
