"""The server that all options share, as option E has it, and the tools that the suite looks for there.

The suite tests what no option is about (headers, versions, capabilities, schemas, caching) by way of
diagnostic tools, a prompt and a resource with names of its own. They are put beside the weather tool,
and in front of it: the suite calls the first tool of the list without arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

from mrtr_options.conformance import fixtures as the
from mrtr_options.sdk.questions import ask
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger

Context = ServerRequestContext[Any, Any]
URI = "weather://about"

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
ROUTED: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
"""A tool's argument that travels in a header as well."""
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Every keyword that a server might lose on the way."""

TOOLS = {
    "test_simple": NOTHING,
    "test_missing_capability": NOTHING,
    "test_streaming_elicitation": NOTHING,
    "test_logging_tool": NOTHING,
    "test_routed": ROUTED,
    "json_schema_2020_12_tool": SCHEMA,
}


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> the.ToolResult:
    """A diagnostic tool.

    Raises:
        MCPError: -32021, the client has not declared what the tool needs.
    """
    match params.name:
        case "test_missing_capability":
            declared = ctx.session.client_capabilities
            if declared is None or declared.sampling is None:
                needed = types.ClientCapabilities(sampling=types.SamplingCapability())
                raise MCPError(
                    types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                    "This tool needs the client's model.",
                    types.MissingRequiredClientCapabilityErrorData(
                        required_capabilities=needed
                    ).model_dump(by_alias=True, mode="json", exclude_none=True),
                )
        case "test_streaming_elicitation":
            return ask(the.NAME)
        case _:
            pass
    return the.text("Done.")


async def list_prompts(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    """No prompt: the suite looks at the list only."""
    return types.ListPromptsResult(prompts=[])


async def list_resources(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """The one resource."""
    return types.ListResourcesResult(resources=[types.Resource(uri=URI, name="about")])


async def list_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """No template: the suite looks at the list only."""
    return types.ListResourceTemplatesResult(resource_templates=[])


async def read_resource(
    ctx: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """The one resource."""
    text = types.TextResourceContents(uri=params.uri, text="Today's weather, by place.")
    return types.ReadResourceResult(contents=[text])


def server() -> Server[Any]:
    """A fresh instance of option E's server, with the diagnostic tools."""
    server = load(option_named("E").path, Settings(MemoryLedger()))
    assert isinstance(server, Server)
    own_list = _handler(server, "tools/list")
    own_call = _handler(server, "tools/call")

    async def list_all(ctx: Context, params: Any) -> types.ListToolsResult:
        listed: types.ListToolsResult = await own_list(ctx, params)
        added = [types.Tool(name=name, input_schema=schema) for name, schema in TOOLS.items()]
        return listed.model_copy(update={"tools": [*added, *listed.tools]})

    async def call_any(ctx: Context, params: types.CallToolRequestParams) -> the.ToolResult:
        return await (call_tool if params.name in TOOLS else own_call)(ctx, params)

    page = types.PaginatedRequestParams
    server.add_request_handler("tools/list", page, list_all)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_any)
    server.add_request_handler("prompts/list", page, list_prompts)
    server.add_request_handler("resources/list", page, list_resources)
    server.add_request_handler("resources/templates/list", page, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    return server


def _handler(server: Server[Any], method: str) -> Callable[[Context, Any], Awaitable[Any]]:
    entry = server.get_request_handler(method)
    assert entry is not None
    return entry.handler
