"""The weather tool in Strands Agents: a hook asks before a tool call, and fills in the answer."""

import json

import tool as weather
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager


class Scripted(Model):
    """A model that calls the tools in order, and ends with the last tool's result."""

    def update_config(self, **config) -> None:
        pass

    def get_config(self) -> dict:
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, *args, **kwargs):
        blocks = [block for message in messages for block in message["content"]]
        names = [block["toolUse"]["name"] for block in blocks if "toolUse" in block]
        results = [
            block["toolResult"]["content"][0]["text"] for block in blocks if "toolResult" in block
        ]
        told = dict(zip(names, results, strict=False))
        consent = {"agree": {"place": told.get("choose_place")}} if weather.CONSENT else {}
        plan = {
            "log_lookup": {"location": blocks[0]["text"]},
            "choose_place": {"location": blocks[0]["text"]},
            **consent,
            "look_up": {"place": told.get("choose_place")},
        }
        left = [] if "look_up" in told else [name for name in plan if name not in told]
        yield {"messageStart": {"role": "assistant"}}
        if left:
            name = left[0]
            call = {"name": name, "toolUseId": f"call-{name}"}
            given = json.dumps(plan[name])
            yield {"contentBlockStart": {"start": {"toolUse": call}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": told["look_up"]}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if left else "end_turn"}}


@tool
def log_lookup(location: str) -> str:
    """Log that the weather of a location was asked for."""
    weather.audit(location)
    return location


@tool
def choose_place(location: str, place: str = "") -> str:
    """Choose one of the places with this name."""
    return place


@tool
def agree(place: str, consent: str = "") -> str:
    """Agree to the bill."""
    return consent


@tool
def look_up(place: str, units: str = "") -> str:
    """Bill a lookup, and return today's weather."""
    weather.bill(place)
    return weather.report(place, units)


QUESTIONS = {
    "choose_place": lambda given: weather.which_place(given["location"]),
    "agree": lambda given: weather.may_bill(given["place"]),
    "look_up": lambda given: weather.which_units(given["place"]),
}


class Asks(HookProvider):
    """A hook that asks the user before a tool call, and gives the answer to the tool."""

    def register_hooks(self, registry: HookRegistry, **kwargs) -> None:
        registry.add_callback(BeforeToolCallEvent, self.ask)

    def ask(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] not in QUESTIONS:
            return
        question = QUESTIONS[event.tool_use["name"]](event.tool_use["input"])
        answer = event.interrupt(question["key"], reason=question)
        event.tool_use["input"][question["key"]] = answer


def run(call: str, what) -> dict:
    session = FileSessionManager(session_id=call, storage_dir=str(weather.STORE))
    agent = Agent(
        model=Scripted(),
        tools=[log_lookup, choose_place, agree, look_up],
        hooks=[Asks()],
        session_manager=session,
        callback_handler=None,
    )
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
