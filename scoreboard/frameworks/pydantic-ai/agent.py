"""The weather tool in Pydantic AI: each question is a tool call that waits for approval."""

import sys

import tool
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    RunContext,
    ToolApproved,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

CARRIES = sys.argv[1:] == ["carried"]
"""The caller holds the messages, and not only their name."""

DECLARED = sys.argv[1:] == ["declared"]
"""Each tool is declared to require approval, so that it runs when it is approved."""


def scripted(messages, info) -> ModelResponse:
    """Return the call of the next tool, or the last tool's result."""
    returned = {
        part.tool_name: part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    plan = ["choose_place", "agree", "look_up"] if tool.CONSENT else ["choose_place", "look_up"]
    left = [] if "look_up" in returned else [name for name in plan if name not in returned]
    if not left:
        return ModelResponse(parts=[TextPart(returned["look_up"])])
    known = messages[0].parts[0].content if left[0] == "choose_place" else returned["choose_place"]
    args = {"location" if left[0] == "choose_place" else "place": known}
    return ModelResponse(parts=[ToolCallPart(left[0], args, tool_call_id=f"call-{left[0]}")])


agent = Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests])


@agent.tool(requires_approval=DECLARED)
def choose_place(ctx: RunContext, location: str, place: str = "") -> str:
    tool.audit(location)
    if not ctx.tool_call_approved:
        raise ApprovalRequired
    return place


@agent.tool(requires_approval=DECLARED)
def agree(ctx: RunContext, place: str, consent: str = "") -> str:
    if not ctx.tool_call_approved:
        raise ApprovalRequired
    return consent


@agent.tool(requires_approval=DECLARED)
def look_up(ctx: RunContext, place: str, units: str = "") -> str:
    if not ctx.tool_call_approved:
        raise ApprovalRequired
    tool.bill(place)
    return tool.report(place, units)


QUESTIONS = {
    "choose_place": lambda args: tool.which_place(args["location"]),
    "agree": lambda args: tool.may_bill(args["place"]),
    "look_up": lambda args: tool.which_units(args["place"]),
}


def outcome(call: str, result) -> dict:
    messages = result.all_messages_json().decode()
    (tool.STORE / call).write_text(messages)
    if not isinstance(result.output, DeferredToolRequests):
        return tool.done(result.output)
    (pending,) = result.output.approvals
    question = QUESTIONS[pending.tool_name](pending.args_as_dict())
    pause = {"call": call, "id": pending.tool_call_id}
    return tool.asked(question, pause | ({"messages": messages} if CARRIES else {}))


def start(call: str, location: str, user: str) -> dict:
    return outcome(call, agent.run_sync(location))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    text = pause["messages"] if CARRIES else (tool.STORE / pause["call"]).read_text()
    messages = ModelMessagesTypeAdapter.validate_json(text)
    (last,) = messages[-1].parts
    args = last.args_as_dict() if isinstance(last, ToolCallPart) else {}
    approved = ToolApproved(override_args=args | {name: value})
    result = agent.run_sync(
        message_history=messages,
        deferred_tool_results=DeferredToolResults(approvals={pause["id"]: approved}),
    )
    return outcome(pause["call"], result)


if __name__ == "__main__":
    tool.deliver(start, resume)
