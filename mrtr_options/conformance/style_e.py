"""The fixtures in the style of option E: rounds by hand, guard first."""

from __future__ import annotations

from mcp.server import Server
from mcp_types import InputRequiredResult
from pydantic import BaseModel

from mrtr_options.conformance import fixtures as the
from mrtr_options.conformance.fixtures import (
    Context,
    Name,
    PromptParams,
    PromptResult,
    ToolParams,
    ToolResult,
)
from mrtr_options.sdk.questions import answer_to, ask, load_state, request_for


class State(BaseModel):
    """What a later round needs."""

    asked: bool = False
    step1: Name | None = None


async def call_elicitation(ctx: Context, params: ToolParams) -> ToolResult:
    """One form."""
    name = answer_to(the.NAME, ctx, params)
    return ask(the.NAME) if name is None else the.hello(name)


async def call_sampling(ctx: Context, params: ToolParams) -> ToolResult:
    """One message from the client's model."""
    message = answer_to(the.CAPITAL, ctx, params)
    return ask(the.CAPITAL) if message is None else the.capital(message)


async def call_list_roots(ctx: Context, params: ToolParams) -> ToolResult:
    """The client's folders."""
    listed = answer_to(the.ROOTS, ctx, params)
    return ask(the.ROOTS) if listed is None else the.folders(listed)


async def call_confirm(ctx: Context, params: ToolParams) -> ToolResult:
    """One form, whose answer is good for nothing without the state."""
    confirmation = answer_to(the.CONFIRM, ctx, params)
    if confirmation is None or not load_state(params, State).asked:
        return ask(the.CONFIRM, State(asked=True))
    return the.confirmed(confirmation)


async def call_multiple_inputs(ctx: Context, params: ToolParams) -> ToolResult:
    """A form, a message and the folders in one round."""
    name = answer_to(the.NAME, ctx, params)
    greeting = answer_to(the.GREETING, ctx, params)
    listed = answer_to(the.ROOTS, ctx, params)
    if name is None or greeting is None or listed is None:
        questions = (the.NAME, the.GREETING, the.ROOTS)
        return InputRequiredResult(
            input_requests={question.key: request_for(question) for question in questions},
            request_state=State(asked=True).model_dump_json(),
        )
    return the.welcome(name, greeting, listed)


async def call_multi_round(ctx: Context, params: ToolParams) -> ToolResult:
    """One form after another."""
    state = load_state(params, State)
    name = state.step1 or answer_to(the.STEP1, ctx, params)
    if name is None:
        return ask(the.STEP1, State(asked=True))
    colour = answer_to(the.STEP2, ctx, params)
    if colour is None:
        return ask(the.STEP2, State(step1=name))
    return the.likes(name, colour)


async def call_capabilities(ctx: Context, params: ToolParams) -> ToolResult:
    """A form if the client takes forms, and a message."""
    name = answer_to(the.ANY_NAME, ctx, params)
    greeting = answer_to(the.GREETING, ctx, params)
    unanswered = [(the.ANY_NAME, name), (the.GREETING, greeting)]
    if name is None or greeting is None:
        return InputRequiredResult(
            input_requests={
                question.key: request_for(question) for question, answer in unanswered if answer is None
            }
        )
    return the.greeted(name, greeting)


async def get_prompt(ctx: Context, params: PromptParams) -> PromptResult:
    """A prompt that asks."""
    topic = answer_to(the.TOPIC, ctx, params)
    return ask(the.TOPIC) if topic is None else the.prompt(topic)


def server() -> Server[None]:
    """A fresh server."""
    return the.fixture_server(
        "e",
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
