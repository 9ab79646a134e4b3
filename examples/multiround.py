"""Read this second: two questions, the second depends on the first, and still no machinery.

Closing a work item asks for a resolution. If it is a duplicate, the tool also asks which item is
the original. The two moves are those of `basic`; what is new is that the client sends only the
*latest* round's answers. By the time the second answer arrives the first one is gone, unless the
handler put it where the client carries it to the next round: into `request_state`.

That is the whole memory of the call. The server keeps none, so any instance can take any round, and
the main below makes two instances take turns. They share one thing: the key that protects the
state.

The state goes through the client's hands, so without protection it would be input like any other.
`RequestStateBoundary` seals it on the way out and refuses on the way in whatever this server did
not seal for this tool and these arguments. The handler only ever sees what some instance of it
wrote.

Knows the `mcp` SDK and `basic`; `printed_rounds` and `expect` for its main. Run it:
`python -m examples.multiround`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, get_args

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from pydantic import BaseModel, ValidationError

from examples.basic import bad_answer, can_ask, text
from examples.expect import expect, start
from examples.printed_rounds import Request, accept, play, state_of, tampered

TOOL = "close_item"
Resolution = Literal["fixed", "duplicate", "wontfix"]
Tracker = dict[int, str]
"""The world outside: the resolution of each closed item. All instances share one tracker."""


class State(BaseModel):
    """The facts that a later round needs, and that the client will not send again."""

    resolution: Resolution


async def call_close_item(
    ctx: ServerRequestContext[Tracker, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Close an item: the tool `close_item(item)`.

    Raises:
        MCPError: -32602, for another tool, or arguments, an answer or a state that do not fit.
    """
    if params.name != TOOL:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r}.")
    item = item_number((params.arguments or {}).get("item"))
    if item is None:
        raise MCPError(
            types.INVALID_PARAMS, f"The arguments do not fit {TOOL!r}: item: not a number."
        )
    state = load_state(params)

    # What is settled is settled: an answer that comes in a later round does not change it.
    if state is None:
        answer = answer_to("resolution", params)
        if answer is None:
            return ask(ctx, "resolution", which_resolution(item))
        if answer.action != "accept":
            return not_closed(item, "resolution", answer)
        state = State(resolution=fitting_resolution(answer))

    outcome: str = state.resolution
    if state.resolution == "duplicate":
        answer = answer_to("original", params)
        if answer is None:
            # The next round does not carry the resolution again, so it goes into the state.
            return ask(ctx, "original", which_original(item), state)
        if answer.action != "accept":
            return not_closed(item, "original", answer)
        outcome = f"duplicate of {fitting_original(answer, item)}"

    # The effect, below the last question. Setting a value is the same done once or twice, so a last
    # round that is sent again does no harm here. Sending a mail would.
    ctx.lifespan_context[item] = outcome
    return text(f"Item {item} is closed: {outcome}.")


def load_state(params: types.CallToolRequestParams) -> State | None:
    """Return what an earlier round put into the state, or None without a state.

    Raises:
        MCPError: -32602, for a genuine state that an older version of this code wrote.
    """
    if params.request_state is None:
        return None
    try:
        return State.model_validate_json(params.request_state)
    except ValidationError:
        raise MCPError(
            types.INVALID_PARAMS,
            "Invalid or expired requestState",
            {"reason": "invalid_request_state"},
        ) from None


# --- the questions ------------------------------------------------------------------------------


def which_resolution(item: int) -> types.ElicitRequest:
    """Return the question "resolution"."""
    return form(
        f"How was item {item} resolved?",
        {"resolution": {"type": "string", "title": "Resolution", "enum": [*get_args(Resolution)]}},
    )


def which_original(item: int) -> types.ElicitRequest:
    """Return the question "original", which is asked only of a duplicate."""
    return form(
        f"Which item is {item} a duplicate of?",
        {"original": {"type": "integer", "title": "Original item", "minimum": 1}},
    )


def form(message: str, properties: dict[str, Any]) -> types.ElicitRequest:
    """Return a form with these fields, all of them required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def ask(
    ctx: ServerRequestContext[Tracker, Any],
    key: str,
    question: types.ElicitRequest,
    state: State | None = None,
) -> types.CallToolResult | types.InputRequiredResult:
    """Move one: end this round with a question, if the client can be asked (see `basic`)."""
    if not can_ask(ctx):
        return text(f"Nothing was closed: this client cannot be asked for {key!r}.", is_error=True)
    return types.InputRequiredResult(
        input_requests={key: question},
        request_state=None if state is None else state.model_dump_json(),
    )


# --- the answers --------------------------------------------------------------------------------


def answer_to(key: str, params: types.CallToolRequestParams) -> types.ElicitResult | None:
    """Move two: this round's answer to a question, or None if it is missing.

    Raises:
        MCPError: -32602, for an answer that is not the answer to a form.
    """
    answer = (params.input_responses or {}).get(key)
    if answer is None or isinstance(answer, types.ElicitResult):
        return answer
    raise bad_answer(key, "it is not the result of an elicitation")


def fitting_resolution(answer: types.ElicitResult) -> Resolution:
    """Return the answer to "resolution".

    Raises:
        MCPError: -32602, for an answer that does not fit.
    """
    given = (answer.content or {}).get("resolution")
    for resolution in get_args(Resolution):
        if given == resolution:
            return resolution
    raise bad_answer("resolution", f"it is none of {', '.join(get_args(Resolution))}")


def fitting_original(answer: types.ElicitResult, item: int) -> int:
    """Return the answer to "original".

    Raises:
        MCPError: -32602, for an answer that does not fit.
    """
    original = item_number((answer.content or {}).get("original"))
    if original is None:
        raise bad_answer("original", "it is not an item's number")
    if original == item:
        raise bad_answer("original", "an item is not its own duplicate")
    return original


def item_number(given: object) -> int | None:
    """Return an item's number, or None if this is not a number. In Python, True is an int."""
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 1 else None


def not_closed(item: int, key: str, answer: types.ElicitResult) -> types.CallToolResult:
    """Return the result of a question that was declined or cancelled."""
    what = "declined" if answer.action == "decline" else "cancelled"
    return text(f"Item {item} stays open: the question {key!r} was {what}.")


# --- the server ---------------------------------------------------------------------------------


def build_server(keys: Sequence[bytes], tracker: Tracker) -> Server[Tracker]:
    """Build one instance of the server.

    Args:
        keys: The keys of the state, at least 32 bytes each. The first key seals; all keys open.
        tracker: The world outside.
    """

    @asynccontextmanager
    async def lifespan(_: Server[Tracker]) -> AsyncGenerator[Tracker]:
        yield tracker

    server = Server(
        "tracker",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_close_item,
        lifespan=lifespan,
    )
    # The lowlevel server does not protect the state unless told to: a handler without this line
    # takes whatever the client sends.
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity(keys=keys), default_audience=server.name)
    )
    return server


async def list_tools(
    ctx: ServerRequestContext[Tracker, Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List the server's one tool."""
    close_item = types.Tool(
        name=TOOL,
        description="Closes a work item. Asks how it was resolved and, for a duplicate,"
        " of which item.",
        input_schema={
            "type": "object",
            "properties": {"item": {"type": "integer", "minimum": 1}},
            "required": ["item"],
        },
    )
    return types.ListToolsResult(tools=[close_item])


# --- the other end ------------------------------------------------------------------------------

CLOSE = Request("tools/call", TOOL, {"item": 7})


async def demonstrate() -> None:
    """Close item 7 as a duplicate of 3 over two instances, then try a changed state.

    Raises:
        Surprise: Something else happened.
    """
    tracker: Tracker = {}
    keys = [secrets.token_bytes(32)]
    # Two servers that share only the keys and the tracker. In production: two processes, one key.
    a = build_server(keys, tracker)
    b = build_server(keys, tracker)

    print("\nInstances A and B take turns")
    says = "question resolution: How was item 7 resolved?"
    first = await play(a, CLOSE, says=says, at="to A: ")
    answers: types.InputResponses = {"resolution": accept(resolution="duplicate")}
    says = "question original: Which item is 7 a duplicate of?"
    second = await play(b, CLOSE, answers, first, says=says, at="to B: ")
    expect("the tracker before the last answer", tracker, {})
    answers = {"original": accept(original=3)}
    says = "result: Item 7 is closed: duplicate of 3."
    await play(a, CLOSE, answers, second, says=says, at="to A: ")
    expect("the tracker", tracker, {7: "duplicate of 3"})

    print("\nThe client changes the state (why it is refused is for the server's log only)")
    tracker.clear()
    changed = types.InputRequiredResult(request_state=tampered(state_of(second) or ""))
    says = "error -32602: Invalid or expired requestState"
    await play(a, CLOSE, answers, changed, says=says, at="to A: ")
    expect("the tracker", tracker, {})


if __name__ == "__main__":
    start(demonstrate, __doc__)
