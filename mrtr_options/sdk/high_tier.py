"""A tool of ours on the SDK's high tier. Knows `handler` and `current_request`."""

from __future__ import annotations

import inspect
import logging
from typing import Annotated, Any, Protocol, cast

import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context as HighTierContext
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

from mrtr_options.sdk.current_request import protected
from mrtr_options.sdk.handler import Context, Crashed, Params, Result

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
    async def call(self, ctx: Context, params: Params) -> Result: ...


def add(tool: Tool, server: MCPServer[Any]) -> None:
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
    cast("Any", call).__signature__ = inspect.Signature(parameters)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    server.add_tool(
        call,
        tool.name,
        description=tool.description,
        annotations=tool.annotations,
        structured_output=False,
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
    return [
        inspect.Parameter(name_of_context, kind, annotation=HighTierContext[Any]),
        *(
            inspect.Parameter(name, kind, annotation=Annotated[field.annotation, field])
            for name, field in tool.arguments.model_fields.items()
        ),
    ]
