"""The fixtures in the style of option F: E's rounds, and a marker for an effect above the questions.

The suite sees no effects, so the effect here does nothing; its marker travels in every state.
"""

from __future__ import annotations

from mcp.server import Server
from mcp_types import InputRequiredResult

from mrtr_options.conformance import fixtures as the
from mrtr_options.conformance.fixtures import (
    Context,
    Name,
    PromptParams,
    PromptResult,
    ToolParams,
    ToolResult,
)
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.questions import answer_to, ask, load_state, request_for


class State(Markers):
    """What a later round needs, and the markers of the effects that have run."""

    step1: Name | None = None


async def effect() -> None:
    """What stands above the questions."""


async def call_elicitation(ctx: Context, params: ToolParams) -> ToolResult:
    """One form."""
    state = load_state(params, State)
    await state.once("effect", effect)
    name = answer_to(the.NAME, ctx, params)
    return ask(the.NAME, state) if name is None else the.hello(name)


async def call_sampling(ctx: Context, params: ToolParams) -> ToolResult:
    """One message from the client's model."""
    state = load_state(params, State)
    await state.once("effect", effect)
    message = answer_to(the.CAPITAL, ctx, params)
    return ask(the.CAPITAL, state) if message is None else the.capital(message)


async def call_list_roots(ctx: Context, params: ToolParams) -> ToolResult:
    """The client's folders."""
    state = load_state(params, State)
    await state.once("effect", effect)
    listed = answer_to(the.ROOTS, ctx, params)
    return ask(the.ROOTS, state) if listed is None else the.folders(listed)


async def call_confirm(ctx: Context, params: ToolParams) -> ToolResult:
    """One form, whose answer is good for nothing without the state."""
    state = load_state(params, State)
    confirmation = answer_to(the.CONFIRM, ctx, params)
    if confirmation is None or "effect" not in state.done:
        await state.once("effect", effect)
        return ask(the.CONFIRM, state)
    return the.confirmed(confirmation)


async def call_multiple_inputs(ctx: Context, params: ToolParams) -> ToolResult:
    """A form, a message and the folders in one round."""
    state = load_state(params, State)
    await state.once("effect", effect)
    name = answer_to(the.NAME, ctx, params)
    greeting = answer_to(the.GREETING, ctx, params)
    listed = answer_to(the.ROOTS, ctx, params)
    if name is None or greeting is None or listed is None:
        questions = (the.NAME, the.GREETING, the.ROOTS)
        return InputRequiredResult(
            input_requests={question.key: request_for(question) for question in questions},
            request_state=state.model_dump_json(),
        )
    return the.welcome(name, greeting, listed)


async def call_multi_round(ctx: Context, params: ToolParams) -> ToolResult:
    """One form after another."""
    state = load_state(params, State)
    await state.once("effect", effect)
    name = state.step1 or answer_to(the.STEP1, ctx, params)
    if name is None:
        return ask(the.STEP1, state)
    colour = answer_to(the.STEP2, ctx, params)
    if colour is None:
        state.step1 = name
        return ask(the.STEP2, state)
    return the.likes(name, colour)


async def call_capabilities(ctx: Context, params: ToolParams) -> ToolResult:
    """A form if the client takes forms, and a message."""
    state = load_state(params, State)
    await state.once("effect", effect)
    name = answer_to(the.ANY_NAME, ctx, params)
    greeting = answer_to(the.GREETING, ctx, params)
    unanswered = [(the.ANY_NAME, name), (the.GREETING, greeting)]
    if name is None or greeting is None:
        return InputRequiredResult(
            input_requests={
                question.key: request_for(question) for question, answer in unanswered if answer is None
            },
            request_state=state.model_dump_json(),
        )
    return the.greeted(name, greeting)


async def get_prompt(ctx: Context, params: PromptParams) -> PromptResult:
    """A prompt that asks."""
    state = load_state(params, State)
    await state.once("effect", effect)
    topic = answer_to(the.TOPIC, ctx, params)
    return ask(the.TOPIC, state) if topic is None else the.prompt(topic)


def server() -> Server[None]:
    """A fresh server."""
    return the.fixture_server(
        "f",
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
