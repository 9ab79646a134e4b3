"""The weather tool in the OpenAI Agents SDK: a person approves the place, and then the lookup.

An approval is yes or no, so the scripted model proposes what this user wants; another answer
rejects it.
"""

import asyncio
import json
import sys

import tool
from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    RunState,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

CARRIES = sys.argv[1:] == ["carried"]
"""The caller holds the run's state, and not only its name."""
PLACE, UNITS, REJECTED = "Springfield, Missouri", "imperial", "No lookup was made."


@function_tool
def log_lookup(location: str) -> str:
    tool.audit(location)
    return "logged"


@function_tool(needs_approval=True)
def choose_place(place: str) -> str:
    return place


@function_tool(needs_approval=True)
def consent(place: str) -> str:
    return "yes"


@function_tool(needs_approval=True, failure_error_function=None)
def look_up(place: str, units: str) -> str:
    tool.bill(place)
    return tool.report(place, units)


class Scripted(Model):
    """A model that calls the tools in order, and ends with the last tool's result."""

    async def get_response(self, system_instructions, input, *args, **kwargs) -> ModelResponse:
        said = [each["output"] for each in input if each.get("type") == "function_call_output"]
        called = {each["name"] for each in input if each.get("type") == "function_call"}
        plan = {"log_lookup": {"location": input[0]["content"]}, "choose_place": {"place": PLACE}}
        plan |= {"consent": {"place": PLACE}} if tool.CONSENT and "look_up" not in called else {}
        plan |= {"look_up": {"place": PLACE, "units": UNITS}}
        left = [] if REJECTED in said else [name for name in plan if name not in called]
        if left:
            ids = {"call_id": f"call_{left[0]}", "type": "function_call"}
            out = ResponseFunctionToolCall(name=left[0], arguments=json.dumps(plan[left[0]]), **ids)
        else:
            text = ResponseOutputText(text=said[-1], type="output_text", annotations=[])
            how = {"role": "assistant", "status": "completed", "type": "message"}
            out = ResponseOutputMessage(id="end", content=[text], **how)
        return ModelResponse(output=[out], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


set_tracing_disabled(True)
agent = Agent(name="weather", model=Scripted(), tools=[log_lookup, choose_place, consent, look_up])


async def run(call: str, what) -> dict:
    result = await Runner.run(agent, what)
    state = result.to_state().to_string()
    (tool.STORE / call).write_text(state)
    if not result.interruptions:
        return tool.done(result.final_output)
    (pending,) = result.interruptions
    asks = {"choose_place": tool.which_place("Springfield"), "consent": tool.may_bill(PLACE)}
    pause = {"call": call, "id": pending.call_id} | ({"state": state} if CARRIES else {})
    return tool.asked(asks.get(pending.name) or tool.which_units(PLACE), pause)


def start(call: str, location: str, user: str) -> dict:
    return asyncio.run(run(call, location))


async def answered(pause: dict, name: str, value: str) -> dict:
    text = pause["state"] if CARRIES else (tool.STORE / pause["call"]).read_text()
    state = await RunState.from_string(agent, text)
    asked = [each for each in state.get_interruptions() if each.call_id == pause["id"]]
    if not asked:  # that approval is taken: the run goes on from where it is
        return await run(pause["call"], state)
    (pending,) = asked
    if value in (*json.loads(pending.arguments).values(), "yes"):
        state.approve(pending)
    else:
        state.reject(pending, rejection_message=REJECTED)
    return await run(pause["call"], state)


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    return asyncio.run(answered(pause, name, value))


if __name__ == "__main__":
    tool.deliver(start, resume)
