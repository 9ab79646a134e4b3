"""Not a style: the worst server that the suite has nothing against.

It does not look at the answers, and its state is a number in plain text that anybody can write. The
suite passes it in every scenario. What it does wrong is in `blind`, with the schedule that sees it.
"""

from __future__ import annotations

from typing import Any

from mcp import MCPError
from mcp.server import Server
from mcp_types import INVALID_PARAMS, GetPromptResult, InputRequiredResult

from mrtr_options.conformance import fixtures as the
from mrtr_options.conformance.fixtures import (
    PREFIX,
    Context,
    PromptParams,
    PromptResult,
    ToolParams,
    ToolResult,
)
from mrtr_options.conformance.scenarios import MRTR
from mrtr_options.sdk.questions import Inquiry, kind_of, kinds, request_for
from mrtr_options.tool.weather import Question

SCENARIOS = MRTR

ROUNDS: dict[str, list[list[Question[Any] | Inquiry[Any]]]] = {
    "elicitation": [[the.NAME]],
    "sampling": [[the.CAPITAL]],
    "list_roots": [[the.ROOTS]],
    "request_state": [[the.CONFIRM]],
    "multiple_inputs": [[the.NAME, the.GREETING, the.ROOTS]],
    "multi_round": [[the.STEP1], [the.STEP2]],
    "tampered_state": [[the.CONFIRM]],
    "capabilities": [[the.NAME, the.GREETING]],
    "prompt": [[the.TOPIC]],
}


def asked(ctx: Context, params: ToolParams | PromptParams) -> InputRequiredResult | None:
    """The next questions, if there are any."""
    rounds = ROUNDS[params.name.removeprefix(PREFIX)]
    number = params.request_state or "0"
    if number not in "012":
        raise MCPError(INVALID_PARAMS, "Invalid requestState")
    for index, questions in enumerate(rounds[int(number) :], int(number)):
        if not any(question.key in (params.input_responses or {}) for question in questions):
            wanted = [question for question in questions if kind_of(question) in kinds(ctx)]
            requests = {question.key: request_for(question) for question in wanted}
            return InputRequiredResult(input_requests=requests, request_state=str(index))
    return None


async def call_anything(ctx: Context, params: ToolParams) -> ToolResult:
    """Every tool."""
    return asked(ctx, params) or the.text("Done.")


async def get_prompt(ctx: Context, params: PromptParams) -> PromptResult:
    """The prompt."""
    return asked(ctx, params) or GetPromptResult(messages=[])


def server() -> Server[None]:
    """A fresh server, without the boundary that protects the state."""
    tools = dict.fromkeys(ROUNDS.keys() - {"prompt"}, call_anything)
    server = the.fixture_server("careless", tools, get_prompt)
    server.middleware.pop()
    return server
