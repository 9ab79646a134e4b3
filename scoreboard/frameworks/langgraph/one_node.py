"""The weather tool as one LangGraph node that calls `interrupt` for each question."""

import sys
from typing import TypedDict

import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

BY_ID = sys.argv[1:] == ["id"]
"""Whether an answer names the interrupt that it is for."""


class State(TypedDict, total=False):
    location: str
    report: str


def weather(state: State) -> State:
    location = state["location"]
    tool.audit(location)
    names = tool.places(location)
    place = names[0] if len(names) == 1 else interrupt(tool.which_place(location))
    if tool.CONSENT and not interrupt(tool.may_bill(place)):
        return {"report": "No lookup was made."}
    units = interrupt(tool.which_units(place))
    tool.bill(place)
    return {"report": tool.report(place, units)}


def run(what, thread: str) -> dict:
    with SqliteSaver.from_conn_string(str(tool.STORE / "checkpoints.sqlite")) as saver:
        builder = StateGraph(State)
        builder.add_node("weather", weather)
        builder.add_edge(START, "weather")
        graph = builder.compile(checkpointer=saver)
        found = graph.invoke(what, {"configurable": {"thread_id": thread}})
    if "__interrupt__" in found:
        (pending,) = found["__interrupt__"]
        ids = {"interrupt": pending.id} if BY_ID else {}
        return tool.asked(pending.value, {"thread": thread} | ids)
    return tool.done(found["report"])


def start(call: str, location: str, user: str) -> dict:
    return run({"location": location}, call)


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    answer = {pause["interrupt"]: value} if BY_ID else value
    return run(Command(resume=answer), pause["thread"])


if __name__ == "__main__":
    tool.deliver(start, resume)
