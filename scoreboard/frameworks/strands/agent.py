"""The weather tool in Strands Agents: one tool that calls `interrupt` for each question."""

import json

import tool as weather
from strands import Agent, ToolContext, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager


class Scripted(Model):
    """A model that calls the tool, and ends with its result."""

    def update_config(self, **config) -> None:
        pass

    def get_config(self) -> dict:
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, *args, **kwargs):
        last = messages[-1]["content"][0]
        yield {"messageStart": {"role": "assistant"}}
        if "toolResult" in last:
            yield {"contentBlockStart": {"start": {}}}
            yield {
                "contentBlockDelta": {"delta": {"text": last["toolResult"]["content"][0]["text"]}}
            }
        else:
            call = {"name": "look_up", "toolUseId": "call-1"}
            yield {"contentBlockStart": {"start": {"toolUse": call}}}
            said = json.dumps({"location": last["text"]})
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": said}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if "toolResult" in last else "tool_use"}}


@tool(context=True)
def look_up(tool_context: ToolContext, location: str) -> str:
    """Bill a lookup, and return today's weather."""
    weather.audit(location)
    place = tool_context.interrupt("place", reason=weather.which_place(location))
    if weather.CONSENT and not tool_context.interrupt("consent", reason=weather.may_bill(place)):
        return "No lookup was made."
    units = tool_context.interrupt("units", reason=weather.which_units(place))
    weather.bill(place)
    return weather.report(place, units)


def run(call: str, what) -> dict:
    session = FileSessionManager(session_id=call, storage_dir=str(weather.STORE))
    agent = Agent(model=Scripted(), tools=[look_up], session_manager=session, callback_handler=None)
    result = agent(what)
    if result.stop_reason != "interrupt":
        return weather.done(str(result).strip())
    (pending,) = result.interrupts
    return weather.asked(pending.reason, {"session": call, "interrupt": pending.id})


def start(call: str, location: str, user: str) -> dict:
    return run(call, location)


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    answer = {"interruptId": pause["interrupt"], "response": value}
    return run(pause["session"], [{"interruptResponse": answer}])


if __name__ == "__main__":
    weather.deliver(start, resume)
