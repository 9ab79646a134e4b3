"""The questions of the suite's fixtures, as data for every style; and the server for the fixtures.

The suite fixes the names of the tools and of the prompt, the keys of the questions and their forms.
Knows the SDK, the questions that can be asked and how a text is sent; no stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.extension import Extension
from pydantic import BaseModel, create_model

from mrtr_options.sdk.questions import Inquiry, roots, sampling
from mrtr_options.sdk.server import Tool, build_server, text
from mrtr_options.sdk.settings import Resource
from mrtr_options.tool.weather import Question

PREFIX = "test_input_required_result_"
PROMPT = PREFIX + "prompt"

Context = ServerRequestContext[None, Any]
ToolParams = types.CallToolRequestParams
Asked = Question[Any] | Inquiry[Any]


def form(field: str, of: type = str) -> type[BaseModel]:
    """Return the form of an answer with one field."""
    fields: dict[str, Any] = {field: (of, ...)}
    return create_model(field.title(), **fields)


def _message(said: str) -> types.CreateMessageRequestParams:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=said))
    return types.CreateMessageRequestParams(messages=[message], max_tokens=100)


UNASKED = "This client cannot be asked."

_NAME = form("name")
NAME = Question("user_name", "What is your name?", _NAME, unasked=UNASKED)
ANY_NAME = Question("user_name", "What is your name?", _NAME, assumed=_NAME(name="stranger"))
CONFIRM = Question("confirm", "Please confirm", form("ok", bool), unasked=UNASKED)
STEP1 = Question("step1", "Step 1: What is your name?", _NAME, unasked=UNASKED)
STEP2 = Question("step2", "Step 2: Which colour?", form("color"), unasked=UNASKED)
TOPIC = Question("user_context", "Which context?", form("context"), unasked=UNASKED)
CAPITAL = sampling("capital_question", _message("What is the capital of France?"), unasked=UNASKED)
GREETING = sampling("greeting", _message("Generate a greeting"), unasked=UNASKED)
ROOTS = roots("client_roots", unasked=UNASKED)


@dataclass(frozen=True)
class Fixture:
    """A tool or a prompt of the suite.

    Attributes:
        name: Its name after `PREFIX`.
        rounds: Its questions, round by round.
        needs_state: Whether an answer counts only together with the state.
    """

    name: str
    rounds: tuple[tuple[Asked, ...], ...]
    needs_state: bool = False

    @property
    def questions(self) -> list[Asked]:
        """All of its questions, in order."""
        return [question for questions in self.rounds for question in questions]

    def result(self, answers: Sequence[BaseModel]) -> Any:
        """Return the answers to `questions` as JSON, after "state-ok", as the suite expects."""
        said = " ".join(
            ["state-ok", *(each.model_dump_json(exclude_none=True) for each in answers)]
        )
        if PREFIX + self.name != PROMPT:
            return text(said)
        message = types.PromptMessage(role="user", content=types.TextContent(text=said))
        return types.GetPromptResult(messages=[message])


FIXTURES = (
    Fixture("elicitation", ((NAME,),)),
    Fixture("sampling", ((CAPITAL,),)),
    Fixture("list_roots", ((ROOTS,),)),
    Fixture("request_state", ((CONFIRM,),), needs_state=True),
    Fixture("multiple_inputs", ((NAME, GREETING, ROOTS),)),
    Fixture("multi_round", ((STEP1,), (STEP2,))),
    Fixture("tampered_state", ((CONFIRM,),), needs_state=True),
    Fixture("capabilities", ((ANY_NAME, GREETING),)),
    Fixture("prompt", ((TOPIC,),)),
)


def every(make: Callable[[Fixture], Any]) -> dict[str, Any]:
    """Return the handlers of all fixtures by name, made in one style."""
    return {PREFIX + fixture.name: make(fixture) for fixture in FIXTURES}


class AnyArguments(BaseModel):
    """The arguments of each tool, which the suite leaves open."""


def server_of(
    style: str,
    handlers: Mapping[str, Any],
    *,
    sealed: bool = False,
    resources: Sequence[Resource] = (),
    extensions: Sequence[Extension] = (),
) -> Server[None]:
    """Build a new server.

    Args:
        style: The style's name.
        handlers: The tools by name, and `PROMPT`, if there is one.
        sealed: As for an option's server.
        resources: The same.
        extensions: The same.
    """
    server = build_server(
        f"conformance-{style}",
        *(Tool(name, "", AnyArguments, each) for name, each in handlers.items() if name != PROMPT),
        sealed=sealed,
        resources=resources,
        extensions=extensions,
    )

    async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT)])

    if PROMPT in handlers:
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, handlers[PROMPT])
    return server
