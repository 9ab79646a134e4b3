"""The fixtures in the style of option G: named steps that ask, and an end step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server import Server
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListRootsResult,
)

from mrtr_options.conformance import fixtures as the
from mrtr_options.conformance.fixtures import (
    Colour,
    Confirmation,
    Context,
    Name,
    PromptParams,
    ToolParams,
    Topic,
)
from mrtr_options.sdk.questions import Inquiry
from mrtr_options.sdk.tool_builder import ToolBuilder, Values
from mrtr_options.tool.weather import Question

Asked = Question[Any] | Inquiry[Any]


def asks(question: Asked) -> Callable[[Any, Any, Values], Asked]:
    """A step that asks this, whatever came before."""
    return lambda ctx, params, values: question


def elicitation_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After one form."""
    return the.hello(values.get("name", Name))


def sampling_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After one message from the client's model."""
    return the.capital(values.get("message", CreateMessageResult))


def list_roots_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After the client's folders."""
    return the.folders(values.get("roots", ListRootsResult))


def confirm_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After one form."""
    return the.confirmed(values.get("confirm", Confirmation))


def multiple_inputs_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After a form, a message and the folders."""
    return the.welcome(
        values.get("name", Name),
        values.get("greeting", CreateMessageResult),
        values.get("roots", ListRootsResult),
    )


def multi_round_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After one form and another."""
    return the.likes(values.get("step1", Name), values.get("step2", Colour))


def capabilities_end(ctx: Context, params: ToolParams, values: Values) -> CallToolResult:
    """After a form if the client takes forms, and a message."""
    return the.greeted(values.get("name", Name), values.get("greeting", CreateMessageResult))


def prompt_end(ctx: Context, params: PromptParams, values: Values) -> GetPromptResult:
    """After one form."""
    return the.prompt(values.get("topic", Topic))


Tool = ToolBuilder[None]
Prompt = ToolBuilder[None, GetPromptRequestParams, GetPromptResult]

call_elicitation = Tool().step("name", asks(the.NAME)).end(elicitation_end).build()
call_sampling = Tool().step("message", asks(the.CAPITAL)).end(sampling_end).build()
call_list_roots = Tool().step("roots", asks(the.ROOTS)).end(list_roots_end).build()
call_confirm = Tool().step("confirm", asks(the.CONFIRM)).end(confirm_end).build()
call_multiple_inputs = (
    Tool()
    .together({"name": asks(the.NAME), "greeting": asks(the.GREETING), "roots": asks(the.ROOTS)})
    .end(multiple_inputs_end)
    .build()
)
call_multi_round = (
    Tool().step("step1", asks(the.STEP1)).step("step2", asks(the.STEP2)).end(multi_round_end).build()
)
call_capabilities = (
    Tool()
    .together({"name": asks(the.ANY_NAME), "greeting": asks(the.GREETING)})
    .end(capabilities_end)
    .build()
)
get_prompt = Prompt().step("topic", asks(the.TOPIC)).end(prompt_end).build()


def server() -> Server[None]:
    """A fresh server."""
    return the.fixture_server(
        "g",
        {
            "elicitation": call_elicitation,
            "sampling": call_sampling,
            "list_roots": call_list_roots,
            "request_state": call_confirm,
            "multiple_inputs": call_multiple_inputs,
            "multi_round": call_multi_round,
            "tampered_state": call_confirm,
            "capabilities": call_capabilities,
        },
        get_prompt,
    )
