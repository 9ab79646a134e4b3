"""The fixtures in the style of option I: the SDK's resolvers, on its high tier."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.resolve import ListRoots, Sample
from mcp_types import CallToolResult, CreateMessageResult, ListRootsResult

from mrtr_options.conformance import fixtures as the
from mrtr_options.conformance.fixtures import PREFIX, Colour, Confirmation, Name
from mrtr_options.sdk.questions import Inquiry, declares_forms
from mrtr_options.tool.weather import Question

CANNOT = {
    "input-required-result-basic-elicitation": (
        "a question's key is the resolver's module and name; the suite asks for `user_name`"
    ),
    "input-required-result-non-tool-request": (
        "resolvers fill a tool's parameters; a prompt that asks is written by hand, as in E"
    ),
}


def elicit(question: Question[Any]) -> Elicit[Any]:
    """A form, as the SDK takes it."""
    return Elicit(question.message, question.answer)


def sample(inquiry: Inquiry[CreateMessageResult]) -> Sample:
    """A message from the client's model, as the SDK takes it."""
    params: Any = inquiry.request.params
    return Sample(params.messages, max_tokens=params.max_tokens)


def ask_name() -> Elicit[Name]:
    """A form."""
    return elicit(the.NAME)


def ask_any_name(ctx: Context) -> Elicit[Name] | Name | None:
    """A form if the client takes forms."""
    return elicit(the.ANY_NAME) if declares_forms(ctx.request_context) else the.ANY_NAME.assumed


def ask_capital() -> Sample:
    """A message from the client's model."""
    return sample(the.CAPITAL)


def ask_greeting() -> Sample:
    """A message from the client's model."""
    return sample(the.GREETING)


def ask_roots() -> ListRoots:
    """The client's folders."""
    return ListRoots()


def ask_confirmation() -> Elicit[Confirmation]:
    """A form."""
    return elicit(the.CONFIRM)


def ask_step1() -> Elicit[Name]:
    """A form."""
    return elicit(the.STEP1)


Step1 = Annotated[Name, Resolve(ask_step1)]


def ask_step2(step1: Step1) -> Elicit[Colour]:
    """A form that comes after another."""
    return elicit(the.STEP2)


async def call_elicitation(name: Annotated[Name, Resolve(ask_name)]) -> CallToolResult:
    """One form."""
    return the.hello(name)


async def call_sampling(
    message: Annotated[CreateMessageResult, Resolve(ask_capital)],
) -> CallToolResult:
    """One message from the client's model."""
    return the.capital(message)


async def call_list_roots(listed: Annotated[ListRootsResult, Resolve(ask_roots)]) -> CallToolResult:
    """The client's folders."""
    return the.folders(listed)


async def call_confirm(
    confirmation: Annotated[Confirmation, Resolve(ask_confirmation)],
) -> CallToolResult:
    """One form."""
    return the.confirmed(confirmation)


async def call_multiple_inputs(
    name: Annotated[Name, Resolve(ask_name)],
    greeting: Annotated[CreateMessageResult, Resolve(ask_greeting)],
    listed: Annotated[ListRootsResult, Resolve(ask_roots)],
) -> CallToolResult:
    """A form, a message and the folders in one round."""
    return the.welcome(name, greeting, listed)


async def call_multi_round(name: Step1, colour: Annotated[Colour, Resolve(ask_step2)]) -> CallToolResult:
    """One form after another."""
    return the.likes(name, colour)


async def call_capabilities(
    name: Annotated[Name, Resolve(ask_any_name)],
    greeting: Annotated[CreateMessageResult, Resolve(ask_greeting)],
) -> CallToolResult:
    """A form if the client takes forms, and a message."""
    return the.greeted(name, greeting)


def server() -> MCPServer[Any]:
    """A fresh server."""
    server = MCPServer[Any]("conformance-i", version="1", log_level="WARNING")
    for name, tool in {
        "elicitation": call_elicitation,
        "sampling": call_sampling,
        "list_roots": call_list_roots,
        "request_state": call_confirm,
        "multiple_inputs": call_multiple_inputs,
        "multi_round": call_multi_round,
        "tampered_state": call_confirm,
        "capabilities": call_capabilities,
    }.items():
        server.add_tool(tool, PREFIX + name, structured_output=False)
    return server
